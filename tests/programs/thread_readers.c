/* SPDX-License-Identifier: MIT */
/*
 * A thread weakens its exclusive lock while another waits for a shared one, at
 * each line again: "both".	thread_readers FILE
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/lib/helper.h"

static const char *file;

static int go_on(void)
{
	char line[64];

	return fgets(line, sizeof(line), stdin) != NULL;
}

static int open_file(void)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0)
		die(file);
	return fd;
}

static void lock(int fd, int op)
{
	if (flock(fd, op) < 0)
		die("flock");
}

static pthread_barrier_t meet;

static void *reader(void *unused)
{
	(void)unused;
	for (;;) {
		int fd = open_file();

		pthread_barrier_wait(&meet);
		lock(fd, LOCK_SH);
		pthread_barrier_wait(&meet);
		pthread_barrier_wait(&meet);
		close(fd);
	}
	return NULL;
}

/* The reader is most often asleep in the kernel when it may go on. */
int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 2)
		return 64;
	file = argv[1];
	pthread_barrier_init(&meet, NULL, 2);
	if (pthread_create(&thread, NULL, reader, NULL))
		die("pthread_create");
	while (go_on()) {
		int fd = open_file();

		lock(fd, LOCK_EX);
		pthread_barrier_wait(&meet);
		pause_us(200);
		lock(fd, LOCK_SH);
		pthread_barrier_wait(&meet);
		tell("both");
		if (!go_on())
			break;
		pthread_barrier_wait(&meet);
		close(fd);
	}
	return 0;
}
