/* SPDX-License-Identifier: MIT */
/*
 * Carrying leases on: renewed until their locks have ended, then released,
 * and released again until the server has said that it is done.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "lease/log.h"
#include "lease/mounts.h"
#include "lease/renew.h"
#include "lease/sys.h"
#include "model/timeline.h"

enum { BUCKETS = 1024 };

struct server {
	struct server *next;
	struct dlk_endpoint ep;
};

struct dlk_kept *dlk_carried;
static struct dlk_kept *by_token[BUCKETS];
static struct server *servers; /* few, and so kept for ever */
static struct dlk_conn *conn;  /* to the server asked last */

static struct dlk_conn *conn_to(const struct dlk_endpoint *ep)
{
	if (conn && dlk_conn_endpoint(conn) != ep) {
		dlk_conn_delete(conn);
		conn = NULL;
	}
	if (!conn)
		conn = dlk_conn_new(ep);
	return conn;
}

struct dlk_conn *dlk_carry_conn(const struct dlk_kept *k)
{
	return conn_to(k->ep);
}

static const struct dlk_endpoint *server(const struct dlk_endpoint *ep)
{
	struct server *s;

	for (s = servers; s; s = s->next)
		if (memcmp(&s->ep, ep, sizeof(*ep)) == 0)
			return &s->ep;
	s = dlk_undumped(sizeof(*s));
	if (!s)
		return NULL;
	s->ep = *ep;
	s->next = servers;
	servers = s;
	return &s->ep;
}

/* --- the table ------------------------------------------------------------ */

/* A token begins with random digits ("dlock1 RANDOM"). */
static struct dlk_kept **chain(const char *token, size_t len)
{
	unsigned h = 0;

	for (size_t i = 0; i < len && i < 20; i++)
		h = h * 31 + (unsigned char)token[i];
	return &by_token[h % BUCKETS];
}

struct dlk_kept *dlk_carried_find(const char *token, size_t len)
{
	for (struct dlk_kept *k = *chain(token, len); k; k = k->chain)
		if (k->lease.token_len == len &&
		    memcmp(k->lease.token, token, len) == 0)
			return k;
	return NULL;
}

static void insert(struct dlk_kept *k)
{
	struct dlk_kept **first = chain(k->lease.token, k->lease.token_len);

	k->chain = *first;
	*first = k;
	k->next = dlk_carried;
	k->at = &dlk_carried;
	if (k->next)
		k->next->at = &k->next;
	dlk_carried = k;
}

void dlk_carry_drop(struct dlk_kept *k)
{
	struct dlk_kept **in = chain(k->lease.token, k->lease.token_len);

	while (*in != k)
		in = &(*in)->chain;
	*in = k->chain;
	*k->at = k->next;
	if (k->next)
		k->next->at = k->at;
	dlk_guard_end(&k->guard);
	dlk_watch_unref(k->watch);
	dlk_shade_put(k->shade);
	free(k->ranges.v);
	free(k);
}

static void tell(enum dlk_level level, const struct dlk_kept *k,
		 const char *what, const char *why)
{
	struct dlk_line l;

	dlk_line_begin(&l, level);
	dlk_text_str(&l.text, "the lease ");
	dlk_text_quoted(&l.text, k->lease.key, k->lease.key_len);
	dlk_text_str(&l.text, " at redis ");
	dlk_text_str(&l.text, k->ep->name);
	dlk_text_str(&l.text, what);
	dlk_text_str(&l.text, why);
	dlk_line_end(&l);
}

/* --- a lease comes -------------------------------------------------------- */

/* The program may have closed the descriptor and opened another file. */
static bool is_file(const struct dlk_keep *m, int fd)
{
	struct stat st;

	return dlk_file_known(fd, &st) == 0 && st.st_dev == m->dev &&
	       st.st_ino == m->ino;
}

static void fill(struct dlk_kept *k, const struct dlk_keep *m)
{
	memcpy(k->bytes, m->bytes,
	       m->key_len + m->token_len + m->places_len + 3);
	k->lease = (struct dlk_lease){
		.key = k->bytes,
		.key_len = m->key_len,
		.token = k->bytes + m->key_len + 1,
		.token_len = m->token_len,
		.ttl_ms = m->ttl_ms,
		.shared = m->shared != 0,
		.fair = m->fair != 0,
		.interop = m->interop != 0,
		.places = m->places_len
				  ? k->bytes + m->key_len + m->token_len + 2
				  : NULL,
		.places_len = m->places_len,
	};
	k->kind = m->kind;
	k->pid = m->pid;
	k->coherent = m->coherent != 0;
	k->granted_ns = m->granted_ns;
	k->deadline_ns = m->deadline_ns;
	/* The process's thread renews at a third: a little later is enough. */
	k->due_ns = m->renew_ns;
	if (m->deadline_ns > m->renew_ns)
		k->due_ns += (m->deadline_ns - m->renew_ns) / 8;
}

