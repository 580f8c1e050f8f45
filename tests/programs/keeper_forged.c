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
 * line: its status; ends at a line on standard input.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

#include "keeper/protocol.h"

enum { SEQ = 0x7ffffff0 }; /* none of the shim's */

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

static void tell_answer(int sock, uint32_t seq)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct dlk_keep_answer a;

	do
		if (poll(&p, 1, 5000) != 1 ||
		    recv(sock, &a, sizeof(a), 0) != sizeof(a))
			die("no answer");
	while (a.seq != seq);
	printf("%s\n", a.status == DLK_KEEP_DISOBEYED ? "disobeyed"
		       : a.status ? strerrorname_np(-a.status)
				  : "0");
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

static pid_t shims_thread(void)
{
	DIR *d = opendir("/proc/self/task");
	const struct dirent *e;
	pid_t tid = 0;

	while (d && (e = readdir(d)))
		if (*e->d_name != '.' &&
		    strtol(e->d_name, NULL, 10) != getpid())
			tid = (pid_t)strtol(e->d_name, NULL, 10);
	if (tid == 0)
		die("no thread of the shim's");
	closedir(d);
	return tid;
}

/*
 * The shim's thread would read an answer that is not its own, and act on it.  A
 * tracer stops it alone, until the descriptor is closed: a child that libc and the
 * shim know nothing of, and that has none of our files.
 */
static int stop_thread(void)
{
	const pid_t tid = shims_thread();
	int ends[2];
	pid_t tracer;
	char task[16], end;

	if (pipe2(ends, O_CLOEXEC))
		die("pipe2");
	tracer = (pid_t)raw_syscall(SYS_clone, SIGCHLD, 0, 0, 0);
	if (tracer == 0) {
		raw_syscall(SYS_dup3, ends[0], 0, 0, 0);
		raw_syscall(SYS_close_range, 1, -1, 0, 0);
		if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) == 0 &&
		    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0)
			raw_syscall(SYS_read, 0, (long)&end, 1, 0);
		raw_syscall(SYS_exit_group, 0, 0, 0, 0);
	}
	close(ends[0]);
	snprintf(task, sizeof(task), "%d", tid);
	while (!strstr(status_line(task, "State:"), "\tt ")) {
		if (tracer < 0 || waitpid(tracer, NULL, WNOHANG))
			die("no tracer");
		pause_ms(1);
	}
	return ends[1];
}

int main(int argc, char **argv)
{
	bool path = argc > 4;
	int fd = -1, sock, stopped;
	char line[8];

	if (argc < 3)
		return 64;
	setvbuf(stdout, NULL, _IOLBF, 0);
	lock(argv[1]);
	start_keeper();
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	/* So that there is a lock to be carried; the shim knows not of it. */
	if (fd < 0 || raw_syscall(SYS_flock, fd, LOCK_EX, 0, 0))
		die(argv[2]);
	stopped = stop_thread();
	if (argc > 3) {
		const long uid = strtol(argv[3], NULL, 10);

		if (raw_syscall(SYS_setresuid, uid, uid, uid, 0))
			die("setresuid");
	}
	if (path)
		fd = open(argv[2], O_PATH | O_CLOEXEC);
	sock = find_socket();
	if (fd < 0 || sock < 0)
		die(fd < 0 ? argv[2] : "no socket");
	forge(sock, fd, SEQ);
	tell_answer(sock, SEQ);
	close(stopped);
	(void)!fgets(line, sizeof(line), stdin);
	return 0;
}
