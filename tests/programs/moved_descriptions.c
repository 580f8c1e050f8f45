/* SPDX-License-Identifier: MIT */
/*
 * The description of a lock moves: to another process, another number, or goes
 * with its last one.  A word a line on standard output; at a line on standard
 * input it goes on.
 *
 *	take SOCKET	"listening"; "connected"; gets a descriptor: "got";
 *				closes it: "closed"; ends
 *	give FILE SOCKET MS	locks; MS later, or if that is "-" at a line,
 *				passes the descriptor and closes its own:
 *				"given"; ends
 *	orphan FILE MS [kill]	a child that keeps the description;
 *				locks: "locked", closes, is gone MS later
 *				(by SIGKILL): "alone", says the child; ends
 *	freopen FILE OTHER	locks a FILE's, dup(), freopen() as OTHER, a
 *				child: "moved"; the child ends: "childless";
 *				closes the second: "closed"; ends
 *	unlock FILE	locks: "locked"; unlocks and is gone
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/helper.h"

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static struct sockaddr_un address(const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (strlen(name) >= sizeof(un.sun_path))
		exit(64);
	strcpy(un.sun_path, name);
	return un;
}

static int pass(int sock, int fd)
{
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	union control control = { 0 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(sock, &msg, 0) == 1 ? 0 : -1;
}

static int passed(int sock)
{
	char byte;
	int fd = -1;
	struct iovec iov = { &byte, 1 };
	union control control = { 0 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	const struct cmsghdr *c;

	if (recvmsg(sock, &msg, 0) != 1)
		die("recvmsg");
	c = CMSG_FIRSTHDR(&msg);
	if (c)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static int take(char **arg)
{
	const struct sockaddr_un un = address(arg[0]);
	int sock = socket(AF_UNIX, SOCK_STREAM, 0), from, fd;

	if (bind(sock, (const struct sockaddr *)&un, sizeof(un)) ||
	    listen(sock, 1))
		die(arg[0]);
	tell("listening");
	from = accept(sock, NULL, NULL);
	if (from < 0)
		die("accept");
	tell("connected");
	fd = passed(from);
	tell(fd >= 0 ? "got" : "nothing");
	wait_for_go();
	close(fd);
	tell("closed");
	wait_for_go();
	return 0;
}

static int give(char **arg)
{
	const struct sockaddr_un un = address(arg[1]);
	int sock = socket(AF_UNIX, SOCK_STREAM, 0), fd;

	if (connect(sock, (const struct sockaddr *)&un, sizeof(un)))
		die(arg[1]);
	fd = locked(arg[0]);
	if (strcmp(arg[2], "-") == 0)
		wait_for_go();
	else
		pause_ms(strtol(arg[2], NULL, 10));
	if (pass(sock, fd))
		die("sendmsg");
	close(fd);
	tell("given");
	wait_for_go();
	return 0;
}

static int orphan(char **arg)
{
	int fd = opened(arg[0]), end[2];
	char byte;

	if (pipe(end))
		die("pipe");
	switch (fork()) {
	case -1:
		die("fork");
		break;
	case 0:
		close(end[1]);
		/* Returns when the parent is gone. */
		tell(read(end[0], &byte, 1) == 0 ? "alone" : "what?");
		wait_for_go();
		_exit(0);
	default:
		break;
	}
	if (flock(fd, LOCK_EX))
		die("flock");
	close(fd);
	tell("locked");
	pause_ms(strtol(arg[1], NULL, 10));
	if (arg[2] && strcmp(arg[2], "kill") == 0)
		raise(SIGKILL);
	return 0;
}

static int reopen(char **arg)
{
	FILE *file = fopen(arg[0], "w");
	int second, end[2];
	char byte;
	pid_t pid;

	if (!file || flock(fileno(file), LOCK_EX))
		die(arg[0]);
	second = dup(fileno(file));
	file = freopen(arg[1], "w", file);
	if (!file || pipe(end))
		die(arg[1]);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(end[1]);
		_exit(read(end[0], &byte, 1) == 0 ? 0 : 1);
	}
	tell("moved");
	wait_for_go();
	close(end[1]);
	waitpid(pid, NULL, 0);
	tell("childless");
	wait_for_go();
	close(second);
	tell("closed");
	wait_for_go();
	fclose(file);
	return 0;
}

static int unlock(char **arg)
{
	int fd = locked(arg[0]);

	tell("locked");
	wait_for_go();
	if (flock(fd, LOCK_UN))
		die("unlock");
	_exit(0);
}

static const struct command commands[] = {
	{ "take", 1, take },     { "give", 3, give },
	{ "orphan", 2, orphan }, { "freopen", 2, reopen },
	{ "unlock", 1, unlock }, { 0 },
};

int main(int argc, char **argv)
{
	return run_command(commands, argc, argv);
}
