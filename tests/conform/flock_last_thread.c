/* SPDX-License-Identifier: MIT */
/*
 * A process ends with its last thread, whichever that is and however it ends,
 * and its locks with it (pthread_exit(3), exit(2)).
 */
#include "conform.h"

#include <pthread.h>
#include <sys/syscall.h>

static struct turns turns;

static void exit_code(void)
{
	printf("atexit\n");
	fflush(stdout);
}

static void lock(void)
{
	int fd = opened("f", O_RDWR);

	SHOW(flock(fd, LOCK_EX | LOCK_NB));
}

static void *returns(void *arg)
{
	pass_turn(turns.to_parent);
	wait_turn(turns.to_child);
	return arg;
}

static void *leaves(void *arg)
{
	returns(NULL);
	pthread_exit(arg);
}

static void *leaves_by_syscall(void *arg)
{
	returns(NULL);
	syscall(SYS_exit, 7);
	return arg;
}

static void main_leaves(void)
{
	pthread_exit(NULL);
}

static void main_leaves_by_syscall(void)
{
	syscall(SYS_exit, 7);
}

/* A child that locks; its main thread leaves, and then the worker, if any. */
static void child(const char *name, void (*main_end)(void),
		  void *(*worker)(void *))
{
	pthread_t thread;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		atexit(exit_code);
		lock();
		if (worker && pthread_create(&thread, NULL, worker, NULL))
			_exit(2);
		main_end();
		_exit(3);
	}
	if (worker) {
		wait_turn(turns.to_parent);
		PROBE("f");
		pass_turn(turns.to_child);
	}
	status = child_status(pid);
	printf("%s: exited %d, status %d\n", name, WIFEXITED(status),
	       WEXITSTATUS(status));
	PROBE("f");
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	turns_new(&turns);
	child("alone", main_leaves, NULL);
	child("alone, by system call", main_leaves_by_syscall, NULL);
	child("before a worker that returns", main_leaves, returns);
	child("before a worker that leaves", main_leaves, leaves);
	child("both by system call", main_leaves_by_syscall, leaves_by_syscall);
	return 0;
}
