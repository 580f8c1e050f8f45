/* SPDX-License-Identifier: MIT */
/*
 * Takes byte ranges of a file, several at a time, and gives them back:
 *
 *	random_ranges FILE WITNESS SECONDS ordered|random SEED [ofd]
 *
 * for so long, and until it had all that it wanted once.
 * `ordered`: in the order of the bytes, so that no cycle of waits can be.
 * `random`: in any order; who gets EDEADLK gives back what it has.
 *
 * WITNESS is a file that all rangers, on whatever host, have mapped: of each
 * byte the number of its readers and writers.  Prints
 *
 *	TURNS EDEADLK CONFLICTS LONGEST_WAIT_MS
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { BYTES = 16, MOST = 4 };

struct slot {
	_Atomic int readers, writers;
};

struct want {
	int byte;
	short type;
};

static struct slot *slots;
static unsigned long long state;
static int lock_cmd = F_SETLKW, unlock_cmd = F_SETLK;
static long turns, deadlocks, conflicts, longest_ns;

static unsigned draw(unsigned n)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(state >> 33) % n;
}

static int set(int fd, int cmd, int byte, int len, short type)
{
	struct flock l = { .l_type = type, .l_start = byte, .l_len = len };

	return fcntl(fd, cmd, &l);
}

/* Distinct bytes, in an order that is their own or any. */
static int choose(struct want *wants, bool ordered)
{
	bool taken[BYTES] = { false };
	int n = 1 + (int)draw(MOST), k = 0;

	for (int i = 0; i < n; i++)
		taken[draw(BYTES)] = true;
	for (int i = 0; i < BYTES; i++)
		if (taken[i])
			wants[k++] =
				(struct want){ i, draw(2) ? F_WRLCK : F_RDLCK };
	for (int i = k - 1; !ordered && i > 0; i--) {
		int other = (int)draw((unsigned)i + 1);
		struct want w = wants[i];

		wants[i] = wants[other];
		wants[other] = w;
	}
	return k;
}

static void enter(const struct want *w)
{
	struct slot *s = &slots[w->byte];

	if (w->type == F_WRLCK)
		conflicts += atomic_fetch_add(&s->writers, 1) != 0 ||
			     atomic_load(&s->readers) != 0;
	else
		conflicts += (atomic_fetch_add(&s->readers, 1),
			      atomic_load(&s->writers) != 0);
}

static void leave(const struct want *w)
{
	struct slot *s = &slots[w->byte];

	atomic_fetch_sub(w->type == F_WRLCK ? &s->writers : &s->readers, 1);
}

static bool take(int fd, const struct want *w)
{
	const long began = now_ns();
	const int got = set(fd, lock_cmd, w->byte, 1, w->type);
	const long took = now_ns() - began;

	if (took > longest_ns)
		longest_ns = took;
	if (got == 0)
		return true;
	if (errno != EDEADLK)
		die("F_SETLKW");
	deadlocks++;
	return false;
}

static void turn(int fd, bool ordered)
{
	struct want wants[MOST];
	int n = choose(wants, ordered), have = 0;

	while (have < n && take(fd, &wants[have]))
		enter(&wants[have++]);
	turns += have == n;
	while (have > 0)
		leave(&wants[--have]);
	if (set(fd, unlock_cmd, 0, 0, F_UNLCK) < 0)
		die("F_UNLCK");
}

int main(int argc, char **argv)
{
	long end;
	int fd, witness;

	if (argc != 6 && argc != 7)
		return 2;
	if (argc == 7) {
		lock_cmd = F_OFD_SETLKW;
		unlock_cmd = F_OFD_SETLK;
	}
	state = strtoull(argv[5], NULL, 10);
	fd = open(argv[1], O_RDWR | O_CREAT, 0666);
	witness = open(argv[2], O_RDWR | O_CREAT, 0666);
	if (fd < 0 || witness < 0 || ftruncate(witness, 4096) < 0)
		die(argv[1]);
	slots = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, witness,
		     0);
	if (slots == MAP_FAILED)
		die(argv[2]);
	end = now_ns() + strtol(argv[3], NULL, 10) * 1000000000L;
	while (now_ns() < end || turns == 0)
		turn(fd, strcmp(argv[4], "ordered") == 0);
	printf("%ld %ld %ld %ld\n", turns, deadlocks, conflicts,
	       longest_ns / 1000000);
	return 0;
}