static void watch_it(struct dlk_kept *k, int fd)
{
	dlk_watch_again(k->watch);
	if (!k->lease.shared && dlk_watch_waits(k->watch))
		return;
	dlk_watch_listen(k->watch, fd);
	dlk_watch_stir(k->watch);
	dlk_look_soon();
}

/* Without two left, there would be none for the connection to release it on. */
static bool descriptors_are_left(int fd)
{
	int one = dup(fd), two = dup(fd);

	if (one >= 0)
		close(one);
	if (two >= 0)
		close(two);
	return one >= 0 && two >= 0;
}

/* What it takes to see the end; 0 or -errno. */
static int guard_it(struct dlk_kept *k, const struct dlk_keep *m,
		    const int *fds)
{
	k->ep = server(&m->ep);
	/* The connection, too, while the program can still be told. */
	if (!k->ep || !conn_to(k->ep))
		return -ENOMEM;
	if (fds[1] >= 0) {
		k->shade = dlk_shade_get(fds);
		if (!k->shade)
			return -errno;
	}
	if (m->kind == DLK_KEPT_FLOCK) {
		dlk_guard_begin(&k->guard, fds[0]);
		k->watch =
			dlk_watch_get(fds[0], !dlk_guard_can_tell(&k->guard));
	} else {
		k->watch = dlk_watch_get_records(fds[0]);
	}
	return k->watch ? 0 : -errno;
}

int dlk_carry(const struct dlk_keep *m, const int *fds)
{
	struct dlk_kept *k;
	int err;

	if (fds[0] < 0)
		return -EBADF;
	/* Asked again, for the answer came too late. */
	if (dlk_carried_find(m->bytes + m->key_len + 1, m->token_len))
		return 0;
	if (!is_file(m, fds[0]))
		return -ESTALE;
	k = calloc(1,
		   sizeof(*k) + m->key_len + m->token_len + m->places_len + 3);
	if (!k)
		return -ENOMEM;
	err = guard_it(k, m, fds);
	if (err) {
		dlk_guard_end(&k->guard);
		dlk_shade_put(k->shade);
		free(k);
		return err;
	}
	fill(k, m);
	insert(k);
	watch_it(k, fds[0]);
	if (!descriptors_are_left(fds[0])) {
		dlk_carry_drop(k);
		return -EMFILE;
	}
	if (dlk_log_wants(DLK_DEBUG))
		tell(DLK_DEBUG, k, " is carried on: ", k->lease.token);
	return 0;
}

/* --- a lease ends --------------------------------------------------------- */

void dlk_carry_owe(struct dlk_kept *k)
{
	const int fd = dlk_watch_fd(k->watch);

	if (k->coherent && fd >= 0)
		sync_file_range(fd, 0, 0,
				SYNC_FILE_RANGE_WAIT_BEFORE |
					SYNC_FILE_RANGE_WRITE |
					SYNC_FILE_RANGE_WAIT_AFTER);
	k->state = DLK_OWED_BACK;
	k->forget_ns = dlk_now_ns() + (k->lease.ttl_ms + 1000) * DLK_MS;
	k->due_ns = 0;
}

void dlk_carry_lapse(struct dlk_kept *k)
{
	tell(DLK_WARNING, k, " is not carried on any more: ",
	     "the process that took its lock has ended, its file cannot be "
	     "opened, and nobody else can tell whether the lock is there; the "
	     "lease ends by its ttl");
	dlk_carry_drop(k);
}

static void released(void *arg, const redisReply *reply)
{
	*(int *)arg = dlk_lease_released(reply);
}

/* Queue a release of each; *said is told in time, or stays as it is. */
static int send_releases(struct dlk_conn *c, struct dlk_kept **who, int *said,
			 unsigned n, uint64_t deadline_ns)
{
	int err = dlk_conn_open(c, deadline_ns);

	for (unsigned i = 0; i < n && !err; i++) {
		err = dlk_lease_release(c, &who[i]->lease, who[i]->text);
		if (err == -ENOBUFS) {
			err = dlk_conn_flush(c, deadline_ns);
			if (!err)
				err = dlk_lease_release(c, &who[i]->lease,
							who[i]->text);
		}
		if (!err)
			err = dlk_conn_defer(c, released, &said[i]);
	}
	if (!err)
		err = dlk_conn_flush(c, deadline_ns);
	if (!err)
		err = dlk_conn_settle(c, deadline_ns);
	/* Nothing may be said of these any more. */
	if (err)
		dlk_conn_close(c);
	dlk_conn_reset(c);
	return err;
}

