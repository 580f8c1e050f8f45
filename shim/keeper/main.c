/* SPDX-License-Identifier: MIT */
/*
 * dlock-keeper: carries a lease on when the process that took it is gone but
 * its lock is not (DESIGN L4).
 *
 *  1. It renews each lease it was given until the kernel's lock has ended,
 *     then releases it: both whether or not the process still lives.
 *  2. It keeps no descriptor of the program's: whoever waits for the end of
 *     a pipe must not wait for the keeper.
 *  3. No signal ends it but SIGKILL: a service manager's SIGTERM comes while
 *     the job still cleans up.
 *  4. It ends with its last lease; while the process lives, a moment later,
 *     for the next lock may come at once.
 *
 * Started by the shim only, with a socket as descriptor 3 (protocol.h).
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "lease/log.h"
#include "lease/sys.h"
#include "model/timeline.h"

enum { SHIM = 3, LINGER_MS = 1000 };

static bool shim_lives = true;
static bool stays; /* while the shim lives, with no lease too */

/* --- what the shim says --------------------------------------------------- */

static bool well_formed(const struct dlk_keep *m, ssize_t n)
{
	return n >= (ssize_t)sizeof(*m) && m->magic == DLK_KEEP_MAGIC &&
	       m->key_len <= DLK_KEY_MAX && m->token_len < DLK_TOKEN_MAX &&
	       m->places_len <= DLK_KEY_MAX + 8 &&
	       (size_t)n == sizeof(*m) + m->key_len + m->token_len +
				    m->places_len + 3;
}

static void received(struct msghdr *msg, int fds[DLK_KEEP_FDS])
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);

	for (int i = 0; i < DLK_KEEP_FDS; i++)
		fds[i] = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
}

