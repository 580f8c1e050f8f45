/* SPDX-License-Identifier: MIT */
/*
 * Record locks of two hosts.
 *
 *	records tell		does as it is told, a line each (see below)
 *	records serve SOCKET FILE ZONES
 *				host B: holds the last bytes of each zone for
 *				writing, and tries what it is asked to
 *	records threads SOCKET FILE ZONES ROUNDS SEED
 *				host A: a thread a zone
 *
 * A thread locks and unlocks in its zone, where nobody else does, through any
 * of three descriptors.  It also asks for ranges with a byte of B's in them
 * across everybody's zones: each is refused, and MUST change nothing, whatever
 * the other threads have or ask for there.  After each call B tries a byte of
 * the zone.  At the end the kernel's list MUST be what all threads hold; it is
 * printed, in the form "W START END", and a line of input ends the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { ZONE = 64, HIS = 60, ZONES = 16, FDS = 3 };

static const char *file;
static int zones, rounds;
static unsigned seed;
static int fds[FDS];
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static short model[ZONES * ZONE];
static _Atomic bool failed;

static int record(int fd, int cmd, int type, long start, long len)
{
	struct flock l = {
		.l_type = (short)type,
		.l_start = start,
		.l_len = len,
	};

	return fcntl(fd, cmd, &l) ? errno : 0;
}

/* --- host B --------------------------------------------------------------- */

struct
try {
	int type, at, error;
};

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg, own = opened(file);
	struct try t;

	while (read(fd, &t, sizeof(t)) == sizeof(t)) {
		t.error = record(own, F_SETLK, t.type, t.at, 1);
		if (!t.error)
			record(own, F_SETLK, F_UNLCK, t.at, 1);
		if (write(fd, &t, sizeof(t)) != sizeof(t))
			break;
	}
	return NULL; /* open, or what we hold would end */
}

static void *accept_all(void *arg)
{
	const int *s = arg;
	pthread_t thread;
	int fd;

	while ((fd = accept(*s, NULL, 0)) >= 0)
		pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd);
	return NULL;
}

/* Until its input ends. */
static int serve(void)
{
	int s = socket(AF_UNIX, SOCK_STREAM, 0), own = opened(file);
	pthread_t thread;

	for (int z = 0; z < zones; z++)
		if (record(own, F_SETLK, F_WRLCK, z * ZONE + HIS, ZONE - HIS))
			return 1;
	if (bind(s, (void *)&address, sizeof(address)) || listen(s, 16) ||
	    pthread_create(&thread, NULL, accept_all, &s))
		return 2;
	puts("ready 0 0");
	fflush(stdout);
	getchar();
	record(own, F_SETLK, F_UNLCK, 0, 0);
	_exit(0);
}

/* --- host A --------------------------------------------------------------- */

struct worker {
	pthread_t thread;
	int zone, b;
	unsigned random;
	bool b_had; /* some byte of the zone, since our last call */
	long own, late, refused, tries;
};

static const char *name_of(int type)
{
	return type == F_WRLCK ? "write" : type == F_RDLCK ? "read" : "unlock";
}

static void fault(const struct worker *w, const char *what, int type, int at,
		  int error)
{
	fprintf(stderr, "zone %d: %s (%s at %d): %s\n", w->zone, what,
		name_of(type), at, strerrorname_np(error));
	failed = true;
}

static int below(struct worker *w, int n)
{
	return (int)(rand_r(&w->random) % (unsigned)n);
}

static int b_tries(struct worker *w, int type, int at)
{
	struct try t = { .type = type, .at = at };

	if (write(w->b, &t, sizeof(t)) != sizeof(t) ||
	    read(w->b, &t, sizeof(t)) != sizeof(t))
		exit(2);
	w->tries++;
	w->b_had |= t.error == 0;
	return t.error;
}

/* An unlock was sent and not waited for: soon enough. */
static bool b_gets(struct worker *w, int type, int at)
{
	for (int i = 0; i < 1000; i++) {
		if (b_tries(w, type, at) == 0)
			return true;
		usleep(1000);
	}
	return false;
}

static void ask_b(struct worker *w)
{
	int at = w->zone * ZONE + below(w, HIS);
	int type = below(w, 2) ? F_WRLCK : F_RDLCK;
	bool mine = model[at] == F_WRLCK ||
		    (model[at] == F_RDLCK && type == F_WRLCK);
	int error;

	if (!mine) {
		if (!b_gets(w, type, at))
			fault(w, "B is refused what is free", type, at, EAGAIN);
		return;
	}
	error = b_tries(w, type, at);
	if (error != EAGAIN)
		fault(w, "B has got what is ours", type, at, error);
}

static void own_call(struct worker *w)
{
	static const short types[] = { F_RDLCK, F_WRLCK, F_UNLCK };
	int from = below(w, HIS), n = 1 + below(w, HIS - from);
	short type = types[below(w, 3)];
	int at = w->zone * ZONE + from;
	int fd = fds[below(w, FDS)], error;

	/* What B unlocked it has sent, and Redis hears of it soon. */
	for (int i = 0; i < 1000; i++) {
		error = record(fd, F_SETLK, type, at, n);
		if (error != EAGAIN || !w->b_had)
			break;
		w->late++;
		usleep(1000);
	}
	w->b_had = false;
	w->own++;
	if (error)
		fault(w, "our own zone is refused", type, at, error);
	for (int i = at; i < at + n && !error; i++)
		model[i] = type;
}

