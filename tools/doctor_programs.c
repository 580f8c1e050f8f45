/* SPDX-License-Identifier: MIT */
/*
 * The programs that run now: who has a managed file open and has not the
 * library, and who has it and goes by other rules than the file has now; see
 * doctor.h.
 *
 * A lock of a program without the library holds in this kernel only.  Nothing
 * here opens a managed file: names are those that /proc shows.  But the program
 * itself is opened, and the name of its configuration, which is any user's word, is
 * looked for: their file servers may hang, so all of it is done apart.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "model/fdinfo.h"
#include "model/text.h"
#include "model/timeline.h"
#include "os/proc.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/common_elf.h"
#include "tools/doctor.h"
#include "tools/processes.h"

/* A start is known to a tick of the kernel, 10 ms. */
enum { TICK_SLACK_MS = 50, AT_SECURE_TYPE = 23 };

#define ANY_DLOCK "dlock"

struct program {
	unsigned pid;
	char command[32];
};

/* --- each process --------------------------------------------------------- */

typedef void program_fn(struct doctor *d, const struct program *p);

/* Ours know what they do: dlock-keeper, dlockctl, dlock. */
static bool is_ours(const struct program *p)
{
	return !strncmp(p->command, ANY_DLOCK, strlen(ANY_DLOCK));
}

static void each_program(struct doctor *d, program_fn *fn)
{
	DIR *dir = opendir("/proc");
	struct program p;

	while ((p.pid = proc_next(&dir)))
		if (proc_command(p.pid, p.command, sizeof(p.command)) &&
		    !is_ours(&p))
			fn(d, &p);
}

/* A word of its environment as it began: "NAME=" and its value, or NULL. */
static bool environment(const struct program *p, const char *name, char *value,
			size_t size)
{
	FILE *f = fopen(proc_file(p->pid, "environ"), "re");
	size_t len = strlen(name), room = 0;
	char *word = NULL;
	bool found = false;

	while (f && !found && getdelim(&word, &room, '\0', f) > 0)
		if (!strncmp(word, name, len) && word[len] == '=') {
			snprintf(value, size, "%s", word + len + 1);
			found = true;
		}
	free(word);
	if (f)
		fclose(f);
	return found;
}

/* --- who has not the library ---------------------------------------------- */

/* What it has open. */
struct open_file {
	char path[DLK_PATH_MAX + 16];
	size_t more; /* than that one */
	bool locked;
};

static bool sees_lock(void *arg, const char *line)
{
	struct dlk_lock_line lock;

	if (strncmp(line, "lock:", 5) != 0 || !dlk_lock_line(line, &lock) ||
	    lock.waits)
		return true;
	*(bool *)arg = true;
	return false;
}

static void look_at_fd(const struct doctor *d, const struct program *p,
		       const char *fd, struct open_file *found)
{
	static const char deleted[] = " (deleted)";
	char name[80], path[sizeof(found->path)];
	bool locked = false;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%u/fd/%.20s", p->pid, fd);
	n = readlink(name, path, sizeof(path) - 1);
	if (n <= 0 || path[0] != '/')
		return;
	path[n] = '\0';
	if ((size_t)n > sizeof(deleted) &&
	    !strcmp(path + n - (sizeof(deleted) - 1), deleted))
		path[n -= sizeof(deleted) - 1] = '\0';
	if (!dlk_config_match(d->config, path, (size_t)n))
		return;
	snprintf(name, sizeof(name), "/proc/%u/fdinfo/%.20s", p->pid, fd);
	dlk_each_line(name, sees_lock, &locked);
	found->more += *found->path != '\0';
	if (!*found->path || (locked && !found->locked))
		strcpy(found->path, path);
	found->locked = found->locked || locked;
}

/* False: we may not look. */
static bool look_at_fds(const struct doctor *d, const struct program *p,
			struct open_file *found)
{
	DIR *dir = opendir(proc_file(p->pid, "fd"));
	bool may = dir || errno != EACCES;
	const char *fd;

	while ((fd = names_next(&dir)))
		look_at_fd(d, p, fd, found);
	return may;
}

/* What the kernel told ld.so (getauxval(3)). */
static bool is_secure(const struct program *p)
{
	uint64_t pairs[128];
	ssize_t n = dlk_slurp(proc_file(p->pid, "auxv"), (char *)pairs,
			      sizeof(pairs));

	for (ssize_t i = 0; i + 16 <= n; i += 16)
		if (pairs[i / 8] == AT_SECURE_TYPE)
			return pairs[i / 8 + 1];
	return false;
}

struct reason {
	const char *why, *remedy;
};

/* This program itself is built as the library is, or the other size's is there. */
static struct reason find_reason(const struct program *p)
{
	static const char wrap[] =
		"let a program that can be preloaded take the lock for it: "
		"dlock run flock FILE COMMAND";
	struct elf_facts program = { 0 }, own = { 0 };
	const char *refusal = NULL;
	char text[512];

