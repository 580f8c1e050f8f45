/* SPDX-License-Identifier: MIT */
/*
 * A program that makes another directory its root, as soon as it has a lock.
 *
 *	another_root HOW DIR [FILE]	locks FILE, if there is one; then by HOW
 *		chroot		chroot(2)
 *		pivot		pivot_root(2), DIR being a mount with a directory
 *				`old`, which is unmounted then
 *		chroot#, pivot#	the same by syscall(2)
 *		setns		setns(2), DIR being a mount namespace's file
 *	and says "RESULT ERRNO"; RESULT is 0 or -1, ERRNO 77 if it was left alone
 *
 * Then a command a line of standard input:
 *	child	makes a child, which has the lock as well, and is killed: "alone",
 *		says the child, and ends with the next line
 *	unlock, lock	"0", or the name of the errno
 */
#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>

#include "tests/lib/helper.h"

enum { BEFORE = 77 };

int pivot_root(const char *new_root, const char *old);

static long pivot(const char *dir, bool by_number)
{
	long r;

	if (chdir(dir))
		die(dir);
	errno = BEFORE;
	r = by_number ? syscall(SYS_pivot_root, ".", "old")
		      : pivot_root(".", "old");
	if (r == 0 && umount2("/old", MNT_DETACH))
		die("umount2");
	return r;
}

static long join(const char *namespace)
{
	const int fd = open(namespace, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die(namespace);
	errno = BEFORE;
	return setns(fd, CLONE_NEWNS);
}

static long become(const char *how, const char *dir)
{
	const bool by_number = how[strlen(how) - 1] == '#';

	errno = BEFORE;
	if (*how == 'p')
		return pivot(dir, by_number);
	if (*how == 's')
		return join(dir);
	return by_number ? syscall(SYS_chroot, dir) : chroot(dir);
}

/* Its parent's end is that of a pipe. */
static void leave_to_child(void)
{
	int ends[2];
	char line[80];
	pid_t pid;

	if (pipe(ends) || (pid = fork()) < 0)
		die("fork");
	if (pid > 0)
		kill(getpid(), SIGKILL);
	close(ends[1]);
	if (read(ends[0], line, 1) == 0)
		tell("alone");
	fgets(line, sizeof(line), stdin);
	_exit(0);
}

int main(int argc, char **argv)
{
	char line[80];
	int fd = -1;
	long r;

	/* What is not read yet is the child's. */
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3)
		return 2;
	if (argc > 3)
		fd = locked(argv[3]);
	r = become(argv[1], argv[2]);
	printf("%ld %s\n", r, errno == BEFORE ? "77" : strerrorname_np(errno));
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "child") == 0)
			leave_to_child();
		else if (strcmp(line, "unlock") == 0)
			puts(outcome(flock(fd, LOCK_UN)));
		else
			puts(outcome(flock(fd, LOCK_EX)));
	}
	return 0;
}
