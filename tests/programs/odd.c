/* SPDX-License-Identifier: MIT */
/*
 * Programs that do odd things with a lock.  Each says on standard output how
 * far it is, a word a line, and goes on at a line on standard input.
 *
 *	odd emfile FILE		locks; opens until EMFILE; "full"; ends
 *	odd chroot FILE DIR	locks; chroot(DIR); "inside"; ends
 *	odd late FILE DIR	chroot(DIR); locks: "RESULT"
 *	odd take SOCKET		"listening"; gets a descriptor: "got"; closes
 *				it: "closed"; ends
 *	odd give FILE SOCKET MS	locks; MS later passes the descriptor and
 *				closes its own: "given"; ends
 *	odd orphan FILE MS [kill]	a child that keeps the description;
 *				locks: "locked", closes, is gone MS later
 *				(by SIGKILL): "alone", says the child; ends
 *	odd freopen FILE OTHER	locks a FILE's, dup(), freopen() as OTHER, a
 *				child: "moved"; the child ends: "childless";
 *				closes the second: "closed"; ends
 *	odd unlock FILE		locks: "locked"; unlocks and is gone
 *	odd storm FILE MS	locks, while a SA_RESTART handler runs every
 *				MS: "RESULT TOOK-MS SIGNALS"
 *	odd alarm FILE MS...	locks, with a SIGALRM after MS, whose handler
 *				has no SA_RESTART: "RESULT LATE-MS" for each
 *
 * RESULT is 0 or the name of the errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { FEW = 96, AGAIN_MS = 3000 };

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static volatile sig_atomic_t signals;

static int locked(const char *name)
{
	int fd = opened(name);

	if (flock(fd, LOCK_EX))
		die("flock");
	return fd;
}

static const char *outcome(int result)
{
	return result ? strerrorname_np(errno) : "0";
}

/* --- looking at a lock becomes impossible -------------------------------- */

static void run_out(char **arg)
{
	const struct rlimit few = { FEW, FEW };
	int fd;

	if (setrlimit(RLIMIT_NOFILE, &few))
		die("setrlimit");
	locked(arg[0]);
	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0);
	tell(errno == EMFILE ? "full" : strerrorname_np(errno));
	wait_for_go();
}

static void go_inside(const char *dir)
{
	if (chroot(dir) || chdir("/"))
		die(dir);
	if (access("/proc", F_OK) == 0)
		exit(2);
}

static void lock_outside(char **arg)
{
	locked(arg[0]);
	go_inside(arg[1]);
	tell("inside");
	wait_for_go();
}

static void lock_inside(char **arg)
{
	int fd = opened(arg[0]);

	go_inside(arg[1]);
	tell(outcome(flock(fd, LOCK_EX | LOCK_NB)));
	wait_for_go();
}

/* --- the description moves ------------------------------------------------ */

static struct sockaddr_un address(const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (strlen(name) >= sizeof(un.sun_path))
		exit(64);
	strcpy(un.sun_path, name);
	return un;
}

