/* SPDX-License-Identifier: MIT */
/*
 * execve(2) keeps the POSIX locks, unless it closes a descriptor of the file;
 * OFD locks go with the last descriptor.
 */
#include "records.h"

static struct turns t;

static void after_exec(char **argv)
{
	int fd = (int)strtol(argv[1], NULL, 10);

	pass_turn((int[]){ -1, (int)strtol(argv[2], NULL, 10) });
	wait_turn((int[]){ (int)strtol(argv[3], NULL, 10), -1 });
	if (fd >= 0) {
		SHOW(SET(fd, F_WRLCK, 0, 20));
		SHOW(OFD(fd, F_RDLCK, 30, 20));
		SHOW(SET(fd, F_UNLCK, 5, 5));
		SHOW(OFD(fd, F_UNLCK, 30, 5));
	}
	pass_turn((int[]){ -1, (int)strtol(argv[2], NULL, 10) });
	wait_turn((int[]){ (int)strtol(argv[3], NULL, 10), -1 });
	if (fd >= 0) {
		SHOW(SET(fd, F_UNLCK, 0, 0));
		SHOW(OFD(fd, F_UNLCK, 0, 0));
	}
	exit(0);
}

static void become(int fd)
{
	char self[] = "/proc/self/exe", number[16], to[16], from[16];
	char *args[] = { self, number, to, from, NULL };
	int passed_to = dup(t.to_parent[1]), passed_from = dup(t.to_child[0]);

	snprintf(number, sizeof(number), "%d", fd);
	snprintf(to, sizeof(to), "%d", passed_to);
	snprintf(from, sizeof(from), "%d", passed_from);
	fflush(stdout);
	execv(self, args);
	_exit(3);
}

/* The lock is taken with `flags`; `more` are those of another descriptor. */
static void child(int flags, int more)
{
	int fd = opened("f", O_RDWR | flags);

	SHOW(SET(fd, F_WRLCK, 0, 10));
	SHOW(OFD(fd, F_WRLCK, 30, 10));
	if (more >= 0)
		opened("f", O_RDONLY | more);
	become(flags ? -1 : fd);
}

static void run(int flags, int more)
{
	pid_t pid;

	printf("exec: %d %d\n", flags != 0, more < 0 ? -1 : more != 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		child(flags, more);
	wait_turn(t.to_parent);
	HELD();
	pass_turn(t.to_child);
	wait_turn(t.to_parent);
	HELD();
	pass_turn(t.to_child);
	SHOW(child_status(pid));
	HELD();
}

int main(int argc, char **argv)
{
	if (argc > 1)
		after_exec(argv);
	prober_start("f");
	turns_new(&t);
	run(0, -1);
	run(0, 0);
	run(0, O_CLOEXEC);
	run(O_CLOEXEC, -1);
	run(O_CLOEXEC, 0);
	leave_nothing("f");
	return 0;
}
