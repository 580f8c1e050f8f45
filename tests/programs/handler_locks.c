/* SPDX-License-Identifier: MIT */
/*
 * Locks in a signal handler, while the program is busy in malloc(3): fcntl(2)
 * and flock(2) are async-signal-safe, or as good as.
 *
 *	FILE MS [HZ]		churns the heap for MS, and until it has locked
 *				FEW times if that takes less than 20 MS, while a
 *				SIGALRM handler locks and unlocks FILE, HZ times
 *				a second; without HZ nothing but the tests' own
 *				signals
 *
 * Says "LOCKED REFUSED", how often each, and exits with 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static int file;
static volatile sig_atomic_t taken, refused;

static void on_alarm(int sig)
{
	int err = errno;

	(void)sig;
	if (flock(file, LOCK_EX | LOCK_NB) == 0 && flock(file, LOCK_UN) == 0)
		taken++;
	else
		refused++;
	errno = err;
}

static void churn(long ms)
{
	enum { SLOTS = 64, LARGEST = 4000, FEW = 20 };
	const long began_ms = now_ms();
	long took_ms;
	static char *slots[SLOTS];
	unsigned seed = (unsigned)getpid();

	do {
		for (int i = 0; i < SLOTS; i++) {
			seed = seed * 1103515245 + 12345;
			free(slots[seed / 65536 % SLOTS]);
			slots[seed / 65536 % SLOTS] =
				malloc(1 + seed / 256 % LARGEST);
		}
		took_ms = now_ms() - began_ms;
	} while (took_ms < ms || (taken < FEW && took_ms < 20 * ms));
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_alarm,
				.sa_flags = SA_RESTART };
	long hz = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
	struct itimerval it = { { 0, 0 }, { 0, 0 } };

	if (argc < 3)
		return 64;
	file = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (file < 0 || sigaction(SIGALRM, &sa, NULL))
		return 1;
	if (hz > 0)
		it.it_interval.tv_usec = it.it_value.tv_usec = 1000000 / hz;
	setitimer(ITIMER_REAL, &it, NULL);
	churn(strtol(argv[2], NULL, 10));
	it.it_value.tv_usec = it.it_interval.tv_usec = 0;
	setitimer(ITIMER_REAL, &it, NULL);
	sa.sa_handler = SIG_IGN;
	sigaction(SIGALRM, &sa, NULL);
	printf("%ld %ld\n", (long)taken, (long)refused);
	return 0;
}
