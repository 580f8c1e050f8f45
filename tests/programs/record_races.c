/* SPDX-License-Identifier: MIT */
/*
 * What happens amidst a record lock's call, by another thread or a handler.
 *
 *	cycle FILE FILE2	a thread tries byte 50; while it has that in
 *				the kernel, a neighbour who has FILE2's byte 0
 *				waits for it, and we wait for that: "tried
 *				0 0", and "TRIED WAITED MICROSECONDS"
 *	memory FILE FILE2		no memory is to be had when the kernel
 *				grants what we waited for: "WAITED f", or t:
 *				whether it is free or taken then
 *	jump FILE N		3 x N times a handler jumps out of a call that
 *				waits behind another thread's: "PAGES more"
 *				after those N that took the fewest, for what two
 *				threads need at once is had once
 *	unlock FILE		what an execve(2) has left is asked for by a
 *				thread, again and again, while we unlock, and
 *				handlers run: "RESULT 0 0"
 *
 * The neighbour is this program without the shim.  All but cycle say "ready",
 * and begin when they are told a line.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static sigjmp_buf back;

static const char *set(int fd, int cmd, int type, long byte)
{
	struct flock l = {
		.l_type = (short)type,
		.l_start = byte,
		.l_len = 1,
	};

	return fcntl(fd, cmd, &l) ? strerrorname_np(errno) : "0";
}

static bool is_taken(int fd, long byte)
{
	struct flock l = { .l_type = F_WRLCK, .l_start = byte, .l_len = 1 };

	return fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

/* --- the neighbour -------------------------------------------------------- */

struct neighbour {
	pid_t pid;
	int to, from;
};

static char told(int fd)
{
	char c = 0;

	return read(fd, &c, 1) == 1 ? c : 0;
}

static int open_it(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0)
		die(path);
	return fd;
}

static void send(int fd, char c)
{
	if (write(fd, &c, 1) != 1)
		exit(1);
}

/* It has byte 0; when somebody has `byte` of the other file, it does as told.
 */
static int neighbour(const char *how, const char *path, const char *other)
{
	int fd = open_it(path), there = open_it(other);
	bool waits = strcmp(how, "waits") == 0;

	set(fd, F_SETLK, F_WRLCK, 0);
	send(1, 'r');
	while (!is_taken(there, waits ? 50 : 0))
		pause_us(100);
	if (waits) {
		set(there, F_SETLKW, F_WRLCK, 50);
		return 0;
	}
	set(fd, F_SETLK, F_UNLCK, 0);
	told(0);
	send(1, is_taken(fd, 0) ? 't' : 'f');
	return 0;
}

static struct neighbour begin(char *how, char *path, char *other)
{
	char self[] = "/proc/self/exe", what[] = "neighbour";
	char *argv[] = { self, what, how, path, other, NULL };
	int to[2], from[2];
	struct neighbour n;

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		exit(1);
	n = (struct neighbour){ fork(), to[1], from[0] };
	if (n.pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		unsetenv("LD_PRELOAD");
		execv(self, argv);
		_exit(127);
	}
	if (told(n.from) != 'r')
		exit(1);
	return n;
}

/* "1: -> POSIX  ADVISORY  WRITE 2730 fe:00:10952755 0 0" */
static bool waits_in_kernel(pid_t pid)
{
	FILE *f = fopen("/proc/locks", "re");
	char line[256], wanted[32];
	bool found = false;

	snprintf(wanted, sizeof(wanted), "WRITE %d ", (int)pid);
	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, "-> POSIX") && strstr(line, wanted);
	if (f)
		fclose(f);
	return found;
}

/* --- a thread ------------------------------------------------------------- */

struct call {
	pthread_t thread;
	int fd, cmd;
	long byte;
	_Atomic bool go, again;
	const char *result, *after; /* "... 0 0" is said then */
};

static void *run(void *arg)
{
	struct call *c = arg;

	while (!c->go)
		pause_us(100);
	do
		c->result = set(c->fd, c->cmd, F_WRLCK, c->byte);
	while (c->again);
	if (c->after)
		printf("%s 0 0\n", c->after);
	return NULL;
}

static void start(struct call *c)
{
	if (pthread_create(&c->thread, NULL, run, c))
		exit(1);
}

