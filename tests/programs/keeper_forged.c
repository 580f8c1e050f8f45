/* SPDX-License-Identifier: MIT */
/*
 * A message to the keeper that the shim has not made.  Under dlock:
 *
 *	keeper_forged FILE UNREADABLE [UID] [path]
 *
 * locks FILE, which starts a keeper; becomes UID without libc (so that the shim
 * does not hear of it); finds the socket in its own descriptor table, and sends
 * an ADD of a lease of UNREADABLE with its descriptor: opened, and locked,
 * before; or opened after, by O_PATH, which anybody may.  Says the answer, a
 * line: its status, or `none`; ends at a line on standard input.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

#include "keeper/protocol.h"

#define TOKEN                                                                  \
	"dlock1 0123456789abcdef0123456789abcdef boot:id 8:1:2.00ff "          \
	"00000000000000000042 4711 host job"

/* A SOCK_SEQPACKET one: the keeper's is the only one. */
static int find_socket(void)
{
	int type;
	socklen_t len = sizeof(type);

	for (int fd = 3; fd < 1024; fd++)
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
		    type == SOCK_SEQPACKET)
			return fd;
	return -1;
}

static uint64_t in_s(int s)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)(t.tv_sec + s) * 1000000000U;
}

static void forge(int sock, int fd, uint32_t seq)
{
	static const char texts[] = "forged\0" TOKEN "\0";
	static union {
		struct dlk_keep_add m;
		char room[sizeof(struct dlk_keep_add) + sizeof(texts)];
	} out;
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .align = { CMSG_LEN(sizeof(int)), SOL_SOCKET,
				 SCM_RIGHTS } };
	struct iovec iov = { &out, sizeof(out.m) + sizeof(texts) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct stat st;

	if (fstat(fd, &st))
		die("fstat");
	out.m = (struct dlk_keep_add){
		.head = { DLK_KEEP_MAGIC, DLK_KEEP_ADD, seq, 0 },
		.key_len = 6,
		.token_len = sizeof(TOKEN) - 1,
		.ttl_ms = 60000,
		.pid = (uint32_t)getpid(),
		.dev = st.st_dev,
		.node = st.st_ino,
		.granted_ns = in_s(0),
		.deadline_ns = in_s(60),
		.renew_ns = in_s(20),
	};
	memcpy(out.m.bytes, texts, sizeof(texts));
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	if (sendmsg(sock, &msg, 0) < 0)
		die("sendmsg");
}

/* Of this message; false: the shim's thread has read it first, and forgot it. */
static bool tell_answer(int sock, uint32_t seq)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct dlk_keep_answer a;

	while (poll(&p, 1, 1000) > 0) {
		if (recv(sock, &a, sizeof(a), 0) != sizeof(a))
			break;
		if (a.seq != seq)
			continue;
		printf("%s\n", a.status ? strerrorname_np(-a.status) : "0");
		return true;
	}
	return false;
}

static int lock(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || flock(fd, LOCK_EX))
		die(name);
	return fd;
}

/* By fork(2) the keeper has the lease before it goes on. */
static void start_keeper(void)
{
	if (fork() == 0)
		_exit(0);
}

int main(int argc, char **argv)
{
	bool path = argc > 4;
	int fd = -1, sock;
	char line[8];

	if (argc < 3)
		return 64;
	setvbuf(stdout, NULL, _IOLBF, 0);
	lock(argv[1]);
	start_keeper();
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	/* So that there is a lock to be carried; the shim knows not of it. */
	if (fd < 0 || syscall(SYS_flock, fd, LOCK_EX))
		die(argv[2]);
	if (argc > 3) {
		const long uid = strtol(argv[3], NULL, 10);

		if (syscall(SYS_setresuid, uid, uid, uid))
			die("setresuid");
	}
	if (path)
		fd = open(argv[2], O_PATH | O_CLOEXEC);
	sock = find_socket();
	if (fd < 0 || sock < 0)
		die(fd < 0 ? argv[2] : "no socket");
	/* Each is a message of its own: what is obeyed once is obeyed. */
	for (uint32_t seq = 0x7ffffff0; seq;
	     seq = seq < 0x7fffffff ? seq + 1 : 0) {
		forge(sock, fd, seq);
		if (tell_answer(sock, seq))
			break;
	}
	(void)!fgets(line, sizeof(line), stdin);
	return 0;
}