static void settled(struct dlk_kept *k, int said, uint64_t now_ns)
{
	if (said == 0 || now_ns >= k->forget_ns) {
		dlk_carry_drop(k);
		return;
	}
	k->due_ns = said == -ENOENT && !k->text ? 0 : now_ns + 100 * DLK_MS;
	k->text |= said == -ENOENT;
}

/* --- what is due, in one round trip --------------------------------------- */

/* Up to a batch of one server; what is due soon goes along. */
static unsigned collect(struct dlk_kept **who, enum dlk_kept_state state,
			uint64_t now_ns)
{
	unsigned n = 0;

	for (struct dlk_kept *k = dlk_carried; k && n < DLK_RENEW_BATCH;
	     k = k->next) {
		uint64_t soon =
			now_ns + (n ? k->lease.ttl_ms / 12 * DLK_MS : 0);

		if (k->state == state && k->due_ns <= soon &&
		    (n == 0 || who[0]->ep == k->ep))
			who[n++] = k;
	}
	return n;
}

static bool release_some(uint64_t now_ns)
{
	struct dlk_kept *who[DLK_RENEW_BATCH];
	int said[DLK_RENEW_BATCH];
	unsigned n = collect(who, DLK_OWED_BACK, now_ns);
	struct dlk_conn *c = n ? conn_to(who[0]->ep) : NULL;

	for (unsigned i = 0; i < n; i++)
		said[i] = -EPIPE;
	if (c)
		send_releases(c, who, said, n,
			      now_ns + who[0]->ep->connect_timeout_ms * DLK_MS);
	for (unsigned i = 0; i < n; i++)
		settled(who[i], said[i], now_ns);
	return n > 0;
}

/* Within the deadline: whoever knows the ranges may put them back yet. */
static void restore_records(struct dlk_kept *k, struct dlk_renewal *r)
{
	if (r->result != DLK_GONE || !k->lease.places ||
	    dlk_now_ns() >= k->deadline_ns)
		return;
	r->asked_ns = dlk_now_ns();
	r->result = dlk_records_put_back(k, conn);
	if (r->result == DLK_GONE)
		r->result = -EAGAIN;
	/* In time, or else nobody knows what came in between. */
	else if (r->result == 0 && dlk_now_ns() >= k->deadline_ns)
		r->result = DLK_GONE;
}

static void renewed(struct dlk_kept *k, struct dlk_renewal *r)
{
	uint64_t now;

	restore_records(k, r);
	now = dlk_now_ns();

	if (r->result == 0) {
		k->deadline_ns = dlk_deadline_ns(r->asked_ns, k->lease.ttl_ms);
		k->due_ns = dlk_renew_ns(r->asked_ns, k->lease.ttl_ms);
		return;
	}
	if (r->result < 0 && now < k->deadline_ns) {
		k->due_ns = dlk_retry_ns(now, k->lease.ttl_ms);
		/* A claim is short (lease/queue.h). */
		if (k->due_ns > now + (k->deadline_ns - now) / 4)
			k->due_ns = now + (k->deadline_ns - now) / 4;
		return;
	}
	if (dlk_shim_speaks()) {
		k->due_ns = now + 5 * DLK_MS;
		return;
	}
	if (r->result != DLK_REPLACED)
		tell(DLK_ERROR, k, " is LOST while its lock is held: ",
		     r->result < 0 ? dlk_lease_why(conn)
		     : r->result == DLK_LOST
			     ? "somebody else holds it"
			     : "the server does not know it any more");
	dlk_carry_drop(k);
}

static bool renew_some(uint64_t now_ns)
{
	struct dlk_renewal r[DLK_RENEW_BATCH];
	struct dlk_kept *who[DLK_RENEW_BATCH];
	unsigned n = collect(who, DLK_KEPT, now_ns);
	struct dlk_conn *c = n ? conn_to(who[0]->ep) : NULL;

	for (unsigned i = 0; i < n; i++)
		r[i] = (struct dlk_renewal){
			.lease = &who[i]->lease,
			.deadline_ns = who[i]->deadline_ns,
		};
	if (c)
		dlk_renew_batch(
			c, now_ns + who[0]->ep->connect_timeout_ms * DLK_MS, r,
			n);
	for (unsigned i = 0; i < n; i++) {
		if (c)
			renewed(who[i], &r[i]);
		else
			who[i]->due_ns = now_ns + 100 * DLK_MS;
	}
	return n > 0;
}

bool dlk_carry_some(uint64_t now_ns)
{
	return release_some(now_ns) || renew_some(now_ns);
}

uint64_t dlk_carry_due_ns(void)
{
	uint64_t first = UINT64_MAX;

	for (struct dlk_kept *k = dlk_carried; k; k = k->next)
		if (k->due_ns < first)
			first = k->due_ns;
	return first;
}