static void close_all(const int fds[DLK_KEEP_FDS])
{
	for (int i = 0; i < DLK_KEEP_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* What was granted is over, or may be, says the shim. */
static void hear_of(uint32_t type, struct dlk_kept *k)
{
	if (type == DLK_KEEP_DROP) {
		dlk_carry_drop(k);
	} else if (type == DLK_KEEP_OWE) {
		dlk_carry_owe(k);
	} else {
		k->left = true;
		dlk_watch_stir(k->watch);
		dlk_look_soon();
	}
}

/* One message, with descriptors or -1. */
static void hear(const struct dlk_keep *m, ssize_t n,
		 const int fds[DLK_KEEP_FDS])
{
	bool fine = well_formed(m, n);
	struct dlk_keep_answer answer = { .status = -EPROTO };

	if (fine && m->type == DLK_KEEP_STAY) {
		stays = true;
		answer.status = 0;
	} else if (fine && m->type != DLK_KEEP_ADD) {
		struct dlk_kept *k = dlk_carried_find(m->bytes + m->key_len + 1,
						      m->token_len);

		close_all(fds);
		if (k)
			hear_of(m->type, k);
		return;
	}
	if (fine && m->type == DLK_KEEP_ADD)
		answer.status = dlk_carry(m, fds);
	/* Before the answer: the program may close its own at once. */
	close_all(fds);
	answer.seq = n >= (ssize_t)sizeof(*m) ? m->seq : 0;
	(void)!send(SHIM, &answer, sizeof(answer), MSG_NOSIGNAL);
}

/* One message of the shim; false when it is gone. */
static bool listen_once(void)
{
	static union {
		struct dlk_keep m;
		char room[sizeof(struct dlk_keep) + DLK_KEEP_BYTES];
	} in;
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(DLK_KEEP_FDS * sizeof(int))];
	} control;
	struct iovec iov = { &in, sizeof(in) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(SHIM, &msg, MSG_CMSG_CLOEXEC);
	int fds[DLK_KEEP_FDS];

	if (n <= 0)
		return n < 0 && errno == EINTR;
	received(&msg, fds);
	hear(&in.m, n, fds);
	/* The password stands where it is connected from, and nowhere else. */
	explicit_bzero(&in.m.ep, sizeof(in.m.ep));
	return true;
}

bool dlk_shim_speaks(void)
{
	struct pollfd p = { .fd = SHIM, .events = POLLIN };

	return shim_lives && poll(&p, 1, 0) > 0 && (p.revents & POLLIN);
}

/* --- the lock has ended --------------------------------------------------- */

/* What was granted before the moment that the watch saw is over. */
static void judge_by_watch(void)
{
	for (struct dlk_kept *k = dlk_carried; k; k = k->next)
		if (k->state == DLK_KEPT &&
		    k->granted_ns < dlk_watch_free_at(k->watch))
			dlk_carry_owe(k);
}

static void locks_ended(void)
{
	dlk_watch_ended();
	judge_by_watch();
	/* A lease that came later waits for its own end. */
	for (struct dlk_kept *k = dlk_carried; k; k = k->next)
		if (k->state == DLK_KEPT && dlk_watch_free_at(k->watch))
			dlk_watch_again(k->watch);
	dlk_watch_sweep();
}

static void look(void)
{
	dlk_look(shim_lives);
	judge_by_watch();
}

/* A description has ended, and with it, perhaps, the lock of its shadow. */
static void shadows_fell(void)
{
	for (struct dlk_kept *k = dlk_carried; k; k = k->next)
		if (k->shade)
			dlk_watch_stir(k->watch);
	dlk_look_soon();
}

/* --- main ----------------------------------------------------------------- */

static int wait_ms(uint64_t idle_since_ns)
{
	uint64_t now = dlk_now_ns(), at = now + 60000 * DLK_MS;

	if (dlk_carry_due_ns() < at)
		at = dlk_carry_due_ns();
	if (dlk_look_due_ns() < at)
		at = dlk_look_due_ns();
	if (!dlk_carried && !stays && at > idle_since_ns + LINGER_MS * DLK_MS)
		at = idle_since_ns + LINGER_MS * DLK_MS;
	return at <= now ? 0 : (int)((at - now) / DLK_MS) + 1;
}

/* With few descriptors the connection to Redis may want this one. */
static void shim_is_gone(void)
{
	shim_lives = false;
	close(SHIM);
	dlk_look_soon();
	for (struct dlk_kept *k = dlk_carried; k; k = k->next)
		dlk_watch_stir(k->watch);
}

/* Of many messages not one alone: each round looks at all leases. */
static void listen_to_shim(void)
{
	for (int i = 0; i < 64 && shim_lives; i++) {
		if (i && !dlk_shim_speaks())
			break;
		if (!listen_once())
			shim_is_gone();
	}
}

static void wait_once(uint64_t idle_since_ns)
{
	const struct dlk_bells *b = dlk_watch_bells();
	struct pollfd p[] = {
		{ .fd = b->ended, .events = POLLIN },
		{ .fd = shim_lives ? SHIM : -1, .events = POLLIN },
		{ .fd = b->closed, .events = POLLIN },
		{ .fd = dlk_shades_bell(), .events = POLLIN },
	};

	if (poll(p, 4, wait_ms(idle_since_ns)) <= 0)
		return;
	if (p[3].revents && dlk_shades_look())
		shadows_fell();
	/* First what the shim says: a DROP explains why a lock has ended. */
	if (p[1].revents) {
		listen_to_shim();
		return;
	}
	if (p[0].revents)
		locks_ended();
	if (p[2].revents) {
		dlk_watch_closed();
		dlk_look_soon();
	}
}

static bool finished(uint64_t *idle_since_ns)
{
	uint64_t now = dlk_now_ns();

	if (dlk_carried) {
		*idle_since_ns = now;
		return false;
	}
	return !shim_lives ||
	       (!stays && now >= *idle_since_ns + LINGER_MS * DLK_MS);
}

/* The program's own limits were for the program. */
static void raise_limit(int which)
{
	struct rlimit rl;

	if (getrlimit((__rlimit_resource_t)which, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit((__rlimit_resource_t)which, &rl);
	}
}

static bool begin(void)
{
	sigset_t everything;
	int type;
	socklen_t len = sizeof(type);

	sigfillset(&everything);
	pthread_sigmask(SIG_SETMASK, &everything, NULL);
	dlk_log_init(getenv("DLOCK_LOG"), false);
	dlk_log_adopt(STDERR_FILENO);
	raise_limit(RLIMIT_NOFILE); /* a descriptor per file */
	raise_limit(RLIMIT_AS);
	return dlk_watch_init() &&
	       getsockopt(SHIM, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_SEQPACKET;
}

int main(void)
{
	uint64_t idle_since_ns = dlk_now_ns();

	if (!begin()) {
		static const char text[] = "dlock-keeper: is started by "
					   "libdlock-preload.so only\n";

		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		return 64;
	}
	do {
		uint64_t now;

		wait_once(idle_since_ns);
		now = dlk_now_ns();
		if (now >= dlk_look_due_ns())
			look();
		while (dlk_carry_some(now))
			;
	} while (!finished(&idle_since_ns));
	_exit(0);
}
