/* SPDX-License-Identifier: MIT */
/*
 * Eight threads make children while four others lock.
 *
 *	forking_threads SOCKET DIR FORKS
 *
 * SOCKET is Redis'; DIR is managed, its key "dlock:" and the path.  Whoever
 * holds a lock asks Redis, on a connection of its own, whose lease it is: it
 * must be this process's, and this file's (an answer that another thread, or
 * the parent, was meant to get would be another's).  Children are made in
 * every way; of fork()'s, one in eight locks too, some with the lock held at
 * their end.
 *
 *	FORKS children, LOCKS locks, CROSSED crossed, FAILED failed
 *
 * and status 0, or "no progress" and 3 when nothing has moved for 30 s.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FORKERS = 8, LOCKERS = 4, CHILD_FILES = 32, STALL_S = 30 };

/* Shared with the children. */
static struct {
	_Atomic long forks, locks, crossed, failed;
} * sum;

static const char *redis, *dir;
static long wanted;
static _Atomic long begun;
static _Atomic int forkers = FORKERS;

static void complain(const char *what, const char *detail)
{
	char line[1024];
	int n = snprintf(line, sizeof(line), "%d: %s: %s\n", getpid(), what,
			 detail);

	(void)!write(STDERR_FILENO, line, (size_t)n);
}

static int connected(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strncpy(un.sun_path, redis, sizeof(un.sun_path) - 1);
	while (s >= 0 && connect(s, (struct sockaddr *)&un, sizeof(un)))
		if (errno != EINTR && errno != EAGAIN)
			return -1;
	return s;
}

/* GET key: "$LENGTH\r\nTOKEN\r\n", in one piece, for it is short. */
static bool get(int s, const char *key, char *answer, size_t size)
{
	char ask[512];
	int n = snprintf(ask, sizeof(ask), "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n",
			 strlen(key), key);
	ssize_t got;

	if (send(s, ask, (size_t)n, MSG_NOSIGNAL) != n)
		return false;
	got = recv(s, answer, size - 1, 0);
	answer[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/* A word of "$LENGTH\r\ndlock1 RANDOM HOST FILE SINCE PID ..." (token.h). */
static const char *word(const char *text, int n)
{
	while (n-- > 0 && text) {
		text = strpbrk(text, " \n");
		text = text ? text + 1 : NULL;
	}
	return text ? text : "";
}

/* Is the lease of this name ours, and of this file ("DEV:INODE:-")? */
static bool ours(int s, const char *name, int fd)
{
	char key[300], answer[2048];
	const char *inode;
	struct stat st;

	snprintf(key, sizeof(key), "dlock:%s", name);
	if (fstat(fd, &st) || !get(s, key, answer, sizeof(answer)))
		return false;
	inode = strchr(word(answer, 4), ':');
	if (inode && strtoul(inode + 1, NULL, 16) == st.st_ino &&
	    strtol(word(answer, 6), NULL, 10) == getpid())
		return true;
	complain(name, answer);
	return false;
}

static void lock_once(int s, const char *name, int fd, bool unlock)
{
	if (flock(fd, LOCK_EX)) {
		complain("flock", strerrorname_np(errno));
		atomic_fetch_add(&sum->failed, 1);
		return;
	}
	atomic_fetch_add(&sum->locks, 1);
	if (!ours(s, name, fd))
		atomic_fetch_add(&sum->crossed, 1);
	if (unlock && flock(fd, LOCK_UN))
		atomic_fetch_add(&sum->failed, 1);
}

static int opened(const char *kind, long n, char *name, size_t size)
{
	int fd;

	snprintf(name, size, "%s/%s%ld", dir, kind, n);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		complain(name, strerrorname_np(errno));
	return fd;
}

static void *locker(void *arg)
{
	const struct timespec rest = { 0, 200000 };
	char name[256];
	int fd = opened("l", (long)(intptr_t)arg, name, sizeof(name));
	int s = connected();

	while (atomic_load(&forkers)) {
		lock_once(s, name, fd, true);
		nanosleep(&rest, NULL);
	}
	close(s);
	close(fd);
	return NULL;
}

/* --- children ------------------------------------------------------------- */

static void child(long n)
{
	char name[256];
	int fd, s;

	if (n % 8)
		_exit(0);
	fd = opened("c", n / 8 % CHILD_FILES, name, sizeof(name));
	s = connected();
	lock_once(s, name, fd, n % 16 == 0);
	_exit(0);
}

static void wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR) {
			complain("waitpid", strerrorname_np(errno));
			status = 0x100;
			break;
		}
	if (status)
		atomic_fetch_add(&sum->failed, 1);
}

