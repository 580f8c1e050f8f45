/* SPDX-License-Identifier: MIT */
/*
 * What a process has that dlock must not touch (DESIGN L7).
 *
 *	process_state FILE	locks, waits, unlocks; a line for each thing
 *				that a process has: "same" or "changed"
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static void same(const char *what, bool is)
{
	printf("%s: %s\n", what, is ? "same" : "changed");
}

struct state {
	void (*handlers[NSIG])(int);
	int action_flags[NSIG];
	sigset_t mask;
	char ignored[256], caught[256], blocked[256];
	mode_t umask;
	char cwd[256], locale[256];
	int flags[3], fd_flags[3];
	struct rlimit limits[RLIM_NLIMITS];
	char **environment;
	pid_t group, session;
	int priority;
	unsigned alarm;
	struct itimerval timers[3];
};

static void look(struct state *s)
{
	char task[32];

	memset(s, 0, sizeof(*s));
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction sa = { 0 };

		sigaction(sig, NULL, &sa);
		s->handlers[sig] = sa.sa_handler;
		/* The kernel's own SA_RESTORER comes with any handler. */
		s->action_flags[sig] = sa.sa_flags & ~0x04000000;
	}
	pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
	snprintf(task, sizeof(task), "%d", getpid());
	strcpy(s->ignored, status_line(task, "SigIgn"));
	strcpy(s->caught, status_line(task, "SigCgt"));
	/*
	 * glibc catches 33 from the first thread on, whoever starts it; it may
	 * have been ignored before.
	 */
	s->caught[strlen(s->caught) - 10] = '-';
	s->ignored[strlen(s->ignored) - 10] = '-';
	strcpy(s->blocked, status_line(task, "SigBlk"));
	s->umask = umask(0);
	umask(s->umask);
	if (!getcwd(s->cwd, sizeof(s->cwd)))
		die("getcwd");
	strcpy(s->locale, setlocale(LC_ALL, NULL));
	for (int fd = 0; fd < 3; fd++) {
		s->flags[fd] = fcntl(fd, F_GETFL);
		s->fd_flags[fd] = fcntl(fd, F_GETFD);
	}
	for (int i = 0; i < (int)RLIM_NLIMITS; i++)
		getrlimit((__rlimit_resource_t)i, &s->limits[i]);
	s->environment = environ;
	s->group = getpgrp();
	s->session = getsid(0);
	s->priority = getpriority(PRIO_PROCESS, 0);
	for (int i = 0; i < 3; i++)
		getitimer((__itimer_which_t)i, &s->timers[i]);
	s->alarm = alarm(0);
	alarm(s->alarm);
}

static bool same_timers(const struct state *a, const struct state *b)
{
	for (int i = 0; i < 3; i++)
		if ((a->timers[i].it_value.tv_sec == 0) !=
			    (b->timers[i].it_value.tv_sec == 0) ||
		    b->timers[i].it_interval.tv_sec !=
			    a->timers[i].it_interval.tv_sec ||
		    a->timers[i].it_value.tv_sec -
				    b->timers[i].it_value.tv_sec >
			    60)
			return false;
	return true;
}

static void compare(const struct state *a, const struct state *b)
{
	same("dispositions",
	     memcmp(a->handlers, b->handlers, sizeof(a->handlers)) == 0 &&
		     memcmp(a->action_flags, b->action_flags,
			    sizeof(a->action_flags)) == 0);
	same("mask", memcmp(&a->mask, &b->mask, sizeof(a->mask)) == 0);
	same("SigIgn", strcmp(a->ignored, b->ignored) == 0);
	same("SigCgt", strcmp(a->caught, b->caught) == 0);
	same("SigBlk", strcmp(a->blocked, b->blocked) == 0);
	same("umask", a->umask == b->umask);
	same("directory", strcmp(a->cwd, b->cwd) == 0);
	same("locale", strcmp(a->locale, b->locale) == 0);
	same("flags of 0-2",
	     memcmp(a->flags, b->flags, sizeof(a->flags)) == 0 &&
		     memcmp(a->fd_flags, b->fd_flags, sizeof(a->fd_flags)) ==
			     0);
	same("limits", memcmp(a->limits, b->limits, sizeof(a->limits)) == 0);
	same("environment", a->environment == b->environment);
	same("group", a->group == b->group && a->session == b->session);
	same("priority", a->priority == b->priority);
	same("timers", same_timers(a, b));
	same("alarm", a->alarm && b->alarm && a->alarm - b->alarm < 60);
}

enum { NUMBERS = 32 };

/* A lock between every two: does anybody else draw from the sequences? */
static void draw(long *to, int fd)
{
	srand(1);
	srandom(2);
	srand48(3);
	for (int i = 0; i < NUMBERS; i++) {
		if (fd >= 0 && flock(fd, i % 2 ? LOCK_UN : LOCK_EX))
			die("flock");
		to[i] = i % 3 == 0   ? (long)rand() /* NOLINT: it is to be
						     predictable */
			: i % 3 == 1 ? random()
				     : lrand48();
	}
}

static void handler(int sig)
{
	(void)sig;
}

static void unusual(void)
{
	const struct itimerval day = { { 77, 0 }, { 86400, 0 } };
	struct sigaction sa = { .sa_flags = SA_RESTART | SA_ONSTACK };
	sigset_t some;

	sa.sa_handler = handler;
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_handler = SIG_IGN;
	sigaction(SIGHUP, &sa, NULL);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	sigaddset(&some, SIGRTMIN + 3);
	pthread_sigmask(SIG_BLOCK, &some, NULL);
	umask(031);
	setlocale(LC_ALL, "C.UTF-8");
	setitimer(ITIMER_VIRTUAL, &day, NULL);
	setitimer(ITIMER_PROF, &day, NULL);
	alarm(86400);
}

static bool errno_stays(int fd, const char *name)
{
	bool stays = true;
	int second;

	for (int i = 0; i < 4; i++) {
		errno = 4711;
		if (flock(fd, i % 2 ? LOCK_UN : LOCK_EX) || errno != 4711)
			stays = false;
	}
	second = opened(name);
	errno = 4711;
	if (flock(second, LOCK_SH) || close(second) || errno != 4711)
		stays = false;
	return stays;
}

int main(int argc, char **argv)
{
	static struct state before, after;
	long bare[NUMBERS], with[NUMBERS];
	int fd;

	if (argc != 2)
		return 64;
	unusual();
	look(&before);
	draw(bare, -1);
	fd = opened(argv[1]);
	draw(with, fd);
	flock(fd, LOCK_EX);
	if (system("true"))
		die("system");
	pause_ms(1500); /* renewals, a handover */
	look(&after);
	compare(&before, &after);
	flock(fd, LOCK_UN);
	same("sequences", memcmp(bare, with, sizeof(bare)) == 0);
	same("errno", errno_stays(fd, argv[1]));
	close(fd);
	look(&after);
	compare(&before, &after);
	return 0;
}
