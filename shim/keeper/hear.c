/* SPDX-License-Identifier: MIT */
/*
 * The socket to the shim, and who may say something by it.
 *
 *  1. Only a process that has this keeper's user, group and capabilities is
 *     obeyed: at each message, by the kernel's word, for the program may have
 *     given them up since it started us.
 *  2. Each message is answered, also one that is refused.
 *  3. Whatever descriptors come are closed again before the answer goes: the
 *     program may close its own at once.
 *  4. A message stays in the socket until it is dealt with, and the standby
 *     knows of it: should this keeper end amidst one, that one reads it again.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "os/log.h"
#include "os/sys.h"

enum { UNREAD_MAX = 32 * 1024 };

static struct {
	int fd;      /* -1: the shim is gone */
	pid_t pid;   /* of who has sent START */
	int process; /* pidfd; -1: there is none */
	bool mute;
	struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3];
} shim = { .fd = -1, .process = -1 };

bool dlk_shim_lives(void)
{
	return shim.fd >= 0;
}

int dlk_shim_fd(void)
{
	return shim.fd;
}

short dlk_shim_events(void)
{
	return shim.mute ? 0 : POLLIN;
}

bool dlk_shim_is_mute(void)
{
	return shim.fd >= 0 && shim.mute;
}

int dlk_shim_process(pid_t pid)
{
	return pid == shim.pid ? shim.process : -1;
}

int dlk_shim_process_lives(pid_t pid)
{
	const int process = dlk_shim_process(pid);

	return process < 0 ? -1 : !dlk_polled(process, POLLIN, 0);
}

/* --- who says it ---------------------------------------------------------- */

static bool read_capabilities(pid_t pid, struct __user_cap_data_struct *caps)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
		.pid = pid,
	};

	return dlk_syscall(SYS_capget, &head, caps) == 0;
}

/* What we may, its process may; of one that has ended nobody can say it. */
static bool may_tell(const struct ucred *who)
{
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	/* 0 is a process that our pid namespace does not show. */
	if (who->pid <= 0 || who->uid != geteuid() || who->gid != getegid() ||
	    !read_capabilities(who->pid, caps))
		return false;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		if (shim.own[i].effective & ~caps[i].permitted)
			return false;
	return true;
}

/*
 * execve(2) gives root what the process has given up by capset(2), and not for
 * good (capabilities(7)): what it may not, we are not to.
 */
static void give_up_as_it_did(pid_t pid)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct its[_LINUX_CAPABILITY_U32S_3];
	bool more = false;

	if (pid <= 0 || !read_capabilities(pid, its))
		return;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		more |= (shim.own[i].permitted & ~its[i].permitted) != 0;
		shim.own[i].permitted &= its[i].permitted;
		shim.own[i].effective &= its[i].permitted;
	}
	/* (A filter of the program's may kill who does so in vain: seccomp(2).) */
	if (!more)
		return;
	dlk_syscall(SYS_capset, &head, shim.own);
	read_capabilities(0, shim.own);
}

/* Its last words are none to warn of: what they were about is seen anyway. */
static void refuse(const struct ucred *who)
{
	struct dlk_line l;

	if (who->pid > 0 && kill(who->pid, 0) < 0 && errno == ESRCH)
		return;
	dlk_line_begin(&l, DLK_WARNING);
	dlk_text_str(&l.text, "dlock-keeper: a message is refused: process ");
	dlk_text_i64(&l.text, who->pid);
	dlk_text_str(&l.text, " (user ");
	dlk_text_i64(&l.text, (int64_t)who->uid);
	dlk_text_str(&l.text, ", group ");
	dlk_text_i64(&l.text, (int64_t)who->gid);
	dlk_text_str(&l.text, ") may not do what this keeper may; it carries "
			      "on what it has and takes nothing new");
	dlk_line_end(&l);
}

/* --- by the socket -------------------------------------------------------- */

/*
 * Its queue is as long as ours, and it reads before it sends: there is room,
 * or it does not listen, and takes us for dead.
 */
void dlk_shim_answer(uint32_t seq, int status)
{
	struct dlk_keep_answer answer = { .seq = seq, .status = status };

	if (shim.fd >= 0)
		(void)!send(shim.fd, &answer, sizeof(answer),
			    MSG_NOSIGNAL | MSG_DONTWAIT);
}

/*
 * A shim that is stopped reads nothing, and the answers to it must have room: so
 * what it can do without is said only if little is unread.
 */
bool dlk_shim_reads(void)
{
	int unread;

	return ioctl(shim.fd, SIOCOUTQ, &unread) == 0 && unread < UNREAD_MAX;
}

void dlk_shim_tell_held(uint32_t lease, uint32_t section, uint64_t until_ns)
{
	const struct dlk_keep_answer held = {
		.status = DLK_KEEP_HELD,
		.until_ns = until_ns,
		.lease = lease,
		.section = section,
	};

	if (shim.fd >= 0 && !shim.mute)
		(void)!send(shim.fd, &held, sizeof(held),
			    MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The first of them; no more are meant for us, and they are closed. */
static void take_fds(const struct cmsghdr *c, int fds[DLK_KEEP_FDS])
{
	const size_t came = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < came; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (i < DLK_KEEP_FDS && fds[i] < 0)
			fds[i] = fd;
		else
			close(fd);
	}
}

/* What came: the descriptors, and its sender. */
static void take_control(struct msghdr *msg, struct dlk_heard *h)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS)
			take_fds(c, h->fds);
		else if (c->cmsg_type == SCM_CREDENTIALS &&
			 c->cmsg_len == CMSG_LEN(sizeof(h->who)))
			memcpy(&h->who, CMSG_DATA(c), sizeof(h->who));
	}
}

