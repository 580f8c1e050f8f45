/* SPDX-License-Identifier: MIT */
/*
 * Can the shim be loaded into the program at all?
 *
 * Where it cannot, the dynamic linker says nothing, or one line, and the
 * program runs unlocked (ld.so(8): LD_PRELOAD is ignored in secure-execution
 * mode; a static program has no dynamic linker).  So we look first:
 *
 *  1. What is looked at MUST be what the kernel will run: `#!` lines are
 *     followed (execve(2)), and `env` as an interpreter to what it names.
 *  2. What cannot be looked at is refused as well: fail closed (DESIGN L8).
 *  3. --allow-unlocked turns a refusal into a warning, never into silence.
 *
 * Out of sight: what the program itself starts, but for programs that are
 * there to start another one (run_away.c).
 */
#include "tools/run.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/common.h"
#include "tools/common_elf.h"

enum {
	SCRIPTS_MAX = 4,
	LINE_MAX_KERNEL = 256, /* BINPRM_BUF_SIZE, Linux 5.1 */
};

/* One file on the way from the command to the ELF image. */
struct link {
	struct elf_facts elf;
	char line[LINE_MAX_KERNEL]; /* after "#!"; "" for none */
};

static void first_line(const char *image, size_t size, char *line)
{
	size_t n = size < LINE_MAX_KERNEL ? size : LINE_MAX_KERNEL - 1;

	line[0] = '\0';
	if (n < 2 || memcmp(image, "#!", 2))
		return;
	memcpy(line, image + 2, n - 2);
	line[n - 2] = '\0';
	line[strcspn(line, "\n")] = '\0';
}

static int look(const char *file, struct link *link)
{
	void *image;
	size_t size;
	int err = tool_map(file, &image, &size);

	*link = (struct link){ 0 };
	if (err || !size)
		return err;
	elf_inspect(image, size, &link->elf);
	first_line(image, size, link->line);
	munmap(image, size);
	return 0;
}

/*
 * The program that a script's first line runs.  The kernel passes the rest of
 * the line as one argument; of `env` it is the program that matters.
 */
static int interpreter(char *line, char *file)
{
	char *name = line + strspn(line, " \t");
	char *arg = name + strcspn(name, " \t");
	const char *base;

	if (*arg)
		*arg++ = '\0';
	arg += strspn(arg, " \t");
	arg[strcspn(arg, " \t")] = '\0';
	base = strrchr(name, '/');
	if (base && !strcmp(base, "/env") && *arg && *arg != '-' &&
	    !strchr(arg, '='))
		name = arg;
	return run_search(name, file);
}

/* Does the kernel change the identity of who runs this file (execve(2))? */
static const char *privileged(const char *file)
{
	struct statvfs fs;
	struct stat st;

	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
	    (!statvfs(file, &fs) && (fs.f_flag & ST_NOSUID)))
		return NULL;
	if (stat(file, &st))
		return strerror(errno);
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		return "it is set-user-ID: the dynamic linker ignores "
		       "LD_PRELOAD";
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) &&
	    st.st_gid != getgid())
		return "it is set-group-ID: the dynamic linker ignores "
		       "LD_PRELOAD";
	if (getuid() && getxattr(file, "security.capability", NULL, 0) > 0)
		return "it has file capabilities: the dynamic linker ignores "
		       "LD_PRELOAD";
	return NULL;
}

/*
 * From the command's file to the ELF image that the kernel starts for it;
 * `file` becomes that one's.  0, an exit code, or -errno.
 */
static int follow(char *file, struct link *link)
{
	for (int i = 0; i <= SCRIPTS_MAX; i++) {
		int rc = look(file, link);

		if (rc)
			return rc;
		if (link->elf.is_elf)
			return 0;
		/* execvp(3) gives what is no executable to the shell. */
		if (!*link->line)
			strcpy(link->line, "/bin/sh");
		rc = interpreter(link->line, file);
		if (rc)
			return rc;
	}
	return -ELOOP;
}

/*
 * The libraries of both sizes are preloaded, where the program's own dynamic
 * linker finds that of its size, and the system's, for what it starts, the other.
 */
static void take_both(struct run_plan *plan, const struct elf_facts *program,
		      struct elf_facts *shim)
{
	const uint8_t class =
		program->class == ELFCLASS32 ? ELFCLASS32 : ELFCLASS64;
	const uint8_t other = ELFCLASS32 + ELFCLASS64 - class;
	struct elf_facts own, others;

	if (strcmp(plan->shim, DLK_LIBDIR "/libdlock-preload.so") != 0 ||
	    !tool_library_of("", other, &others) ||
	    !tool_library_of(program->interp, class, &own))
		return;
	strcpy(plan->shim, DLK_BOTH_LIBRARIES);
	*shim = own;
}

static int check_shim(char *shim, struct link *link)
{
	int err;

	tool_beside("libdlock-preload.so", DLK_LIBDIR "/libdlock-preload.so",
		    R_OK, shim);
	err = look(shim, link);
	if (!err && !link->elf.is_elf)
		err = -ENOEXEC;
	if (err)
		return tool_fail(DLK_EXIT_CANNOT, "%s: %s", shim,
				 strerror(-err));
	if (strpbrk(shim, " :"))
		return tool_fail(DLK_EXIT_CANNOT,
				 "%s: a library whose path has a space or a "
				 "colon cannot be preloaded",
				 shim);
	return 0;
}

static int refuse(const struct run_options *opt, const char *file,
		  const char *reason)
{
	const char *command = opt->argv[0];

	if (opt->allow_unlocked)
		tool_say("warning: %s runs UNLOCKED: %s: %s", command, file,
			 reason);
	else
		tool_say("%s: cannot be locked: %s: %s (--allow-unlocked runs "
			 "it all the same)",
			 command, file, reason);
	return opt->allow_unlocked ? 0 : DLK_EXIT_CANNOT;
}

int run_check(const struct run_options *opt, struct run_plan *plan)
{
	char file[DLK_PATH_MAX];
	struct link shim = { 0 }, program = { 0 };
	const char *reason;
	int rc = check_shim(plan->shim, &shim);

	if (!rc)
		rc = run_search(opt->argv[0], plan->program);
	if (rc)
		return rc;
	strcpy(file, plan->program);
	rc = follow(file, &program);
	if (rc > 0)
		return rc;
	if (rc == -ELOOP)
		reason = "too many scripts in a row";
	else if (rc)
		reason = strerror(-rc);
	else
		reason = privileged(file);
	take_both(plan, &program.elf, &shim.elf);
	if (!reason)
		reason = elf_refusal(&program.elf, &shim.elf);
	if (!reason)
		reason = run_away(opt->argv);
	return reason ? refuse(opt, file, reason) : 0;
}
