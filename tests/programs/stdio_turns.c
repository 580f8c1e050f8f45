/* SPDX-License-Identifier: MIT */
/*
 * Programs that hand a file from host to host, each of which writes its number
 * all over it by stdio, never flushes, and ends, or closes the stream, with the
 * lock held.  There is so much of it in the buffer that a lock which goes a
 * moment before the data is seen.
 *
 *	stdio_turns HOW FILE TURNS IN OUT
 *
 * takes every other turn.  A number on the FIFO IN says whose turn is next;
 * then a program of its own takes it (`stdio HOW FILE NUMBER OUT`):
 *
 *	locks FILE, waiting for whoever has it
 *	looks whether what the one before wrote is there, all of it
 *	fills the buffer with its number, COPIES times
 *	writes the next number to OUT: the other host's asks for the lock
 *	3 ms later, ends in the way of HOW
 *
 * HOW is exit, return (from main), fclose, or quick_exit, which does not
 * flush.  At the end: "TURNS LOST", the second for turns that did not see it.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { COPY = 9, COPIES = 16384, SEEN = 0, LOST = 10 };

/* --- one turn ------------------------------------------------------------- */

static char text[COPIES * COPY + 1];
static char buffer[COPIES * COPY + 1];

/* The file is number `n` all over; without a 0th, empty. */
static bool is_all(int fd, long n)
{
	ssize_t len = pread(fd, text, sizeof(text), 0);

	if (len < 0)
		die("pread");
	if (n == 0)
		return len == 0;
	for (ssize_t at = 0; at < len; at += COPY)
		if (strtol(text + at, NULL, 10) != n)
			return false;
	return len == COPIES * COPY;
}

static void pass_on(const char *fifo, long n)
{
	int fd = open(fifo, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || dprintf(fd, "%ld\n", n) < 0)
		die(fifo);
	close(fd);
}

static int turn(char **arg)
{
	long n = strtol(arg[3], NULL, 10);
	FILE *file = fdopen(open(arg[2], O_RDWR | O_CREAT, 0666), "r+");
	int status;

	if (!file || setvbuf(file, buffer, _IOFBF, sizeof(buffer)) ||
	    flock(fileno(file), LOCK_EX))
		die(arg[2]);
	status = is_all(fileno(file), n - 1) ? SEEN : LOST;
	for (int i = 0; i < COPIES; i++)
		fprintf(file, "%08ld\n", n);
	pass_on(arg[4], n + 1);
	pause_ms(3);
	if (strcmp(arg[1], "fclose") == 0)
		fclose(file);
	else if (strcmp(arg[1], "exit") == 0)
		exit(status);
	else if (strcmp(arg[1], "quick_exit") == 0)
		quick_exit(status);
	return status;
}

/* --- all of a host's ----------------------------------------------------- */

static int take_turn(char **arg, long n)
{
	char number[24], self[] = "/proc/self/exe";
	char *argv[] = { arg[0], arg[1], arg[2], number, arg[5], NULL };
	int status;
	pid_t pid;

	snprintf(number, sizeof(number), "%ld", n);
	if (posix_spawn(&pid, self, NULL, NULL, argv, environ))
		die("posix_spawn");
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		die("waitpid");
	return WEXITSTATUS(status);
}

static void take_turns(char **arg)
{
	long n, last = strtol(arg[3], NULL, 10), turns = 0, lost = 0;
	FILE *in = fopen(arg[4], "r+");
	char line[24];

	if (!in)
		die(arg[4]);
	while (fgets(line, sizeof(line), in)) {
		int status;

		n = strtol(line, NULL, 10);
		if (n > last) {
			pass_on(arg[5], n);
			break;
		}
		status = take_turn(arg, n);
		if (status != SEEN && status != LOST)
			exit(status);
		turns++;
		lost += status == LOST;
	}
	printf("%ld %ld\n", turns, lost);
}

int main(int argc, char **argv)
{
	if (argc == 5)
		return turn(argv);
	if (argc != 6)
		return 64;
	take_turns(argv);
	return 0;
}
