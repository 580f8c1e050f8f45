/* SPDX-License-Identifier: MIT */
/*
 * A program that changes what it may do, and where it is, while it locks.
 *
 *	obey FILE		opens FILE; then a command a line on standard
 *				input, a line of answer on standard output
 *	storm FILE N		a thread locks and unlocks FILE N times while
 *				main goes to and fro between two users, N times
 *	leave FILE MS		a thread locks FILE, main is gone by
 *				pthread_exit(3); MS later the thread ends
 *	dies FILE		main, which locks FILE, is the only thread and
 *				ends by pthread_exit(3)
 *
 *	waits FILE [reaper]		locks FILE, makes a child that locks
 *				FILE.child and is killed; after which wait(2)
 *				ends: how many there were, how many SIGCHLD.
 *				Or unlocks, and waits as a subreaper
 *
 * Commands; CALL answers 0 or -1 with the errno, which is 77 before:
 *
 *	lock | nb | unlock | fork	fork: a child that locks anew: its
 *					RESULT
 *	call NAME NUMBER...		setuid(2) and so on
 *	call initgroups NAME NUMBER
 *	call drop CAPABILITY...		capset(2) without these
 *	call keepcaps NUMBER
 *	call unshare FLAG...		newuser, newns, newpid, files ...
 *	call setns TYPE [PATH]		of PATH, or the type of our own
 *	call chroot DIR
 *	who				ids, groups and capabilities
 *	threads				how many there are
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { ARGS = 8, BEFORE = 77 };

int capget(void *header, void *data);
int capset(void *header, const void *data);

static int file;

static const struct {
	const char *name;
	int flag;
} namespaces[] = {
	{ "newuser", CLONE_NEWUSER }, { "newns", CLONE_NEWNS },
	{ "newnet", CLONE_NEWNET },   { "newuts", CLONE_NEWUTS },
	{ "newipc", CLONE_NEWIPC },   { "newpid", CLONE_NEWPID },
	{ "files", CLONE_FILES },     { "fs", CLONE_FS },
};

static int flag_of(const char *name)
{
	for (size_t i = 0; i < sizeof(namespaces) / sizeof(*namespaces); i++)
		if (strcmp(namespaces[i].name, name) == 0)
			return namespaces[i].flag;
	return 0;
}

static int do_unshare(char **arg, const long *n)
{
	int flags = 0;

	(void)n;
	for (; *arg; arg++)
		flags |= flag_of(*arg);
	return unshare(flags);
}

static int do_setns(char **arg, const long *n)
{
	char path[64];
	int fd, r, err;

	(void)n;
	snprintf(path, sizeof(path), "/proc/self/ns/%.20s", arg[0] + 3);
	fd = open(arg[1] ? arg[1] : path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	errno = BEFORE;
	r = setns(fd, arg[1] ? 0 : flag_of(arg[0]));
	err = errno;
	close(fd);
	errno = err;
	return r;
}

static int do_drop(char **arg, const long *n)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	if (capget(&h, d))
		return -1;
	for (; *arg; arg++, n++) {
		d[*n / 32].permitted &= ~(1U << *n % 32);
		d[*n / 32].effective &= ~(1U << *n % 32);
	}
	return capset(&h, d);
}

static int do_setgroups(char **arg, const long *n)
{
	gid_t list[ARGS];
	size_t count = 0;

	for (; arg[count]; count++)
		list[count] = (gid_t)n[count];
	return setgroups(count, list);
}

static int do_initgroups(char **arg, const long *n)
{
	return initgroups(arg[0], (gid_t)n[1]);
}

static int do_keepcaps(char **arg, const long *n)
{
	(void)arg;
	return prctl(PR_SET_KEEPCAPS, n[0], 0, 0, 0);
}

static int do_chroot(char **arg, const long *n)
{
	(void)n;
	return chroot(arg[0]) ? -1 : chdir("/");
}

#define IDS(name, ...)                                                         \
	static int do_##name(char **arg, const long *n)                        \
	{                                                                      \
		(void)arg;                                                     \
		return name(__VA_ARGS__);                                      \
	}

IDS(setuid, (uid_t)n[0])
IDS(seteuid, (uid_t)n[0])
IDS(setreuid, (uid_t)n[0], (uid_t)n[1])
IDS(setresuid, (uid_t)n[0], (uid_t)n[1], (uid_t)n[2])
IDS(setgid, (gid_t)n[0])
IDS(setegid, (gid_t)n[0])
IDS(setregid, (gid_t)n[0], (gid_t)n[1])
IDS(setresgid, (gid_t)n[0], (gid_t)n[1], (gid_t)n[2])

static const struct {
	const char *name;
	int (*run)(char **arg, const long *n);
} calls[] = {
	{ "setuid", do_setuid },       { "seteuid", do_seteuid },
	{ "setreuid", do_setreuid },   { "setresuid", do_setresuid },
	{ "setgid", do_setgid },       { "setegid", do_setegid },
	{ "setregid", do_setregid },   { "setresgid", do_setresgid },
	{ "setgroups", do_setgroups }, { "initgroups", do_initgroups },
	{ "drop", do_drop },           { "keepcaps", do_keepcaps },
	{ "unshare", do_unshare },     { "setns", do_setns },
	{ "chroot", do_chroot },
};

/* errno is the call's yet. */
static void answer(long result)
{
	if (result == -1)
		printf("-1 %s\n", strerrorname_np(errno));
	else
		printf("%ld\n", result);
	fflush(stdout);
}

