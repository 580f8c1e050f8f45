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
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "lease/log.h"
#include "lease/renew.h"
#include "lease/sys.h"
#include "model/timeline.h"

enum { SHIM = 3, LINGER_MS = 1000 };

enum state { HELD, OWED };

struct kept {
	struct kept *next;
	enum state state;
	struct dlk_watch *watch;
	struct dlk_lease lease;
	struct dlk_endpoint ep;
	uint64_t granted_ns, deadline_ns, renew_ns, forget_ns;
	char bytes[];
};

static struct kept *all;
static struct dlk_conn *conn; /* to the server asked last */
static int bell;
static bool shim_lives = true;
static bool stays; /* while the shim lives, with no lease too */

static struct dlk_conn *conn_to(const struct dlk_endpoint *ep)
{
	if (conn && memcmp(dlk_conn_endpoint(conn), ep, sizeof(*ep)) != 0) {
		dlk_conn_delete(conn);
		conn = NULL;
	}
	if (!conn)
		conn = dlk_conn_new(ep);
	return conn;
}

static void drop(struct kept *k)
{
	struct kept **at = &all;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	dlk_watch_unref(k->watch);
	free(k);
}

/* --- what the shim says --------------------------------------------------- */

static struct kept *find(const char *token, size_t len)
{
	for (struct kept *k = all; k; k = k->next)
		if (k->lease.token_len == len &&
		    memcmp(k->lease.token, token, len) == 0)
			return k;
	return NULL;
}

/* The program may have closed the descriptor and opened another file. */
static bool is_file(const struct dlk_keep *m, int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == m->dev &&
	       st.st_ino == m->ino;
}

static int add(const struct dlk_keep *m, int fd)
{
	size_t size = m->key_len + m->token_len + 2;
	struct kept *k;

	if (fd < 0)
		return -EBADF;
	/* Asked again, for the answer came too late. */
	if (find(m->bytes + m->key_len + 1, m->token_len)) {
		close(fd);
		return 0;
	}
	k = is_file(m, fd) ? calloc(1, sizeof(*k) + size) : NULL;
	if (!k) {
		close(fd);
		return -ESTALE;
	}
	k->watch = dlk_watch_get(fd, bell);
	if (!k->watch) {
		int err = -errno;

		free(k);
		return err;
	}
	memcpy(k->bytes, m->bytes, size);
	k->lease = (struct dlk_lease){
		.key = k->bytes,
		.key_len = m->key_len,
		.token = k->bytes + m->key_len + 1,
		.token_len = m->token_len,
		.ttl_ms = m->ttl_ms,
		.shared = m->shared != 0,
	};
	k->ep = m->ep;
	k->granted_ns = m->granted_ns;
	k->deadline_ns = m->deadline_ns;
	/* The process's thread renews at a third: a little later is enough. */
	k->renew_ns = m->renew_ns + m->ttl_ms / 12 * DLK_MS;
	dlk_watch_ref(k->watch);
	dlk_watch_again(k->watch);
	k->next = all;
	all = k;
	return 0;
}

static bool well_formed(const struct dlk_keep *m, ssize_t n)
{
	return n >= (ssize_t)sizeof(*m) && m->magic == DLK_KEEP_MAGIC &&
	       m->key_len <= DLK_KEY_MAX && m->token_len < DLK_TOKEN_MAX &&
	       (size_t)n == sizeof(*m) + m->key_len + m->token_len + 2;
}

