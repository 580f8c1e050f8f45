/* SPDX-License-Identifier: MIT */
/*
 * What the shim says (protocol.h), and whether it may.
 *
 *  1. Only a process that has this keeper's user, group and capabilities is
 *     obeyed: at each message, by the kernel's word, for the program may have
 *     given them up since it started us.
 *  2. Each message is answered, also one that is refused, and none is waited
 *     for: it is heard while Redis is waited for, too (carry.c).
 *  3. Whatever descriptors come are closed again before the answer goes: the
 *     program may close its own at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "os/log.h"
#include "os/sys.h"

static struct {
	int fd; /* -1: the shim is gone */
	bool stays, mute;
	struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3];
} shim = { .fd = -1 };

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

bool dlk_shim_wants_us(void)
{
	return shim.stays && !shim.mute;
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

/* --- what is said --------------------------------------------------------- */

static bool is_text(const char *bytes, size_t len)
{
	return bytes[len] == '\0';
}

static bool is_add(const struct dlk_keep_add *m, size_t n)
{
	size_t key, token, places;

	if (n < sizeof(*m) || m->key_len > DLK_KEY_MAX ||
	    m->token_len >= DLK_TOKEN_MAX || m->places_len > DLK_KEY_MAX + 8)
		return false;
	key = m->key_len;
	token = m->token_len;
	places = m->places_len;
	return n == sizeof(*m) + key + token + places + 3 &&
	       is_text(m->bytes, key) && is_text(m->bytes + key + 1, token) &&
	       is_text(m->bytes + key + token + 2, places) &&
	       m->kind <= DLK_KEPT_OFD && m->ttl_ms > 0 &&
	       m->ttl_ms <= DLK_TTL_MAX_MS && m->pid > 0 &&
	       m->pid <= INT32_MAX && (m->kind == DLK_KEPT_FLOCK) == !places;
}

static bool is_well_formed(const struct dlk_keep *m, size_t n)
{
	if (n < sizeof(*m) || m->magic != DLK_KEEP_MAGIC)
		return false;
	switch (m->type) {
	case DLK_KEEP_ADD:
		return is_add((const struct dlk_keep_add *)m, n);
	case DLK_KEEP_RENEWED:
		return (n - sizeof(*m)) % sizeof(struct dlk_keep_renewal) == 0;
	case DLK_KEEP_CUT:
		return n == sizeof(struct dlk_keep_cut) &&
		       ((const struct dlk_keep_cut *)m)->ttl_ms > 0;
	case DLK_KEEP_DROP:
	case DLK_KEEP_OWE:
	case DLK_KEEP_LEFT:
	case DLK_KEEP_CLOSED:
	case DLK_KEEP_STAY:
		return n == sizeof(*m);
	default:
		return false; /* START is over */
	}
}

static void hear_renewed(const struct dlk_keep_renewed *m, size_t n)
{
	const size_t end = (n - sizeof(*m)) / sizeof(*m->renewals);

	for (size_t i = 0; i < end; i++) {
		struct dlk_kept *k = dlk_carried_find(m->renewals[i].lease);

		if (k && m->renewals[i].deadline_ns > k->deadline_ns)
			k->deadline_ns = m->renewals[i].deadline_ns;
	}
}

static void hear_cut(const struct dlk_keep_cut *m)
{
	struct dlk_kept *k = dlk_carried_find(m->head.lease);

	if (k)
		dlk_carry_cut(k, m->ttl_ms);
}

/* What was granted is over, or may be. */
static void hear_end(const struct dlk_keep *m)
{
	struct dlk_kept *k = dlk_carried_find(m->lease);

	if (!k)
		return;
	if (m->type == DLK_KEEP_DROP) {
		dlk_carry_drop(k);
	} else if (m->type == DLK_KEEP_OWE) {
		dlk_carry_owe(k);
	} else {
		k->left = true;
		dlk_watch_stir(k->watch);
		dlk_look_soon();
	}
}

/* As dlk_carry(): 0, -errno, or 1 for an answer that comes later. */
static int act(const struct dlk_keep *m, size_t n, int *fds)
{
	switch (m->type) {
	case DLK_KEEP_ADD:
		return dlk_carry((const struct dlk_keep_add *)m, fds);
	case DLK_KEEP_RENEWED:
		hear_renewed((const struct dlk_keep_renewed *)m, n);
		break;
	case DLK_KEEP_CUT:
		hear_cut((const struct dlk_keep_cut *)m);
		break;
	case DLK_KEEP_CLOSED:
		dlk_settle_begin(m->seq);
		break;
	case DLK_KEEP_STAY:
		shim.stays = true;
		break;
	default:
		hear_end(m);
	}
	return 0;
}

int dlk_hear_message(const struct dlk_keep *m, size_t n, int *fds)
{
	return is_well_formed(m, n) ? act(m, n, fds) : -EPROTO;
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

static void close_all(int fds[DLK_KEEP_FDS])
{
	for (int i = 0; i < DLK_KEEP_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* The first n; no more are meant for us, and they are closed. */
static void take_fds(const struct cmsghdr *c, int *fds, unsigned n)
{
	const size_t came = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < came; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (i < n && fds[i] < 0)
			fds[i] = fd;
		else
			close(fd);
	}
}

void dlk_hear_control(struct msghdr *msg, int *fds, unsigned n,
		      struct ucred *who)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS)
			take_fds(c, fds, n);
		else if (who && c->cmsg_type == SCM_CREDENTIALS &&
			 c->cmsg_len == CMSG_LEN(sizeof(*who)))
			memcpy(who, CMSG_DATA(c), sizeof(*who));
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

struct heard {
	ssize_t n; /* as recvmsg(2) has it; errno */
	struct ucred who;
	int fds[DLK_KEEP_FDS];
};

static void receive(void *room, size_t size, struct heard *h)
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
	h->n = recvmsg(shim.fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	h->who = (struct ucred){ .uid = (uid_t)-1, .gid = (gid_t)-1 };
	if (h->n > 0)
		dlk_hear_control(&msg, h->fds, DLK_KEEP_FDS, &h->who);
	if (h->n > 0 && (msg.msg_flags & MSG_TRUNC))
		h->n = 1; /* well-formed it is not */
}

static union {
	struct dlk_keep head;
	uint64_t align;
	char bytes[DLK_KEEP_SIZE];
} in;

/* With few descriptors the connection to Redis may want this one. */
static void shim_is_gone(void)
{
	close(shim.fd);
	shim.fd = -1;
	if (shim.mute)
		dlk_carry_mute_ended();
	dlk_look_soon();
	for (struct dlk_kept *k = dlk_carried; k; k = k->next) {
		dlk_watch_stir(k->watch);
		dlk_carry_uncut(k);
	}
}

/* It has closed its end, or has just stopped talking: shutdown(2). */
static void hear_end_of_shim(void)
{
	struct pollfd p = { .fd = shim.fd };

	if (poll(&p, 1, 0) == 0)
		shim.mute = true;
	else
		shim_is_gone();
}

/* One message; false when there is none, or the shim is gone. */
static bool hear_one(void)
{
	struct heard h;
	int err = -EPROTO;
	uint32_t seq;

	receive(&in, sizeof(in), &h);
	if (h.n == 0 || (h.n < 0 && errno != EINTR && errno != EAGAIN))
		hear_end_of_shim();
	if (h.n <= 0)
		return false;
	seq = (size_t)h.n >= sizeof(in.head) ? in.head.seq : 0;
	if (!may_tell(&h.who)) {
		refuse(&h.who);
		err = -EPERM;
	} else if (is_path_only(h.fds)) {
		err = -EBADF;
	} else {
		err = dlk_hear_message(&in.head, (size_t)h.n, h.fds);
	}
	close_all(h.fds);
	if (err <= 0)
		dlk_shim_answer(seq, err);
	return true;
}

/* Of many not one alone, for each round looks at all leases; nor for ever. */
void dlk_hear(void)
{
	for (int i = 0; i < 64 && shim.fd >= 0 && hear_one(); i++)
		;
}

bool dlk_shim_speaks(void)
{
	struct pollfd p = { .fd = shim.fd, .events = POLLIN };

	return shim.fd >= 0 && !shim.mute && poll(&p, 1, 0) > 0 &&
	       (p.revents & POLLIN);
}

/* --- the beginning -------------------------------------------------------- */

static bool hear_start(const struct dlk_keep_start *m, ssize_t n)
{
	const size_t one = sizeof(*m->servers);
	size_t rest;

	if (n < (ssize_t)sizeof(*m) || m->head.magic != DLK_KEEP_MAGIC ||
	    m->head.type != DLK_KEEP_START)
		return false;
	rest = (size_t)n - sizeof(*m);
	return rest % one == 0 &&
	       dlk_carry_begin(m->servers, (unsigned)(rest / one));
}

bool dlk_hear_begin(int fd)
{
	int type = 0, passes = 0;
	socklen_t len = sizeof(type);
	struct heard h;
	bool fine;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
	    type != SOCK_SEQPACKET ||
	    getsockopt(fd, SOL_SOCKET, SO_PASSCRED, &passes, &len) < 0 ||
	    !passes || !read_capabilities(0, shim.own))
		return false;
	shim.fd = fd;
	receive(&in, sizeof(in), &h);
	close_all(h.fds);
	fine = h.n > 0 && may_tell(&h.who) &&
	       hear_start((const struct dlk_keep_start *)&in, h.n);
	/* The password stands where it is connected from, and nowhere else. */
	explicit_bzero(&in, sizeof(in));
	return fine;
}