static void call(char **arg)
{
	long n[ARGS] = { 0 };

	for (size_t i = 0; arg[1 + i] && i < ARGS; i++)
		n[i] = strtol(arg[1 + i], NULL, 10);
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		int r, err;

		if (strcmp(calls[i].name, arg[0]) != 0)
			continue;
		errno = BEFORE;
		r = calls[i].run(arg + 1, n);
		err = errno;
		if (r == -1)
			printf("-1 %s\n", strerrorname_np(err));
		else
			printf("%d %d\n", r, err);
		fflush(stdout);
		return;
	}
	answer((errno = ENOSYS, -1));
}

/* One line of the interesting ones in /proc/thread-self/status. */
static void who(void)
{
	static const char *const wanted[] = { "Uid:",    "Gid:",    "Groups:",
					      "CapInh:", "CapPrm:", "CapEff:",
					      "CapBnd:", "CapAmb:" };
	FILE *f = fopen("/proc/thread-self/status", "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
			if (strncmp(line, wanted[i], strlen(wanted[i])) == 0) {
				line[strcspn(line, "\n")] = '\0';
				for (char *c = line; *c; c++)
					*c = *c == '\t' ? ' ' : *c;
				printf("%s ", line);
			}
	if (f)
		fclose(f);
	printf("dumpable %d\n", prctl(PR_GET_DUMPABLE));
	fflush(stdout);
}

static long threads(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) ? -1 : (long)st.st_nlink - 2;
}

/* A child's lock, on a description of its own; its parent lives on. */
static void forked(const char *name)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

		printf("pid %s ", getpid() == 1 ? "1" : "N");
		answer(fd < 0 ? -1 : flock(fd, LOCK_EX | LOCK_NB));
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		answer(-1);
}

static void obey(char **arg)
{
	if (strcmp(arg[0], "lock") == 0)
		answer(flock(file, LOCK_EX));
	else if (strcmp(arg[0], "nb") == 0)
		answer(flock(file, LOCK_EX | LOCK_NB));
	else if (strcmp(arg[0], "unlock") == 0)
		answer(flock(file, LOCK_UN));
	else if (strcmp(arg[0], "fork") == 0 && arg[1])
		forked(arg[1]);
	else if (strcmp(arg[0], "threads") == 0)
		answer(threads());
	else if (strcmp(arg[0], "who") == 0)
		who();
	else if (strcmp(arg[0], "call") == 0 && arg[1])
		call(arg + 1);
	else
		answer((errno = ENOSYS, -1));
}