	if (tool_inspect(proc_file(p->pid, "exe"), &program) &&
	    ((program.class == ELFCLASS32 &&
	      tool_library_of("", ELFCLASS32, &own)) ||
	     tool_inspect("/proc/self/exe", &own)))
		refusal = elf_refusal(&program, &own);
	if (refusal)
		return (struct reason){ refusal, wrap };
	if (is_secure(p))
		return (struct reason){
			"it runs set-user-ID or with file capabilities: the "
			"dynamic linker ignores LD_PRELOAD",
			wrap
		};
	if (environment(p, "LD_PRELOAD", text, sizeof(text)) &&
	    strstr(text, "libdlock-preload"))
		return (struct reason){
			"LD_PRELOAD names the library, and it was not loaded: "
			"it was not there, or not readable, when the program "
			"began",
			"make install, and restart the program"
		};
	if (environment(p, "SUDO_USER", text, sizeof(text)))
		return (struct reason){
			"sudo gave it an environment without LD_PRELOAD",
			"write dlock run behind sudo: sudo dlock run COMMAND"
		};
	return (struct reason){
		"it was started without LD_PRELOAD, perhaps before the rule "
		"was made",
		"restart it under dlock run, or with LD_PRELOAD in its "
		"service's environment"
	};
}

static size_t unseen;

static void look_at_program(struct doctor *d, const struct program *p)
{
	struct open_file found = { .path = "" };
	struct reason reason;
	char more[48] = "", why[512];

	if (!look_at_fds(d, p, &found))
		unseen++;
	if (!*found.path || dlk_kernel_is_preloaded((pid_t)p->pid))
		return;
	doctor_looks("why process %u (%s) has %s %s without dlock", p->pid,
		     p->command, found.locked ? "locked" : "open", found.path);
	reason = find_reason(p);
	if (found.more)
		snprintf(more, sizeof(more), " (and %zu more)", found.more);
	snprintf(why, sizeof(why), "%s; its locks hold on this host only",
		 reason.why);
	doctor_find(d, found.locked ? DOCTOR_CRITICAL : DOCTOR_WARNING, why,
		    reason.remedy, "process %u (%s) has %s %s%s without dlock",
		    p->pid, p->command, found.locked ? "locked" : "open",
		    found.path, more);
}

void doctor_programs(struct doctor *d)
{
	unseen = 0;
	each_program(d, look_at_program);
	if (unseen)
		doctor_find(d, DOCTOR_UNKNOWN,
			    "one that has a managed file open without the "
			    "library is not seen",
			    "run doctor as root",
			    "%zu processes of other users cannot be looked at",
			    unseen);
}

/* --- by which rules ------------------------------------------------------- */

/* -1: it is gone. */
static int64_t started_ms(const struct program *p)
{
	char text[1024] = "";
	uint64_t ticks;

	dlk_slurp(proc_file(p->pid, "stat"), text, sizeof(text));
	if (!dlk_number(dlk_stat_field(text, 22), 10, &ticks))
		return -1;
	return (int64_t)(ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* When the file came to be as it is, counted as a start is; by its ctime. */
static int64_t changed_ms(const struct stat *st)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)(dlk_now_ns() / DLK_MS) -
	       (int64_t)(now.tv_sec - st->st_ctim.tv_sec) * 1000 -
	       (now.tv_nsec - st->st_ctim.tv_nsec) / 1000000;
}

/* Does it go by this configuration file? */
static bool reads(const struct program *p, const struct stat *file)
{
	char name[DLK_PATH_MAX];
	struct stat st;

	if (!environment(p, "DLOCK_CONFIG", name, sizeof(name)) || !*name)
		strcpy(name, DLK_CONFIG_DEFAULT);
	doctor_looks("whether process %u (%s) goes by older rules, of %s",
		     p->pid, p->command, name);
	return !stat(name, &st) && st.st_dev == file->st_dev &&
	       st.st_ino == file->st_ino;
}

static void look_at_age(struct doctor *d, const struct program *p)
{
	struct stat file;
	int64_t started;

	if (!dlk_kernel_is_preloaded((pid_t)p->pid) ||
	    stat(d->config->file, &file) || !reads(p, &file))
		return;
	started = started_ms(p);
	if (started < 0 || started + TICK_SLACK_MS > changed_ms(&file))
		return;
	doctor_find(d, DOCTOR_WARNING,
		    "programs read the rules when they start: it goes on by "
		    "those of then, with other keys perhaps than new ones have",
		    "restart it, at a moment at which it holds no lock",
		    "process %u (%s) runs since before %s was changed", p->pid,
		    p->command, d->config->file);
}

void doctor_older(struct doctor *d)
{
	each_program(d, look_at_age);
}

static void look_at_switch(struct doctor *d, const struct program *p)
{
	char value[8];

	if (!environment(p, "DLOCK_DISABLE", value, sizeof(value)) ||
	    strcmp(value, "1") != 0 || !dlk_kernel_is_preloaded((pid_t)p->pid))
		return;
	doctor_find(d, DOCTOR_WARNING,
		    "the library is loaded and does nothing: its locks hold on "
		    "this host only",
		    "take DLOCK_DISABLE out of its environment, and restart it",
		    "process %u (%s) runs with DLOCK_DISABLE=1", p->pid,
		    p->command);
}

void doctor_disabled(struct doctor *d)
{
	each_program(d, look_at_switch);
}