static int received_fd(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void owe(struct kept *k)
{
	k->state = OWED;
	k->forget_ns = dlk_now_ns() + (k->lease.ttl_ms + 1000) * DLK_MS;
	k->renew_ns = 0;
}

/* A lease is: nobody waits for an answer. */
static bool over(const struct dlk_keep *m)
{
	struct kept *k = find(m->bytes + m->key_len + 1, m->token_len);

	if (k && m->type == DLK_KEEP_OWE)
		owe(k);
	else if (k)
		drop(k);
	return true;
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
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { &in, sizeof(in) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(SHIM, &msg, MSG_CMSG_CLOEXEC);
	struct dlk_keep_answer answer = { .status = -EPROTO };
	uint32_t type;
	int fd;

	if (n <= 0)
		return n < 0 && errno == EINTR;
	fd = received_fd(&msg);
	type = well_formed(&in.m, n) ? in.m.type : 0;
	if (type == DLK_KEEP_ADD)
		answer.status = add(&in.m, fd);
	else if (fd >= 0)
		close(fd);
	if (type == DLK_KEEP_DROP || type == DLK_KEEP_OWE)
		return over(&in.m);
	if (type == DLK_KEEP_STAY) {
		stays = true;
		answer.status = 0;
	}
	answer.seq = n >= (ssize_t)sizeof(in.m) ? in.m.seq : 0;
	(void)!send(SHIM, &answer, sizeof(answer), MSG_NOSIGNAL);
	return true;
}

/* --- the lock has ended --------------------------------------------------- */

/* What was granted before the moment that the watch saw is over. */
static void locks_ended(void)
{
	uint64_t count;

	(void)!read(bell, &count, sizeof(count));
	for (struct kept *k = all; k; k = k->next)
		if (k->state == HELD &&
		    k->granted_ns < dlk_watch_free_at(k->watch))
			owe(k);
	/* A lease that came later waits for its own end. */
	for (struct kept *k = all; k; k = k->next)
		if (k->state == HELD && dlk_watch_free_at(k->watch))
			dlk_watch_again(k->watch);
	dlk_watch_sweep();
}

static void released(void *arg, const redisReply *reply)
{
	*(int *)arg = dlk_lease_released(reply);
}

/* 0 when the server has said so. */
static int release(struct kept *k, uint64_t deadline_ns)
{
	struct dlk_conn *c = conn_to(&k->ep);
	int err = c ? dlk_conn_open(c, deadline_ns) : -ENOMEM, said = -EPIPE;

	for (int text = 0; !err && text < 2; text++) {
		err = dlk_lease_release(c, &k->lease, text);
		if (err)
			break;
		dlk_conn_defer(c, released, &said);
		err = dlk_conn_flush(c, deadline_ns);
		if (!err)
			err = dlk_conn_settle(c, deadline_ns);
		if (said != -ENOENT)
			break;
	}
	if (c)
		dlk_conn_reset(c);
	return err ? err : said;
}

/* --- renewal -------------------------------------------------------------- */

static void tell_lost(const struct kept *k, const char *why)
{
	struct dlk_line l;

	dlk_line_begin(&l, DLK_ERROR);
	dlk_text_str(&l.text, "the lease ");
	dlk_text_quoted(&l.text, k->lease.key, k->lease.key_len);
	dlk_text_str(&l.text, " at redis ");
	dlk_text_str(&l.text, k->ep.name);
	dlk_text_str(&l.text, " is LOST while its lock is held: ");
	dlk_text_str(&l.text, why);
	dlk_line_end(&l);
}

/* The shim has something to say: perhaps that the lease was given back. */
static bool shim_speaks(void)
{
	struct pollfd p = { .fd = SHIM, .events = POLLIN };

	return shim_lives && poll(&p, 1, 0) > 0 && (p.revents & POLLIN);
}

static void renewed(struct kept *k, const struct dlk_renewal *r)
{
	uint64_t now = dlk_now_ns();

	if (r->result == 0) {
		k->deadline_ns = dlk_deadline_ns(r->asked_ns, k->lease.ttl_ms);
		k->renew_ns = dlk_renew_ns(r->asked_ns, k->lease.ttl_ms);
		return;
	}
	if (r->result < 0 && now < k->deadline_ns) {
		k->renew_ns = dlk_retry_ns(now, k->lease.ttl_ms);
		return;
	}
	if (shim_speaks()) {
		k->renew_ns = now + 5 * DLK_MS;
		return;
	}
	if (r->result != DLK_REPLACED)
		tell_lost(k, r->result < 0 ? dlk_lease_why(conn)
			     : r->result == DLK_LOST
				     ? "somebody else holds it"
				     : "the server does not know it any more");
	drop(k);
}

/* All that is due soon, of one server, in one round trip; false for none. */
static bool renew_some(uint64_t now)
{
	struct dlk_renewal r[DLK_RENEW_BATCH];
	struct kept *who[DLK_RENEW_BATCH];
	struct dlk_conn *c;
	unsigned n = 0;

	for (struct kept *k = all; k && n < DLK_RENEW_BATCH; k = k->next) {
		uint64_t soon = now + (n ? k->lease.ttl_ms / 12 * DLK_MS : 0);

		if (k->state != HELD || k->renew_ns > soon ||
		    (n && memcmp(&who[0]->ep, &k->ep, sizeof(k->ep)) != 0))
			continue;
		who[n] = k;
		r[n++] = (struct dlk_renewal){ .lease = &k->lease,
					       .deadline_ns = k->deadline_ns };
	}
	if (n == 0)
		return false;
	c = conn_to(&who[0]->ep);
	if (!c) {
		who[0]->renew_ns = now + 100 * DLK_MS;
		return true;
	}
	dlk_renew_batch(c, now + who[0]->ep.connect_timeout_ms * DLK_MS, r, n);
	for (unsigned i = 0; i < n; i++)
		renewed(who[i], &r[i]);
	return true;
}

static bool release_some(uint64_t now)
{
	for (struct kept *k = all; k; k = k->next) {
		if (k->state != OWED || k->renew_ns > now)
			continue;
		if (release(k, now + k->ep.connect_timeout_ms * DLK_MS) == 0 ||
		    now >= k->forget_ns)
			drop(k);
		else
			k->renew_ns = now + 100 * DLK_MS;
		return true;
	}
	return false;
}

/* --- main ----------------------------------------------------------------- */

static int wait_ms(uint64_t idle_since_ns)
{
	uint64_t now = dlk_now_ns(), at = now + 60000 * DLK_MS;

	for (struct kept *k = all; k; k = k->next)
		if (k->renew_ns < at)
			at = k->renew_ns;
	if (!all && !stays && at > idle_since_ns + LINGER_MS * DLK_MS)
		at = idle_since_ns + LINGER_MS * DLK_MS;
	return at <= now ? 0 : (int)((at - now) / DLK_MS) + 1;
}

static void wait_once(uint64_t idle_since_ns)
{
	struct pollfd p[] = {
		{ .fd = bell, .events = POLLIN },
		{ .fd = shim_lives ? SHIM : -1, .events = POLLIN },
	};

	if (poll(p, 2, wait_ms(idle_since_ns)) <= 0)
		return;
	/* First what the shim says: a DROP explains why a lock has ended. */
	if (p[1].revents && !listen_once())
		shim_lives = false;
	else if (p[0].revents)
		locks_ended();
}

static bool finished(uint64_t *idle_since_ns)
{
	uint64_t now = dlk_now_ns();

	if (all) {
		*idle_since_ns = now;
		return false;
	}
	return !shim_lives ||
	       (!stays && now >= *idle_since_ns + LINGER_MS * DLK_MS);
}

static bool begin(void)
{
	sigset_t everything;
	int type;
	socklen_t len = sizeof(type);

	sigfillset(&everything);
	pthread_sigmask(SIG_SETMASK, &everything, NULL);
	dlk_log_init(getenv("DLOCK_LOG"), false);
	bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return bell >= 0 &&
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
		while (release_some(now) || renew_some(now))
			;
	} while (!finished(&idle_since_ns));
	_exit(0);
}
