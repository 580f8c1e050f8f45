/* SPDX-License-Identifier: MIT */
/*
 * What the keeper tells its standby (mirror.h): each message of the shim's is
 * acted on, told, and answered, in this order.  Without a standby, all of this
 * does nothing.
 *
 *  1. It waits for the standby for MUTE_MS at most; one that does not listen is
 *     killed, and replaced (standby.c).  Not before it is dead is the socket
 *     closed, for that tells it to take over.
 *  2. The descriptors that go with a lease are the keeper's own, never the
 *     program's: what lies in the socket must not keep a lock alive.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/mirror.h"

enum { MUTE_MS = 20 };

static int link_fd = -1;
static bool works; /* it has heard all so far */
static struct dlk_owed owed;
static bool owed_news;

static union {
	struct dlk_mirror_states m;
	char room[sizeof(struct dlk_mirror_states) +
		  DLK_MIRROR_MOST * sizeof(struct dlk_mirror_state)];
} out;

void dlk_mirror_use(int fd)
{
	dlk_close_all(&link_fd, 1);
	link_fd = fd;
	works = fd >= 0;
	out.m.n = 0;
	owed_news = true;
}

int dlk_mirror_fd(void)
{
	return link_fd;
}

bool dlk_mirror_works(void)
{
	return works;
}

struct dlk_owed *dlk_mirror_owed(void)
{
	owed_news = true;
	return &owed;
}

/* --- by the socket -------------------------------------------------------- */

static void say(struct iovec *iov, size_t n, const int *fds, unsigned n_fds)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(DLK_MIRROR_FDS * sizeof(int))];
	} control = { 0 };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };

	if (n_fds) {
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	}
	while (sendmsg(link_fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		if (errno == EAGAIN &&
		    dlk_polled(link_fd, POLLOUT, MUTE_MS) == POLLOUT)
			continue;
		works = false;
		return;
	}
}

static void say_states(void)
{
	struct iovec iov = { &out,
			     sizeof(out.m) + out.m.n * sizeof(*out.m.states) };

	out.m.type = DLK_MIRROR_STATES;
	out.m.owed = owed;
	say(&iov, 1, NULL, 0);
	out.m.n = 0;
	owed_news = false;
}

void dlk_mirror_flush(void)
{
	if (works && (out.m.n || owed_news))
		say_states();
}

/* A message that is no more than its type. */
static void say_type(uint32_t type)
{
	struct iovec iov = { &type, sizeof(type) };

	if (works)
		say(&iov, 1, NULL, 0);
}

void dlk_mirror_end(void)
{
	say_type(DLK_MIRROR_END);
}

void dlk_mirror_hear(void)
{
	char c;

	if (!works)
		return;
	switch (recv(link_fd, &c, 1, MSG_DONTWAIT)) {
	case 1:
		say_states();
		break;
	case 0:
		works = false;
		break;
	default:
		works = errno == EAGAIN || errno == EINTR;
	}
}

/* --- what there is to say ------------------------------------------------- */

static struct dlk_mirror_state state_of(const struct dlk_kept *k)
{
	return (struct dlk_mirror_state){
		.number = k->number,
		.state = k->state == DLK_FLUSHING ? DLK_OWED_BACK : k->state,
		.by = k->by,
		.was_first = k->guard.was_first,
		.unanswered = k->answer_ns != 0,
		.ttl_ms = k->lease.ttl_ms,
		.full_ms = k->full_ms,
		.deadline_ns = k->deadline_ns,
	};
}

void dlk_mirror_state(const struct dlk_kept *k)
{
	if (!works)
		return;
	out.m.states[out.m.n++] = state_of(k);
	if (out.m.n == DLK_MIRROR_MOST)
		say_states();
}

void dlk_mirror_paused(const struct dlk_victim *v)
{
	struct dlk_mirror_paused m = { .type = DLK_MIRROR_PAUSED,
				       .victim = *v };
	struct iovec iov = { &m, sizeof(m) };
	const int fds[] = { v->fd, v->lock };

	m.victim.k = NULL;
	if (works)
		say(&iov, 1, fds, v->lock < 0 ? 1 : 2);
}

void dlk_mirror_go_on(void)
{
	say_type(DLK_MIRROR_GO_ON);
}

/* Those that there are, in order; their number, and which in *set. */
static unsigned pack(int *fds, uint32_t *set)
{
	unsigned n = 0;

	*set = 0;
	for (unsigned i = 0; i < DLK_MIRROR_FDS; i++) {
		if (fds[i] < 0)
			continue;
		*set |= 1U << i;
		fds[n++] = fds[i];
	}
	return n;
}

void dlk_mirror_lease(const struct dlk_kept *k)
{
	int fds[DLK_MIRROR_FDS];
	struct dlk_mirror_lease m = {
		.type = DLK_MIRROR_LEASE,
		.wd = k->watch->wd,
		.has_thread = k->watch->has_thread,
		.guard = k->guard,
		.state = state_of(k),
	};
	struct iovec iov[] = {
		{ &m, offsetof(struct dlk_mirror_lease, add) },
		{ (void *)(uintptr_t)&k->add,
		  sizeof(k->add) + k->lease.key_len + k->lease.token_len +
			  k->lease.ranges_key_len + 3 },
	};
	unsigned n;

	if (!works)
		return;
	dlk_mirror_flush();
	fds[DLK_MIRROR_FILE] = k->watch->fd;
	fds[DLK_MIRROR_BELL] = dlk_watch_bells()->closed;
	fds[DLK_MIRROR_TAKER] = dlk_guard_taker(&k->guard);
	dlk_shadow_copy_plan(k->shadow, &m.shadow, fds + DLK_MIRROR_SHADOW);
	n = pack(fds, &m.fds);
	if (works)
		say(iov, 2, fds, n);
}
