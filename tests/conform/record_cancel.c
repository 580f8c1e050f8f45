/* SPDX-License-Identifier: MIT */
/*
 * F_SETLKW and lockf(F_LOCK) are cancellation points, F_SETLK and F_GETLK are
 * none (pthreads(7)); a cancelled wait leaves nothing behind.
 */
#include "records.h"

#include <pthread.h>

static int fd, command;
static struct turns t;

static void cleaned(void *arg)
{
	printf("cleanup %s\n", (const char *)arg);
}

static int do_command(void)
{
	return command == -1 ? lockf(fd, F_LOCK, 10)
			     : record(fd, command, F_WRLCK, 0, 10);
}

static void *waits(void *unused)
{
	(void)unused;
	pthread_cleanup_push(cleaned, "of a wait");
	pass_turn(t.to_parent);
	SHOW(do_command());
	pthread_cleanup_pop(0);
	return NULL;
}

/* A cancellation is pending already, and nobody is in the way. */
static void *is_cancelled(void *unused)
{
	(void)unused;
	pthread_cleanup_push(cleaned, "of one that was pending");
	pthread_cancel(pthread_self());
	SHOW(do_command());
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *is_deaf(void *unused)
{
	(void)unused;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	SHOW(do_command());
	return NULL;
}

static void end_of(pthread_t thread)
{
	void *result = NULL;

	pthread_join(thread, &result);
	printf("command %d: %s\n", command,
	       result == PTHREAD_CANCELED ? "cancelled" : "ended");
	HELD();
}

static void in_thread(void *(*run)(void *), int cmd)
{
	pthread_t thread;

	command = cmd;
	if (pthread_create(&thread, NULL, run, NULL))
		_exit(2);
	end_of(thread);
}

static pid_t holder(struct turns *h)
{
	pid_t pid;

	turns_new(h);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int own = opened("f", O_RDWR);

		SET(own, F_WRLCK, 0, 10);
		pass_turn(h->to_parent);
		wait_turn(h->to_child);
		SET(own, F_UNLCK, 0, 0);
		_exit(0);
	}
	wait_turn(h->to_parent);
	return pid;
}

static void cancelled_wait(int cmd)
{
	struct turns h;
	pid_t pid = holder(&h);
	pthread_t thread;

	command = cmd;
	if (pthread_create(&thread, NULL, waits, NULL))
		_exit(2);
	wait_turn(t.to_parent);
	usleep(30000);
	pthread_cancel(thread);
	end_of(thread);
	pass_turn(h.to_child);
	SHOW(child_status(pid));
	HELD();
	SHOW(SET(fd, F_WRLCK, 0, 0));
	SHOW(SET(fd, F_UNLCK, 0, 0));
}

static const int all[] = {
	F_SETLKW, F_OFD_SETLKW, -1, F_SETLK, F_OFD_SETLK, F_GETLK, F_OFD_GETLK,
};

int main(void)
{
	prober_start("f");
	turns_new(&t);
	fd = opened("f", O_RDWR);
	for (int i = 0; i < 3; i++)
		cancelled_wait(all[i]);
	for (int i = 0; i < 7; i++) {
		in_thread(is_cancelled, all[i]);
		in_thread(is_deaf, all[i]);
		SHOW(SET(fd, F_UNLCK, 0, 0));
		SHOW(OFD(fd, F_UNLCK, 0, 0));
	}
	HELD();
	leave_nothing("f");
	return 0;
}
