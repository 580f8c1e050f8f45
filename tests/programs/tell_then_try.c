/* SPDX-License-Identifier: MIT */
/*
 * Two programs that lock without waiting, in steps: the one says that it is
 * done, and the other begins.
 *
 *	serve SOCKET FILE KIND			does as it is told, till the end
 *	play SOCKET FILE KIND ROUNDS		tells it, and does its own part
 *
 * KIND is flock, posix, ofd, or weaken-flock and weaken-posix, where who has
 * the lock makes it shared, and the other one wants to share it; or part, where
 * of ten bytes that one has the other one wants those in the middle, given back
 * just now.
 *
 * Prints GRANTS REFUSED TOLD WRONG P50: of so many attempts at what was given
 * back a moment before, those that were refused; of as many questions
 * (F_GETLK), those that were answered by a lock; how often somebody was granted
 * what the other had; and what an attempt took that is refused rightly (us).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static const char *kind;
static int file;

static bool is(const char *name)
{
	return strstr(kind, name) != NULL;
}

static int record(int cmd, short type, long start, long len, short *found)
{
	struct flock l = { .l_type = type, .l_start = start, .l_len = len };

	if (is("ofd"))
		cmd = cmd == F_SETLK ? F_OFD_SETLK : F_OFD_GETLK;
	if (fcntl(file, cmd, &l) < 0)
		return errno;
	if (found)
		*found = l.l_type;
	return 0;
}

static int by_flock(int op)
{
	return flock(file, op) < 0 ? errno : 0;
}

/* 'l'ock, 'w'ant (what the other gives), 'g'ive it, 'u'nlock, 'a'sk */
static int act(char what)
{
	const bool weaken = is("weaken");
	short found = F_UNLCK;
	int err;

	if (is("flock"))
		switch (what) {
		case 'l':
			return by_flock(LOCK_EX | LOCK_NB);
		case 'w':
			return by_flock((weaken ? LOCK_SH : LOCK_EX) | LOCK_NB);
		case 'g':
			return by_flock(weaken ? LOCK_SH : LOCK_UN);
		case 'u':
			return by_flock(LOCK_UN);
		default:
			return 0;
		}
	switch (what) {
	case 'l':
		return record(F_SETLK, F_WRLCK, 0, 10, NULL);
	case 'w':
		return record(F_SETLK, weaken ? F_RDLCK : F_WRLCK, 3, 4, NULL);
	case 'g':
		return record(F_SETLK, weaken ? F_RDLCK : F_UNLCK,
			      is("part") ? 3 : 0, is("part") ? 4 : 10, NULL);
	case 'u':
		return record(F_SETLK, F_UNLCK, 0, 10, NULL);
	default:
		err = record(F_GETLK, weaken ? F_RDLCK : F_WRLCK, 3, 4, &found);
		return err ?: found != F_UNLCK ? EAGAIN : 0;
	}
}

/* --- who serves ----------------------------------------------------------- */

static int serve(const struct sockaddr_un *address)
{
	int s = socket(AF_UNIX, SOCK_SEQPACKET, 0), c;
	char what;

	if (bind(s, (const void *)address, sizeof(*address)) || listen(s, 1))
		die("bind");
	puts("ready");
	fflush(stdout);
	c = accept(s, NULL, NULL);
	while (read(c, &what, 1) == 1) {
		int err = act(what);

		if (write(c, &err, sizeof(err)) != sizeof(err))
			break;
	}
	return 0;
}

/* --- who plays ------------------------------------------------------------ */

enum { ROUNDS_MAX = 10000 };

static int peer;
static int grants, refused, told, wrong, n_us;
static double us[ROUNDS_MAX];

static int say_to_peer(char what)
{
	int err;

	if (write(peer, &what, 1) != 1 ||
	    read(peer, &err, sizeof(err)) != sizeof(err))
		die("the other one");
	return err;
}

static int either(bool mine, char what)
{
	return mine ? act(what) : say_to_peer(what);
}

static void must(bool mine, char what)
{
	int err = either(mine, what);

	if (!err)
		return;
	fprintf(stderr, "%s: %c fails: %s\n", mine ? "we" : "the other", what,
		strerrorname_np(err));
	exit(1);
}

/* One has it; the other is refused; the one gives it; the other takes it. */
static void pass(bool first)
{
	long long began;
	int err;

	must(first, 'l');
	began = now_ns();
	wrong += either(!first, 'w') == 0;
	if (!first && n_us < ROUNDS_MAX)
		us[n_us++] = (double)(now_ns() - began) / 1e3;
	must(first, 'g');
	err = either(!first, 'w');
	grants++;
	refused += err != 0;
	must(!first, 'u');
	must(first, 'u');
	/* (Taken once more, for it was free long since.) */
	while (either(first, 'l'))
		;
	must(first, 'g');
	told += either(!first, 'a') != 0;
	must(first, 'u');
	while (either(!first, 'l'))
		;
	must(!first, 'u');
}

static int in_order(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int play(const struct sockaddr_un *address, int rounds)
{
	peer = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (connect(peer, (const void *)address, sizeof(*address)))
		die("connect");
	for (int i = 0; i < rounds; i++)
		pass(i % 2);
	qsort(us, (size_t)n_us, sizeof(us[0]), in_order);
	printf("%d %d %d %d %.0f\n", grants, refused, told, wrong,
	       us[n_us / 2]);
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (argc < 5)
		return 64;
	strncpy(address.sun_path, argv[2], sizeof(address.sun_path) - 1);
	kind = argv[4];
	file = open(argv[3], O_RDWR | O_CREAT, 0666);
	if (file < 0)
		die(argv[3]);
	return strcmp(argv[1], "serve") == 0
		       ? serve(&address)
		       : play(&address, (int)strtol(argv[5], NULL, 10));
}