static pid_t spawned(void)
{
	static char *const argv[] = { (char *)(uintptr_t) "true", NULL };
	pid_t pid;

	return posix_spawnp(&pid, "true", NULL, NULL, argv, environ) ? -1 : pid;
}

static pid_t vforked(void)
{
	pid_t pid = vfork(); /* NOLINT: what it does is the question */

	if (pid == 0)
		_exit(0);
	return pid;
}

static void by_shell(long n)
{
	FILE *f;

	if (n % 2) {
		if (system("exit 0"))
			atomic_fetch_add(&sum->failed, 1);
		return;
	}
	f = popen("exit 0", "r");
	if (!f || pclose(f))
		atomic_fetch_add(&sum->failed, 1);
}

static void make_child(long n)
{
	pid_t pid;

	if (n % 100 == 99) {
		by_shell(n / 100);
		return;
	}
	if (n % 50 == 48)
		pid = spawned();
	else if (n % 10 == 7)
		pid = vforked();
	else
		pid = fork();
	if (pid == 0)
		child(n);
	if (pid > 0)
		wait_for(pid);
	else
		atomic_fetch_add(&sum->failed, 1);
}

static void *forker(void *arg)
{
	long n;

	(void)arg;
	while ((n = atomic_fetch_add(&begun, 1)) < wanted) {
		make_child(n);
		atomic_fetch_add(&sum->forks, 1);
	}
	atomic_fetch_sub(&forkers, 1);
	return NULL;
}

/* --- the watch ------------------------------------------------------------ */

/* Of locks and of children: one that stands still is enough. */
static bool watch(void)
{
	long forks = -1, locks = -1;
	const struct timespec tick = { 0, 100 * 1000000 };
	int still = 0;

	while (atomic_load(&forkers)) {
		long f = atomic_load(&sum->forks), l = atomic_load(&sum->locks);

		still = f == forks || l == locks ? still + 1 : 0;
		if (still >= STALL_S * 10)
			return false;
		forks = f;
		locks = l;
		nanosleep(&tick, NULL);
	}
	return true;
}

int main(int argc, char **argv)
{
	pthread_t threads[FORKERS + LOCKERS];

	if (argc != 4)
		return 64;
	redis = argv[1];
	dir = argv[2];
	wanted = strtol(argv[3], NULL, 10);
	sum = mmap(NULL, sizeof(*sum), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sum == MAP_FAILED)
		return 1;
	for (int i = 0; i < FORKERS + LOCKERS; i++)
		if (pthread_create(&threads[i], NULL,
				   i < FORKERS ? forker : locker,
				   (void *)(intptr_t)i))
			return 1;
	if (!watch()) {
		printf("no progress: %ld children, %ld locks\n",
		       atomic_load(&sum->forks), atomic_load(&sum->locks));
		fflush(stdout);
		_exit(3);
	}
	for (int i = 0; i < FORKERS + LOCKERS; i++)
		pthread_join(threads[i], NULL);
	printf("%ld children, %ld locks, %ld crossed, %ld failed\n",
	       atomic_load(&sum->forks), atomic_load(&sum->locks),
	       atomic_load(&sum->crossed), atomic_load(&sum->failed));
	return 0;
}