static void run_obey(void)
{
	char line[512];

	while (fgets(line, sizeof(line), stdin)) {
		char *arg[ARGS + 3] = { 0 }, *save = NULL;
		int n = 0;

		line[strcspn(line, "\n")] = '\0';
		for (char *w = strtok_r(line, " ", &save); w && n < ARGS + 2;
		     w = strtok_r(NULL, " ", &save))
			arg[n++] = w;
		if (n)
			obey(arg);
	}
}

/* --- threads -------------------------------------------------------------- */

static long rounds;

static void *locks(void *unused)
{
	static long failures;

	(void)unused;
	for (long i = 0; i < rounds; i++)
		if (flock(file, LOCK_EX) || flock(file, LOCK_UN))
			failures++;
	return &failures;
}

static int run_storm(void)
{
	long refused = 0, *failures;
	pthread_t thread;
	void *result;

	if (pthread_create(&thread, NULL, locks, NULL))
		return 1;
	for (long i = 0; i < rounds; i++)
		if (setegid(65534) || seteuid(65534) || seteuid(0) ||
		    setegid(0))
			refused++;
	if (pthread_join(thread, &result))
		return 1;
	failures = result;
	printf("refused %ld, failed %ld\n", refused, *failures);
	return flock(file, LOCK_EX) ? 1 : 0;
}

static void say_bye(void)
{
	static const char bye[] = "bye\n";

	if (write(STDOUT_FILENO, bye, sizeof(bye) - 1) < 0)
		_exit(9);
}

static void *stays(void *unused)
{
	if (flock(file, LOCK_EX))
		_exit(8);
	pause_ms(rounds);
	/* Twice, with the main thread gone. */
	if (flock(file, LOCK_UN) || flock(file, LOCK_EX))
		_exit(7);
	return unused;
}

static void run_leave(void)
{
	pthread_t thread;

	atexit(say_bye);
	if (pthread_create(&thread, NULL, stays, NULL))
		exit(1);
	pthread_exit(NULL);
}

static void run_dies(void)
{
	atexit(say_bye);
	if (flock(file, LOCK_EX))
		exit(1);
	pthread_exit(NULL);
}

/* --- children ------------------------------------------------------------- */

static volatile sig_atomic_t signals;

static void on_child(int sig)
{
	(void)sig;
	signals++;
}

/* Held for so long, a lease has a keeper. */
static int hold(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0 || flock(fd, LOCK_EX))
		_exit(8);
	pause_ms(200);
	return fd;
}

static int run_waits(const char *name, bool reaper)
{
	char other[256];
	int n = 0, fd;
	pid_t pid;

	signal(SIGCHLD, on_child);
	if (reaper)
		prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	fd = hold(name);
	snprintf(other, sizeof(other), "%s.child", name);
	pid = fork();
	if (pid == 0) {
		hold(other);
		raise(SIGKILL);
	}
	if (reaper)
		flock(fd, LOCK_UN);
	while (wait(NULL) > 0)
		n++;
	flock(fd, LOCK_UN);
	/* A keeper ends a second after its last lock. */
	pause_ms(reaper ? 0 : 1300);
	printf("%d %d\n", n, (int)signals);
	return pid < 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 64;
	file = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (file < 0)
		return 1;
	rounds = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
	if (strcmp(argv[1], "storm") == 0)
		return run_storm();
	if (strcmp(argv[1], "leave") == 0)
		run_leave();
	if (strcmp(argv[1], "dies") == 0)
		run_dies();
	if (strcmp(argv[1], "waits") == 0)
		return run_waits(argv[2], argc > 3);
	run_obey();
	return 0;
}
