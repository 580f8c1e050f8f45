/* SPDX-License-Identifier: MIT */
/*
 * Two programs that lock and ask in turn, by chance, none before the other is
 * done; what each step gave is printed.  So two runs of one seed print the same
 * if, and only if, locks mean the same.
 *
 *	random_steps serve SOCKET FILE
 *	random_steps play SOCKET FILE STEPS SEED
 *
 * A line a step: WHO COMMAND TYPE START LENGTH: RESULT, which is an errno, or
 * whether F_GETLK found any.  (Of several owners' locks the kernel names one of
 * who came first, and not the one that starts first.)  Nobody waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { BYTES = 24 };
enum { SET, GET, SET_OFD, GET_OFD, FLOCK, COMMANDS };

struct step {
	int command, type, start, len, error;
	struct flock found;
};

static const char *const names[] = { "set", "get", "ofdset", "ofdget",
				     "flock" };
static const int commands[] = { F_SETLK, F_GETLK, F_OFD_SETLK, F_OFD_GETLK };
static const short types[] = { F_RDLCK, F_WRLCK, F_UNLCK };
static const int modes[] = { LOCK_SH, LOCK_EX, LOCK_UN };
static int file, ofd_file;

static void act(struct step *s)
{
	int fd = s->command == SET_OFD || s->command == GET_OFD ? ofd_file
								: file;

	s->error = 0;
	s->found = (struct flock){ .l_type = types[s->type],
				   .l_start = s->start,
				   .l_len = s->len };
	if (s->command == FLOCK ? flock(fd, modes[s->type] | LOCK_NB)
				: fcntl(fd, commands[s->command], &s->found))
		s->error = errno;
}

static void serve(int s)
{
	struct step step;
	int c = accept(s, NULL, NULL);

	while (read(c, &step, sizeof(step)) == sizeof(step)) {
		act(&step);
		if (write(c, &step, sizeof(step)) != sizeof(step))
			die("write");
	}
}

static void print(const struct step *s, int theirs)
{
	printf("%s %s %c %d %d: ", theirs ? "B" : "A", names[s->command],
	       "RWU"[s->type], s -> start, s -> len);
	if (s->error)
		puts(strerrorname_np(s->error));
	else if (s->command == GET || s->command == GET_OFD)
		puts(s->found.l_type == F_UNLCK ? "free" : "held");
	else
		puts("0");
}

static void play(int c, long steps, unsigned seed)
{
	srandom(seed);
	while (steps--) {
		struct step s = {
			.command = (int)(random() % COMMANDS),
			.type = (int)(random() % 3),
			.start = (int)(random() % BYTES),
		};
		int theirs = (int)(random() % 2);

		s.len = random() % 8 ? 1 + (int)(random() % 8) : 0;
		/* F_GETLK of an unlock is EINVAL everywhere. */
		if (s.command == GET || s.command == GET_OFD)
			s.type %= 2;
		if (!theirs) {
			act(&s);
		} else if (write(c, &s, sizeof(s)) != sizeof(s) ||
			   read(c, &s, sizeof(s)) != sizeof(s)) {
			die("the other one");
		}
		print(&s, theirs);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (argc < 4)
		return 64;
	strncpy(address.sun_path, argv[2], sizeof(address.sun_path) - 1);
	file = open(argv[3], O_RDWR | O_CREAT, 0666);
	ofd_file = open(argv[3], O_RDWR | O_CREAT, 0666);
	if (file < 0 || ofd_file < 0)
		die(argv[3]);
	if (strcmp(argv[1], "serve") == 0) {
		if (bind(s, (const void *)&address, sizeof(address)) ||
		    listen(s, 1))
			die("bind");
		puts("ready");
		fflush(stdout);
		serve(s);
	} else if (argc > 5) {
		if (connect(s, (const void *)&address, sizeof(address)))
			die("connect");
		play(s, strtol(argv[4], NULL, 10),
		     (unsigned)strtoul(argv[5], NULL, 10));
	}
	return 0;
}