static void refused_call(struct worker *w)
{
	int his = below(w, zones) * ZONE + HIS;
	int from = below(w, his + 1);
	int to = his + below(w, zones * ZONE - his);
	int type = below(w, 2) ? F_WRLCK : F_RDLCK;
	int error =
		record(fds[below(w, FDS)], F_SETLK, type, from, to - from + 1);

	w->refused++;
	if (error != EAGAIN)
		fault(w, "a byte of B's is not refused", type, from, error);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < rounds && !failed; i++) {
		own_call(w);
		ask_b(w);
		refused_call(w);
		ask_b(w);
	}
	return NULL;
}

/* lock: 1: POSIX ADVISORY WRITE PID FILE START END|EOF */
static void read_line(char *line, short *list)
{
	char *word[9] = { 0 }, *save = NULL;
	unsigned long start, end;
	int n = 0;

	for (char *w = strtok_r(line, " \t\n", &save); w && n < 9;
	     w = strtok_r(NULL, " \t\n", &save))
		word[n++] = w;
	if (n < 9 || strcmp(word[2], "POSIX") != 0)
		return;
	start = strtoul(word[7], NULL, 10);
	end = strtoul(word[8], NULL, 10);
	for (; start <= end && start < ZONES * ZONE; start++)
		list[start] = *word[4] == 'W' ? F_WRLCK : F_RDLCK;
}

/* By whichever descriptor. */
static void read_kernel(short *list)
{
	char path[64], line[256];

	for (int i = 0; i < FDS; i++) {
		FILE *in;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fds[i]);
		in = fopen(path, "re");
		while (in && fgets(line, sizeof(line), in))
			read_line(line, list);
		if (in)
			fclose(in);
	}
}

static void compare_with_kernel(void)
{
	short list[ZONES * ZONE];

	for (int i = 0; i < ZONES * ZONE; i++)
		list[i] = F_UNLCK;
	read_kernel(list);
	for (int i = 0; i < zones * ZONE; i++) {
		if (list[i] == model[i])
			continue;
		fprintf(stderr, "byte %d: the kernel has %s, we %s\n", i,
			name_of(list[i]), name_of(model[i]));
		failed = true;
	}
}

static void print_model(void)
{
	for (int i = 0; i < zones * ZONE; i++) {
		int from = i;

		while (i + 1 < zones * ZONE && model[i + 1] == model[from])
			i++;
		if (model[from] != F_UNLCK)
			printf("%c %d %d\n", model[from] == F_WRLCK ? 'W' : 'R',
			       from, i);
	}
	puts("end 0 0");
	fflush(stdout);
}

static int threads(void)
{
	struct worker w[ZONES] = { 0 };

	for (int i = 0; i < ZONES * ZONE; i++)
		model[i] = F_UNLCK;
	for (int i = 0; i < FDS; i++)
		fds[i] = opened(file);
	for (int z = 0; z < zones; z++) {
		w[z].zone = z;
		w[z].random = seed + (unsigned)z;
		w[z].b = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(w[z].b, (void *)&address, sizeof(address)) ||
		    pthread_create(&w[z].thread, NULL, work, &w[z]))
			return 2;
	}
	for (int z = 0; z < zones; z++)
		pthread_join(w[z].thread, NULL);
	compare_with_kernel();
	fprintf(stderr,
		"of thread 0: %ld calls for its own, %ld again; %ld refused; B "
		"tried %ld times\n",
		w[0].own, w[0].late, w[0].refused, w[0].tries);
	printf("%s 0 0\n", failed ? "failed" : "good");
	print_model();
	getchar();
	record(fds[0], F_SETLK, F_UNLCK, 0, 0);
	return failed;
}

/* --- as it is told -------------------------------------------------------- */

/*
 * open|opath|stream SLOT PATH; dup SLOT SLOT2; over SLOT SLOT2 (dup2);
 * close|fclose|closefrom|span SLOT (the last: close_range of this number);
 * unseen SLOT (closed so that no library sees it);
 * [ofd]set|wait|get SLOT R|W|U START LEN; test SLOT; fork; exec SLOT [PROGRAM];
 * pid;
 * a get answers 'U', or 'TYPE,START,LEN,PID'.
 */
static int slots[26];
static FILE *streams[26];
static char **self;

static int type_of(const char *word)
{
	return *word == 'R' ? F_RDLCK : *word == 'W' ? F_WRLCK : F_UNLCK;
}