static int pass(int sock, int fd)
{
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	union control control = { 0 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(sock, &msg, 0) == 1 ? 0 : -1;
}

static int passed(int sock)
{
	char byte;
	int fd = -1;
	struct iovec iov = { &byte, 1 };
	union control control = { 0 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	const struct cmsghdr *c;

	if (recvmsg(sock, &msg, 0) != 1)
		die("recvmsg");
	c = CMSG_FIRSTHDR(&msg);
	if (c)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void take(char **arg)
{
	const struct sockaddr_un un = address(arg[0]);
	int sock = socket(AF_UNIX, SOCK_STREAM, 0), from, fd;

	if (bind(sock, (const struct sockaddr *)&un, sizeof(un)) ||
	    listen(sock, 1))
		die(arg[0]);
	tell("listening");
	from = accept(sock, NULL, NULL);
	if (from < 0)
		die("accept");
	fd = passed(from);
	tell(fd >= 0 ? "got" : "nothing");
	wait_for_go();
	close(fd);
	tell("closed");
	wait_for_go();
}

static void give(char **arg)
{
	const struct sockaddr_un un = address(arg[1]);
	int sock = socket(AF_UNIX, SOCK_STREAM, 0), fd;

	if (connect(sock, (const struct sockaddr *)&un, sizeof(un)))
		die(arg[1]);
	fd = locked(arg[0]);
	pause_ms(strtol(arg[2], NULL, 10));
	if (pass(sock, fd))
		die("sendmsg");
	close(fd);
	tell("given");
	wait_for_go();
}

static void orphan(char **arg)
{
	int fd = opened(arg[0]), end[2];
	char byte;

	if (pipe(end))
		die("pipe");
	switch (fork()) {
	case -1:
		die("fork");
		break;
	case 0:
		close(end[1]);
		/* Returns when the parent is gone. */
		tell(read(end[0], &byte, 1) == 0 ? "alone" : "what?");
		wait_for_go();
		_exit(0);
	default:
		break;
	}
	if (flock(fd, LOCK_EX))
		die("flock");
	close(fd);
	tell("locked");
	pause_ms(strtol(arg[1], NULL, 10));
	if (arg[2] && strcmp(arg[2], "kill") == 0)
		raise(SIGKILL);
}

static void reopen(char **arg)
{
	FILE *file = fopen(arg[0], "w");
	int second, end[2];
	char byte;
	pid_t pid;

	if (!file || flock(fileno(file), LOCK_EX))
		die(arg[0]);
	second = dup(fileno(file));
	file = freopen(arg[1], "w", file);
	if (!file || pipe(end))
		die(arg[1]);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(end[1]);
		_exit(read(end[0], &byte, 1) == 0 ? 0 : 1);
	}
	tell("moved");
	wait_for_go();
	close(end[1]);
	waitpid(pid, NULL, 0);
	tell("childless");
	wait_for_go();
	close(second);
	tell("closed");
	wait_for_go();
	fclose(file);
}

static void unlock(char **arg)
{
	int fd = locked(arg[0]);

	tell("locked");
	wait_for_go();
	if (flock(fd, LOCK_UN))
		die("unlock");
	_exit(0);
}

/* --- signals ------------------------------------------------------------- */

static void handler(int sig)
{
	(void)sig;
	signals++;
}

static void handle(int flags)
{
	struct sigaction sa = { .sa_flags = flags };

	sa.sa_handler = handler;
	if (sigaction(SIGALRM, &sa, NULL))
		die("sigaction");
}

static void set_timer(long first_ms, long then_ms)
{
	const struct itimerval it = {
		.it_value = { first_ms / 1000, first_ms % 1000 * 1000 },
		.it_interval = { then_ms / 1000, then_ms % 1000 * 1000 },
	};

	setitimer(ITIMER_REAL, &it, NULL);
}

static void storm(char **arg)
{
	long every = strtol(arg[1], NULL, 10), begin = now_ms();
	int fd = opened(arg[0]);
	const char *result;
	char line[64];

	handle(SA_RESTART);
	set_timer(every, every);
	result = outcome(flock(fd, LOCK_EX));
	set_timer(0, 0);
	snprintf(line, sizeof(line), "%s %ld %d", result, now_ms() - begin,
		 (int)signals);
	tell(line);
	wait_for_go();
}

/* A signal that is lost comes again, much later: nothing hangs. */
static void alarms(char **arg)
{
	int fd = opened(arg[0]);

	handle(0);
	for (arg++; *arg; arg++) {
		long after = strtol(*arg, NULL, 10), begin = now_ms();
		const char *result;
		char line[64];

		set_timer(after, AGAIN_MS);
		result = outcome(flock(fd, LOCK_EX));
		set_timer(0, 0);
		snprintf(line, sizeof(line), "%s %ld", result,
			 now_ms() - begin - after);
		tell(line);
	}
}

static const struct {
	const char *name;
	int args;
	void (*run)(char **arg);
} commands[] = {
	{ "emfile", 1, run_out },   { "chroot", 2, lock_outside },
	{ "late", 2, lock_inside }, { "take", 1, take },
	{ "give", 3, give },        { "orphan", 2, orphan },
	{ "freopen", 2, reopen },   { "unlock", 1, unlock },
	{ "storm", 2, storm },      { "alarm", 2, alarms },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (argc - 2 >= commands[i].args &&
		    strcmp(argv[1], commands[i].name) == 0) {
			commands[i].run(argv + 2);
			return 0;
		}
	return 64;
}