/*
 * One that gives no access to the file (open(2), O_PATH) would be opened with
 * our rights, not its sender's.
 */
static bool is_path_only(const int fds[DLK_KEEP_FDS])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0 && (fcntl(fds[i], F_GETFL) & O_PATH))
			return true;
	return false;
}

static void receive(void *room, size_t size, int flags, struct dlk_heard *h)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(DLK_KEEP_FDS * sizeof(int)) +
			  CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec iov = { room, size };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	for (int i = 0; i < DLK_KEEP_FDS; i++)
		h->fds[i] = -1;
	h->n = recvmsg(shim.fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT | flags);
	h->who = (struct ucred){ .uid = (uid_t)-1, .gid = (gid_t)-1 };
	if (h->n > 0)
		take_control(&msg, h);
	if (h->n > 0 && (msg.msg_flags & MSG_TRUNC))
		h->n = 1; /* well-formed it is not */
	h->err = h->n > 0 && (msg.msg_flags & MSG_CTRUNC) ? -EMFILE : 0;
}

static union {
	struct dlk_keep head;
	uint64_t align;
	char bytes[DLK_KEEP_SIZE];
} in;

/*
 * It has closed its end, or has just stopped talking: shutdown(2).  With few
 * descriptors the connection to Redis may want this one.
 */
static void hear_end(void)
{
	if (!dlk_polled(shim.fd, 0, 0)) {
		shim.mute = true;
		return;
	}
	dlk_close_all(&shim.fd, 1);
}

bool dlk_hear(struct dlk_heard *h)
{
	receive(&in, sizeof(in), MSG_PEEK, h);
	if (h->n == 0 || (h->n < 0 && errno != EINTR && errno != EAGAIN))
		hear_end();
	if (h->n <= 0)
		return false;
	h->m = &in.head;
	if (!may_tell(&h->who)) {
		refuse(&h->who);
		h->err = DLK_KEEP_DISOBEYED;
	} else if (is_path_only(h->fds)) {
		h->err = -EBADF;
	}
	return true;
}

/* (The file server of what is refused may be dead.) */
void dlk_heard_close(struct dlk_heard *h)
{
	for (int i = 0; i < DLK_KEEP_FDS && h->err; i++)
		if (h->fds[i] >= 0) {
			dlk_errand_close(h->fds[i]);
			h->fds[i] = -1;
		}
	dlk_close_all(h->fds, DLK_KEEP_FDS);
}

void dlk_heard(struct dlk_heard *h, int status)
{
	const bool has_number = (size_t)h->n >= sizeof(*h->m);

	dlk_heard_close(h);
	/* Out of the socket, too, which has the descriptors as well. */
	(void)!recv(shim.fd, NULL, 0, MSG_DONTWAIT);
	if (status <= 0 || status == DLK_KEEP_DISOBEYED)
		dlk_shim_answer(has_number ? h->m->seq : 0, status);
}

bool dlk_shim_speaks(void)
{
	return shim.fd >= 0 && !shim.mute &&
	       (dlk_polled(shim.fd, POLLIN, 0) & POLLIN);
}

/* --- the beginning -------------------------------------------------------- */

static bool hear_start(const struct dlk_keep_start *m, ssize_t n,
		       dlk_start_fn *start)
{
	const size_t one = sizeof(*m->servers);
	size_t rest;

	if (n < (ssize_t)sizeof(*m) || m->head.magic != DLK_KEEP_MAGIC ||
	    m->head.type != DLK_KEEP_START)
		return false;
	rest = (size_t)n - sizeof(*m);
	return rest % one == 0 && start(m->servers, (unsigned)(rest / one));
}

bool dlk_shim_has_left(void)
{
	if (shim.fd < 0)
		return false;
	return (dlk_polled(shim.fd, 0, 0) & POLLHUP) ||
	       (shim.pid > 0 && kill(shim.pid, 0) < 0 && errno == ESRCH);
}

/* The number is its own as long as it has not left. */
static void know_process(void)
{
	if (shim.pid > 0)
		shim.process = (int)dlk_syscall(SYS_pidfd_open, shim.pid, 0);
	if (dlk_shim_has_left())
		dlk_close_all(&shim.process, 1);
}

bool dlk_hear_begin(int fd, dlk_start_fn *start)
{
	int type = 0, passes = 0;
	socklen_t len = sizeof(type);
	struct dlk_heard h;
	bool fine;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
	    type != SOCK_SEQPACKET ||
	    getsockopt(fd, SOL_SOCKET, SO_PASSCRED, &passes, &len) < 0 ||
	    !passes || !read_capabilities(0, shim.own))
		return false;
	shim.fd = fd;
	receive(&in, sizeof(in), 0, &h);
	shim.pid = h.n > 0 ? h.who.pid : 0;
	know_process();
	give_up_as_it_did(shim.pid);
	dlk_close_all(h.fds, DLK_KEEP_FDS);
	fine = h.n > 0 && may_tell(&h.who) &&
	       hear_start((const struct dlk_keep_start *)&in, h.n, start);
	/* The password stands where it is connected from, and nowhere else. */
	explicit_bzero(&in, sizeof(in));
	return fine;
}
