/* SPDX-License-Identifier: MIT */
/*
 * Two threads lock one description as they are told, a line each on standard
 * input:
 *
 *	THREAD EX|SH|UN [NB]	flock(2); once it has returned the answer is
 *				"THREAD 0", or the errno's name
 *	THREAD hold		a signal's handler (SA_RESTART) keeps it, until
 *	THREAD go
 *	mode			what the kernel lists: WRITE, READ or none
 *
 *	two_threads FILE
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static struct worker {
	pthread_t thread;
	int orders[2], gate[2];
} workers[2];
static __thread struct worker *self;
static int file;

static void keep(int signo)
{
	int saved = errno;
	char c;

	(void)signo;
	(void)!write(STDOUT_FILENO, "held\n", 5);
	(void)!read(self->gate[0], &c, 1);
	errno = saved;
}

static void *work(void *worker)
{
	int op;

	self = worker;
	while (read(self->orders[0], &op, sizeof(op)) == sizeof(op)) {
		int r = flock(file, op);

		printf("%d %s\n", (int)(self - workers) + 1,
		       r ? strerrorname_np(errno) : "0");
	}
	return NULL;
}

static void order(struct worker *w, const char *what, const char *nb)
{
	int op = strcmp(what, "EX") == 0   ? LOCK_EX
		 : strcmp(what, "SH") == 0 ? LOCK_SH
					   : LOCK_UN;

	if (strcmp(what, "hold") == 0) {
		pthread_kill(w->thread, SIGUSR1);
	} else if (strcmp(what, "go") == 0) {
		(void)!write(w->gate[1], "", 1);
	} else {
		op |= *nb ? LOCK_NB : 0;
		(void)!write(w->orders[1], &op, sizeof(op));
	}
}

static void say_mode(void)
{
	char name[64], line[256];
	const char *mode = "none";
	FILE *in;

	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", file);
	in = fopen(name, "re");
	while (in && fgets(line, sizeof(line), in))
		if (strstr(line, "FLOCK"))
			mode = strstr(line, "WRITE") ? "WRITE" : "READ";
	if (in)
		fclose(in);
	puts(mode);
}

int main(int argc, char **argv)
{
	struct sigaction action = {
		.sa_handler = keep,
		.sa_flags = SA_RESTART,
	};
	char line[64], what[16], nb[16];
	int i;

	if (argc != 2)
		return 64;
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGUSR1, &action, NULL);
	file = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (i = 0; i < 2; i++)
		if (pipe2(workers[i].orders, O_CLOEXEC) ||
		    pipe2(workers[i].gate, O_CLOEXEC) ||
		    pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 71;
	while (fgets(line, sizeof(line), stdin)) {
		nb[0] = '\0';
		if ((line[0] == '1' || line[0] == '2') &&
		    sscanf(line + 1, " %15s %15s", what, nb) >= 1)
			order(&workers[line[0] - '1'], what, nb);
		else
			say_mode();
	}
	return 0;
}