static void ready(void)
{
	char line[16];

	puts("ready 0 0");
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

/* So that there is a connection. */
static void warm(int fd)
{
	set(fd, F_SETLK, F_WRLCK, 1000);
	set(fd, F_SETLK, F_UNLCK, 1000);
}

static void on_alarm(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

/* A wait that is left soon. */
static void jump_once(int fd, long byte)
{
	const struct itimerval it = { .it_value = { .tv_usec = 20000 } };
	struct sigaction sa = { .sa_handler = on_alarm };

	if (sigsetjmp(back, 1))
		return;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	set(fd, F_SETLKW, F_WRLCK, byte);
	exit(1);
}

/* --- what is done --------------------------------------------------------- */

static int cycle(char *path, char *other)
{
	static char how[] = "waits";
	int fd = open_it(path), held = open_it(other);
	struct neighbour n = begin(how, other, path);
	struct call c = { .fd = fd,
			  .cmd = F_SETLK,
			  .byte = 50,
			  .go = true,
			  .after = "tried" };
	long long began, ended;
	const char *result;

	warm(fd);
	jump_once(held, 0); /* no wait is the first */
	start(&c);
	while (!waits_in_kernel(n.pid) && waitpid(n.pid, NULL, WNOHANG) == 0)
		pause_us(100);
	began = now_ns();
	result = set(held, F_SETLKW, F_WRLCK, 0);
	ended = now_ns();
	pthread_join(c.thread, NULL);
	printf("%s %s %lld\n", c.result, result, (ended - began) / 1000);
	kill(n.pid, SIGKILL);
	return 0;
}

static int memory(char *path, char *other)
{
	static char how[] = "leaves";
	const struct rlimit none = { 1 << 20, 1 << 20 };
	int fd = open_it(path), there = open_it(other);
	struct neighbour n = begin(how, path, other);
	struct call waits = { .fd = fd, .cmd = F_SETLKW, .go = true };
	/* (Again: the neighbour may have no core while it has that byte.) */
	struct call busy = { .fd = there, .cmd = F_SETLK, .again = true };

	warm(there);
	ready();
	start(&busy);
	start(&waits);
	while (!waits_in_kernel(getpid()))
		pause_us(100);
	setrlimit(RLIMIT_AS, &none);
	busy.go = true;
	pthread_join(waits.thread, NULL);
	send(n.to, 'g');
	printf("%s %c 0\n", waits.result, told(n.from));
	_exit(0);
}

static long pages(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	char line[128];

	if (!f || !fgets(line, sizeof(line), f))
		exit(1);
	fclose(f);
	return strtol(line, NULL, 10);
}

static int jump(char *path, int times)
{
	int fd = open_it(path);
	struct call c = { .fd = fd, .cmd = F_SETLK, .byte = 10, .go = true };
	static long before, least = -1;
	static int i;
	sigset_t set;

	c.again = true;
	warm(fd);
	ready();
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	start(&c);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	before = pages();
	for (; i < 3 * times; i++) {
		jump_once(fd, 20);
		if ((i + 1) % times == 0) {
			const long more = pages() - before;

			before += more;
			least = least < 0 || more < least ? more : least;
		}
	}
	printf("%ld more 0\n", least);
	_exit(0);
}

static void on_tick(int sig)
{
	(void)sig;
}

/* The next program. */
static int unlock(int fd)
{
	const struct itimerval it = { { .tv_usec = 5000 },
				      { .tv_usec = 5000 } };
	struct sigaction sa = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
	struct call c = { .fd = fd, .cmd = F_SETLK, .byte = 20, .go = true };
	const char *result = "0";
	sigset_t alarms;

	c.again = true;
	ready();
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	start(&c);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	for (int i = 0; i < 40 && strcmp(result, "0") == 0; i++)
		result = set(fd, F_SETLK, F_UNLCK, 30);
	printf("%s 0 0\n", result);
	_exit(0);
}

static int before_exec(char *path)
{
	char self[] = "/proc/self/exe", what[] = "unlock", number[16];
	char *argv[] = { self, what, path, number, NULL };
	int fd = open(path, O_RDWR | O_CREAT, 0666);

	set(fd, F_SETLK, F_WRLCK, 0);
	snprintf(number, sizeof(number), "%d", fd);
	execv(self, argv);
	return 127;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 5 && strcmp(argv[1], "neighbour") == 0)
		return neighbour(argv[2], argv[3], argv[4]);
	if (argc == 4 && strcmp(argv[1], "cycle") == 0)
		return cycle(argv[2], argv[3]);
	if (argc == 4 && strcmp(argv[1], "memory") == 0)
		return memory(argv[2], argv[3]);
	if (argc == 4 && strcmp(argv[1], "jump") == 0)
		return jump(argv[2], (int)strtol(argv[3], NULL, 10));
	if (argc == 3 && strcmp(argv[1], "unlock") == 0)
		return before_exec(argv[2]);
	if (argc == 4 && strcmp(argv[1], "unlock") == 0)
		return unlock((int)strtol(argv[3], NULL, 10));
	return 64;
}
