/* SPDX-License-Identifier: MIT */
/*
 * A call that asks Redis by a descriptor that another thread closes and reuses.
 *
 *	reused_while_asking KIND FILE OTHER
 *
 * KIND: flock, posix or ofd.  One thread locks FILE without waiting.  As soon
 * as the kernel has granted that, the other one makes the number one of OTHER
 * and locks that: "0" or the errno's name, of the first call; the same of the
 * second; and how many locks the kernel lists for the number in the end.  Or
 * "missed", if the first call was over before.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char *kind;
static int fd;
static atomic_bool over;

static const char *lock(void)
{
	struct flock l = { .l_type = F_WRLCK, .l_len = 10 };
	int err;

	if (strcmp(kind, "flock") == 0)
		err = flock(fd, LOCK_EX | LOCK_NB);
	else
		err = fcntl(fd, kind[0] == 'o' ? F_OFD_SETLK : F_SETLK, &l);
	return err ? strerrorname_np(errno) : "0";
}

static void *ask(void *unused)
{
	const char *result = lock();

	(void)unused;
	over = true;
	return (void *)(uintptr_t)result;
}

static int listed(void)
{
	char name[40], line[200];
	int n = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
	f = fopen(name, "re");
	while (f && fgets(line, sizeof(line), f))
		n += strncmp(line, "lock:", 5) == 0;
	if (f)
		fclose(f);
	return n;
}

int main(int argc, char **argv)
{
	bool missed = false;
	const char *second;
	void *first;
	int other;
	pthread_t t;

	if (argc < 4)
		return 2;
	kind = argv[1];
	fd = open(argv[2], O_RDWR | O_CREAT, 0666);
	other = open(argv[3], O_RDWR | O_CREAT, 0666);
	pthread_create(&t, NULL, ask, NULL);
	while (!missed && !listed())
		missed = over && !listed();
	if (missed) {
		puts("missed");
		return 0;
	}
	dup2(other, fd);
	close(other);
	second = lock();
	pthread_join(t, &first);
	printf("%s %s %d\n", (const char *)first, second, listed());
	return 0;
}
