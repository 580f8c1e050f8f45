/* SPDX-License-Identifier: MIT */
/*
 * Holds FILE and writes the time into JOURNAL, again and again, as who has the
 * lock; "held", then nothing until a line comes: then it unlocks, "unlocked".
 *
 *	lease_loser HOW FILE JOURNAL
 *
 * HOW: plain; masked: all signals are blocked; busy: without a pause; handler:
 * at SIGTERM it says "asked NS", the time, unlocks, says "ended", and ends;
 * stays: a handler of SIGTERM says "asked NS" and returns; ignores: SIGTERM;
 * vfork: it waits in vfork(2) for a child that sleeps; setuid: it has given up
 * its user; forked: it is a child of who has locked and waits for it; executed:
 * it is another program by then ("writer"), with the descriptor.
 */
#include <poll.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "tests/lib/helper.h"

static int fd, journal;

static void write_time(void)
{
	char line[32];
	int n = snprintf(line, sizeof(line), "%020lld\n", now_ns());

	if (pwrite(journal, line, (size_t)n, 0) != n)
		die("journal");
}

static void tell_when(int sig)
{
	char line[64];

	(void)sig;
	snprintf(line, sizeof(line), "asked %lld", now_ns());
	tell(line);
}

static void end_in_order(int sig)
{
	tell_when(sig);
	/* It has something to put in order. */
	write_time();
	if (flock(fd, LOCK_UN))
		die("unlock");
	tell("ended");
	_exit(0);
}

static void prepare(const char *how)
{
	sigset_t all;

	sigfillset(&all);
	if (strcmp(how, "masked") == 0)
		sigprocmask(SIG_SETMASK, &all, NULL);
	if (strcmp(how, "handler") == 0)
		handle(SIGTERM, end_in_order, 0);
	if (strcmp(how, "stays") == 0)
		handle(SIGTERM, tell_when, SA_RESTART);
	if (strcmp(how, "ignores") == 0)
		handle(SIGTERM, SIG_IGN, 0);
}

/* What changes it once it holds the lock. */
static void change(const char *how)
{
	if (strcmp(how, "setuid") == 0 && setuid(65534))
		die("setuid");
	if (strcmp(how, "forked") == 0 && fork() != 0) {
		wait(NULL);
		exit(0);
	}
	/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): how it waits */
	if (strcmp(how, "vfork") == 0 && vfork() == 0) {
		execl("/bin/sleep", "sleep", "1000", (char *)NULL);
		_exit(127);
	}
}

/* The same program once more, with its lock by descriptor 9. */
enum { GIVEN = 9 };

static void become_writer(char **argv)
{
	char name[] = "writer";
	char *const args[] = { argv[0], name, argv[2], argv[3], NULL };

	if (dup2(fd, GIVEN) != GIVEN)
		die("dup2");
	execv("/proc/self/exe", args);
	die("execv");
}

int main(int argc, char **argv)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	bool busy;

	if (argc != 4)
		return 64;
	prepare(argv[1]);
	busy = strcmp(argv[1], "busy") == 0;
	journal = opened(argv[3]);
	fd = strcmp(argv[1], "writer") == 0 ? GIVEN : locked(argv[2]);
	if (strcmp(argv[1], "executed") == 0)
		become_writer(argv);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	change(argv[1]);
	tell("held");
	do
		write_time();
	while (poll(&in, 1, busy ? 0 : 1) <= 0);
	wait_for_go();
	tell(flock(fd, LOCK_UN) ? strerror(errno) : "unlocked");
	wait_for_go();
	return 0;
}
