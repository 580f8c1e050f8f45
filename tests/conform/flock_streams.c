/* SPDX-License-Identifier: MIT */
/*
 * Streams that are closed while a lock is held: what could not be written is an
 * error, and what was read ahead is the description's.
 */
#include "conform.h"

#include <mntent.h>

static FILE *stream(FILE *f)
{
	if (!f) {
		perror("stream");
		_exit(2);
	}
	return f;
}

static FILE *full(const char *text)
{
	FILE *f = stream(fopen("/dev/full", "w"));

	SHOW(fputs(text, f));
	return f;
}

/* The program has ended, and reads nothing of it. */
static FILE *into_nothing(int status)
{
	char command[64];
	FILE *p;
	int ended[2];
	char none;

	if (pipe(ended))
		_exit(2);
	snprintf(command, sizeof(command), "exec <&-; exec >&-; exit %d",
		 status);
	fcntl(ended[0], F_SETFD, FD_CLOEXEC);
	p = stream(popen(command, "w"));
	close(ended[1]);
	if (read(ended[0], &none, 1) != 0)
		_exit(2);
	close(ended[0]);
	SHOW(fputs("to nobody", p));
	return p;
}

static void reads(void)
{
	int fd = opened("lines", O_RDWR), own;
	char line[16];
	FILE *f;

	SHOW(write(fd, "one\ntwo\nthree\n", 14));
	SHOW(lseek(fd, 0, SEEK_SET));
	own = dup(fd);
	f = stream(fdopen(own, "r"));
	SHOW(fgets(line, sizeof(line), f) != NULL);
	SHOW(fclose(f));
	SHOW(lseek(fd, 0, SEEK_CUR));
	close(fd);
}

/* The lock is the stream's own: it is closed with it all the same. */
static void its_own_lock(void)
{
	FILE *f = stream(fopen("f", "w"));

	SHOW(flock(fileno(f), LOCK_EX));
	SHOW(fputs("written", f));
	SHOW(fclose(f));
	PROBE("f");
}

int main(void)
{
	int fd = opened("held", O_RDWR);
	FILE *again;

	signal(SIGPIPE, SIG_IGN);
	SHOW(flock(fd, LOCK_EX));
	PROBE("held");
	SHOW(fclose(full("")));
	SHOW(fclose(full("lost")));
	SHOW(endmntent(full("lost")));
	again = freopen("lines", "w", full("lost"));
	SHOW(again != NULL);
	SHOW(pclose(into_nothing(0)));
	SHOW(pclose(into_nothing(3)));
	reads();
	its_own_lock();
	return 0;
}