static int do_lock(char **arg, char *text, size_t size)
{
	bool ofd = strncmp(arg[0], "ofd", 3) == 0;
	const char *what = arg[0] + (ofd ? 3 : 0);
	struct flock l = {
		.l_type = (short)type_of(arg[2]),
		.l_start = strtol(arg[3], NULL, 10),
		.l_len = strtol(arg[4], NULL, 10),
	};
	int cmd, n;

	if (strcmp(what, "set") == 0)
		cmd = ofd ? F_OFD_SETLK : F_SETLK;
	else if (strcmp(what, "wait") == 0)
		cmd = ofd ? F_OFD_SETLKW : F_SETLKW;
	else
		cmd = ofd ? F_OFD_GETLK : F_GETLK;
	n = fcntl(slots[*arg[1] - 'a'], cmd, &l);
	if (n == 0 && strcmp(what, "get") == 0) {
		if (l.l_type == F_UNLCK)
			snprintf(text, size, "U");
		else
			snprintf(text, size, "%c,%ld,%ld,%d",
				 l.l_type == F_WRLCK ? 'W' : 'R',
				 (long)l.l_start, (long)l.l_len, l.l_pid);
	}
	return n;
}

static int do_fork(int fd)
{
	pid_t pid = fork();

	if (pid == 0) {
		close(fd);
		for (;;)
			pause();
	}
	return pid;
}

static int do_open(const char *how, int slot, const char *path)
{
	if (strcmp(how, "stream") == 0) {
		streams[slot] = fopen(path, "r+");
		slots[slot] = streams[slot] ? fileno(streams[slot]) : -1;
	} else {
		slots[slot] =
			open(path,
			     *how == 'o' && how[2] == 'a' ? O_PATH
							  : O_RDWR | O_CREAT,
			     0666);
	}
	return slots[slot] < 0 ? -1 : 0;
}

/* Its descriptors stay, and the slot is the next one's 'a'. */
static int do_exec(int fd, const char *program)
{
	char number[16];
	char *args[] = { self[0], self[1], number, NULL };

	snprintf(number, sizeof(number), "%d", fd);
	return execv(program ? program : "/proc/self/exe", args);
}

static int do_close(const char *how, int slot)
{
	int fd = slots[slot];

	if (strcmp(how, "unseen") == 0)
		return (int)raw_syscall(SYS_close, fd, 0, 0, 0);

	if (strcmp(how, "fclose") == 0)
		return fclose(streams[slot]);
	if (strcmp(how, "span") == 0)
		return close_range((unsigned)fd, (unsigned)fd, 0);
	if (strcmp(how, "closefrom") == 0)
		return closefrom(fd), 0;
	return close(fd);
}

static int obey(char **arg, char *text, size_t size)
{
	int slot = arg[1] ? *arg[1] - 'a' : 0;

	if (strcmp(arg[0], "pid") == 0)
		return getpid();
	if (arg[4])
		return do_lock(arg, text, size);
	if (strcmp(arg[0], "test") == 0)
		return lockf(slots[slot], F_TEST, 0);
	if (strcmp(arg[0], "fork") == 0)
		return do_fork(slots[slot]);
	if (strcmp(arg[0], "exec") == 0)
		return do_exec(slots[slot], arg[2]);
	if (arg[2] && strcmp(arg[0], "dup") == 0)
		return (slots[*arg[2] - 'a'] = dup(slots[slot])) < 0 ? -1 : 0;
	if (arg[2] && strcmp(arg[0], "over") == 0)
		return dup2(slots[slot], slots[*arg[2] - 'a']) < 0 ? -1 : 0;
	if (arg[2])
		return do_open(arg[0], slot, arg[2]);
	return do_close(arg[0], slot);
}

static int obey_lines(void)
{
	char line[4096];

	setvbuf(stdin, NULL, _IONBF,
		0); /* what is not read yet survives exec */
	while (fgets(line, sizeof(line), stdin)) {
		char *arg[6] = { 0 }, *save = NULL, text[64] = "";
		long long start = now_ns();
		int n = 0;

		line[strcspn(line, "\n")] = '\0';
		for (char *w = strtok_r(line, " ", &save); w && n < 5;
		     w = strtok_r(NULL, " ", &save))
			arg[n++] = w;
		if (n == 0)
			continue;
		errno = 0;
		n = obey(arg, text, sizeof(text));
		if (n < 0)
			snprintf(text, sizeof(text), "%s",
				 strerrorname_np(errno));
		else if (!text[0])
			snprintf(text, sizeof(text), "%d", n);
		printf("%s %lld %lld\n", text, start, now_ns());
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	self = argv;
	if (argc > 2 && strcmp(argv[1], "tell") == 0) {
		slots[0] = (int)strtol(argv[2], NULL, 10);
		puts("0 0 0");
		fflush(stdout);
	}
	if (argc > 1 && strcmp(argv[1], "tell") == 0)
		return obey_lines();
	if (argc < 5)
		return 2;
	strncpy(address.sun_path, argv[2], sizeof(address.sun_path) - 1);
	file = argv[3];
	zones = (int)strtol(argv[4], NULL, 10);
	if (strcmp(argv[1], "serve") == 0)
		return serve();
	rounds = argc > 6 ? (int)strtol(argv[5], NULL, 10) : 0;
	seed = argc > 6 ? (unsigned)strtoul(argv[6], NULL, 10) : 1;
	return threads();
}
