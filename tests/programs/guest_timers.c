/* SPDX-License-Identifier: MIT */
/*
 * A program's own timers, beside a lock: what it sees of them, a line each, and
 * the same bare.
 *
 *	guest_timers FILE	one made before the lock, one with it in hand
 *	guest_timers FILE all	it deletes whatever timers there are, and says
 *				"deleted N"; then it waits for a line
 */
#include <sys/syscall.h>

#include "tests/lib/helper.h"

enum { PERIOD_MS = 5, TIMES = 20 };

static volatile sig_atomic_t came[2];

static void count(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	came[info->si_value.sival_int]++;
}

static timer_t made(int which, clockid_t clock)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL,
			       .sigev_signo = SIGRTMIN,
			       .sigev_value.sival_int = which };
	const struct itimerspec each = {
		.it_interval.tv_nsec = PERIOD_MS * 1000000L,
		.it_value.tv_nsec = PERIOD_MS * 1000000L,
	};
	timer_t timer;

	if (timer_create(clock, &ev, &timer) ||
	    timer_settime(timer, 0, &each, NULL))
		die("timer");
	return timer;
}

/* Both go on, whatever else there is. */
static void wait_for_both(void)
{
	for (int i = 0; i < 2; i++)
		came[i] = 0;
	while (came[0] < TIMES || came[1] < TIMES)
		pause_ms(1);
	tell("both came");
}

static void end(timer_t timer)
{
	struct itimerspec left;

	tell(outcome(timer_gettime(timer, &left)));
	tell(left.it_interval.tv_nsec == PERIOD_MS * 1000000L ? "its own"
							      : "another's");
	tell(outcome(timer_delete(timer)));
}

/* Those that it has not made, too: by their numbers. */
static int delete_all(int fd)
{
	int n = 0;

	for (long id = 0; id < 64; id++)
		n += syscall(SYS_timer_delete, id) == 0;
	printf("deleted %d\n", n);
	fflush(stdout);
	wait_for_go();
	return flock(fd, LOCK_UN) != 0;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_flags = SA_SIGINFO | SA_RESTART };
	timer_t before, with;
	int fd;

	if (argc < 2)
		return 64;
	sa.sa_sigaction = count;
	if (sigaction(SIGRTMIN, &sa, NULL))
		die("sigaction");
	before = made(0, CLOCK_MONOTONIC);
	fd = locked(argv[1]);
	if (argc > 2)
		return delete_all(fd);
	with = made(1, CLOCK_BOOTTIME);
	wait_for_both();
	tell(outcome(flock(fd, LOCK_UN)));
	wait_for_both();
	tell(outcome(flock(fd, LOCK_EX)));
	end(before);
	end(with);
	return 0;
}
