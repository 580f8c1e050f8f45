/* SPDX-License-Identifier: MIT */
/*
 * Carrying leases on: renewed until their locks have ended, then released,
 * and released again until the server has said that it is done.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/list.h"
#include "keeper/mirror.h"
#include "keeper/protocol.h"
#include "os/log.h"
#include "lease/store.h"
#include "os/revalidate.h"
#include "os/sys.h"
#include "model/timeline.h"

enum { BUCKETS = 1024, DOUBT_MS = 50, ANSWER_MS = 20, PUT_BACK = 64 };

struct dlk_kept_list dlk_carried, dlk_carried_left;
unsigned dlk_carried_news, dlk_carried_moves;
static struct dlk_kept_list by_number[BUCKETS];
static struct dlk_kept_list dropped; /* by chain */
static void (*hear)(void);
static uint64_t answers_ns = UINT64_MAX; /* no late answer is due before */

/* --- neither shim nor standby is left without an answer ------------------- */

void dlk_carry_hear(void)
{
	dlk_mirror_hear();
	if (dlk_shim_speaks())
		hear();
}

/*
 * Who takes over gives it once more, if it was not told that it was given: an answer
 * that comes twice says nothing new, and one that never comes is waited for.
 */
static void answer(struct dlk_kept *k, int err)
{
	dlk_mirror_flush();
	dlk_shim_answer(k->number, err);
	k->answer_ns = 0;
	dlk_mirror_state(k);
	dlk_mirror_flush();
}

/* The program's descriptor may hang for long: it is not waited for. */
static void answer_late(uint64_t now_ns)
{
	struct dlk_kept *k;

	if (now_ns < answers_ns)
		return;
	answers_ns = UINT64_MAX;
	LIST_FOREACH(k, &dlk_carried, next)
	{
		if (k->answer_ns && k->answer_ns <= now_ns)
			answer(k, 0);
		if (k->answer_ns && k->answer_ns < answers_ns)
			answers_ns = k->answer_ns;
	}
}

void dlk_carry_look_at_paused(uint64_t now_ns)
{
	static struct dlk_kept **its;
	static size_t room;
	struct dlk_kept *k;
	size_t n = 0;

	if (now_ns < dlk_paused_due_ns())
		return;
	LIST_FOREACH(k, &dlk_carried, next)
	{
		if (k->holders != DLK_HOLDERS_PAUSED)
			continue;
		/* NOLINTNEXTLINE(bugprone-sizeof-expression): of pointers */
		if (dlk_grow(&its, &room, n, sizeof(*its)))
			its[n++] = k;
	}
	dlk_paused_look(now_ns, its, n);
}

static const struct dlk_store *renewing; /* by it, just now; or NULL */
static bool cut_short; /* for a mute shim has ended meanwhile */

/*
 * As long as it lived a question was to last beyond marks that there are now.  (What
 * is over well before them is heard out: its connection would be lost.)
 */
static bool is_cut_short(uint64_t now)
{
	const struct dlk_kept *k;

	if (!cut_short)
		return false;
	LIST_FOREACH(k, &dlk_carried, next)
	if (dlk_carry_has_marks(k) &&
	    now >= dlk_warn_ns(dlk_asked_ns(k->deadline_ns, k->lease.ttl_ms),
			       k->lease.ttl_ms))
		return true;
	return false;
}

/* While Redis is waited for. */
static bool hear_meanwhile(void *unused)
{
	(void)unused;
	dlk_mirror_hear();
	hear();
	answer_late(dlk_now_ns());
	dlk_carry_look_at_paused(dlk_now_ns());
	if (renewing)
		dlk_store_hear(renewing);
	return is_cut_short(dlk_now_ns());
}

/* --- the table ------------------------------------------------------------ */

static void set_due(struct dlk_kept *k, uint64_t at_ns)
{
	k->due.early_ns = dlk_early_ns(k->lease.ttl_ms);
	dlk_due_set(&k->section->due, &k->due, at_ns);
}

static struct dlk_kept_list *chain(uint32_t number)
{
	return &by_number[number % BUCKETS];
}

struct dlk_kept *dlk_carried_find(uint32_t number)
{
	struct dlk_kept *k;

	LIST_FOREACH(k, chain(number), chain)
	if (k->number == number)
		break;
	return k;
}

struct dlk_kept *dlk_carried_twin(const struct dlk_kept *k)
{
	const struct dlk_lease *l = &k->lease;
	struct dlk_kept *o;

	LIST_FOREACH(o, &k->watch->leases, beside)
	if (o != k && o->state == DLK_KEPT &&
	    o->lease.token_len == l->token_len &&
	    memcmp(o->lease.token, l->token, l->token_len) == 0)
		break;
	return o;
}

static void insert(struct dlk_kept *k)
{
	LIST_INSERT_HEAD(chain(k->number), k, chain);
	LIST_INSERT_HEAD(&dlk_carried, k, next);
	LIST_INSERT_HEAD(&k->watch->leases, k, beside);
	dlk_carried_news++;
}

void dlk_carry_by(struct dlk_kept *k, enum dlk_kept_by by)
{
	if (k->by == DLK_LEFT)
		LIST_REMOVE(k, left);
	k->by = by;
	if (by == DLK_LEFT)
		LIST_INSERT_HEAD(&dlk_carried_left, k, left);
	dlk_mirror_state(k);
}

static void let_go(struct dlk_kept *k)
{
	dlk_guard_end(&k->guard);
	if (k->watch)
		dlk_watch_unref(k->watch);
	dlk_shadow_copy_put(k->shadow);
	free(k->ranges.v);
	free(k->apart.v);
	free(k);
}

/* Its mark is another, or it has none any more. */
static void has_moved(const struct dlk_kept *k)
{
	dlk_carried_moves++;
	dlk_mirror_state(k);
}

void dlk_carry_drop(struct dlk_kept *k)
{
	if (k->state >= DLK_ENDING)
		return;
	if (k->state == DLK_KEPT && k->holders == DLK_HOLDERS_PAUSED)
		dlk_paused_lock_ended(k);
	dlk_carry_by(k, DLK_BY_OTHERS);
	LIST_REMOVE(k, chain);
	LIST_REMOVE(k, next);
	LIST_REMOVE(k, beside);
	if (k->answer_ns)
		answer(k, 0);
	dlk_due_clear(&k->section->due, &k->due);
	k->state = k->state == DLK_FLUSHING ? DLK_ENDING : DLK_DROPPED;
	LIST_INSERT_HEAD(&dropped, k, chain);
	has_moved(k);
}

bool dlk_carry_bury(void)
{
	struct dlk_kept *next;

	for (struct dlk_kept *k = LIST_FIRST(&dropped); k; k = next) {
		next = LIST_NEXT(k, chain);
		if (k->state == DLK_ENDING)
			continue;
		LIST_REMOVE(k, chain);
		let_go(k);
	}
	return LIST_EMPTY(&dropped);
}

static void tell(enum dlk_level level, const struct dlk_kept *k,
		 const char *what, const char *why)
{
	struct dlk_line l;

	dlk_kept_line(&l, level, k);
	dlk_text_strs(&l.text, what, why, NULL);
	dlk_line_end(&l);
}

/*
 * Since the last renewal was asked for, as its deadline says.  That of a claim (DESIGN
 * 4.2), which is short, says it of none, and of a moment before there was a lease.
 */
void dlk_kept_put_unrenewed(struct dlk_text *t, const struct dlk_kept *k)
{
	const uint64_t asked = dlk_asked_ns(k->deadline_ns, k->lease.ttl_ms);
	const uint64_t since =
		asked > k->add.granted_ns ? asked : k->add.granted_ns;

	dlk_text_i64(t, (int64_t)((dlk_now_ns() - since) / DLK_MS));
	dlk_text_str(t, " ms");
}

/* --- a lease comes -------------------------------------------------------- */

/* As its ADD has it; NULL: no memory. */
static struct dlk_kept *new_kept(const struct dlk_keep_add *m)
{
	const size_t size = m->key_len + m->token_len + m->ranges_key_len + 3;
	struct dlk_kept *k = calloc(1, sizeof(*k) + size);

	if (!k)
		return NULL;
	memcpy(&k->add, m, sizeof(*m) + size);
	k->lease = (struct dlk_lease){
		.key = k->add.bytes,
		.key_len = m->key_len,
		.token = k->add.bytes + m->key_len + 1,
		.token_len = m->token_len,
		.ttl_ms = m->ttl_ms,
		.stays_until_ns = m->stays_until_ns,
		.pause_ms = m->pause_ms,
		.shared = m->shared != 0,
		.fair = m->fair != 0,
		.interop = m->interop != 0,
		.ranges_key = m->ranges_key_len ? k->add.bytes + m->key_len +
							  m->token_len + 2
						: NULL,
		.ranges_key_len = m->ranges_key_len,
	};
	k->number = m->head.seq;
	k->deadline_ns = m->deadline_ns;
	return k;
}

/*
 * What it takes to carry it, and is not there yet: its file; connections to renew and
 * to release it by; a standby; what tells of closes; for a look at the kernel's list,
 * or at the name of a server, two more for a moment.  (The watchdogs leave that.)
 * Before the file is opened, for its wait goes on, and has that, if it is refused.
 */
static bool descriptors_are_left(const struct dlk_kept *k)
{
	const bool connected =
		dlk_store_is_connected(k->section->store, &k->lease);
	const bool listens = k->lease.shared || k->add.kind != DLK_KEPT_FLOCK;

	return dlk_descriptors_are_left(
		1 + 2 + (dlk_mirror_fd() < 0) +
		(listens && dlk_watch_bells()->closed < 0) +
		(connected ? 0 : dlk_section_descriptors(k->section)));
}

static void watch_it(struct dlk_kept *k, int fd)
{
	dlk_watch_again(k->watch);
	if (!k->lease.shared && k->watch->has_thread)
		return;
	dlk_watch_listen(k->watch, fd);
	dlk_watch_stir(k->watch);
}

/* The shim is told, if it is there; else nobody but the log can be. */
static void take_back(struct dlk_kept *k, int err)
{
	if (!dlk_shim_lives()) {
		dlk_carry_lapse(k);
		return;
	}
	answer(k, err);
	dlk_carry_drop(k);
}

/* A watch was opened in the background, for the lease of this number. */
static void opened(struct dlk_watch *w, uint32_t number, int err)
{
	struct dlk_kept *its, *k;

	LIST_FOREACH(k, &w->leases, beside)
	{
		if (!err || k->state != DLK_KEPT)
			continue;
		if (err == -ESTALE || (k->add.kind == DLK_KEPT_FLOCK &&
				       !dlk_guard_can_tell(&k->guard)))
			take_back(k, err);
	}
	LIST_FOREACH(k, &w->leases, beside)
	dlk_mirror_lease(k);
	its = dlk_carried_find(number);
	if (its && its->answer_ns)
		answer(its, 0);
}

/*
 * The watch of a remote file has the program's description until its server has
 * answered, and who ends waits for that; but not for one that is dead, nor for as
 * long as he would wait for us.
 */
static uint64_t answer_in_ns(const struct dlk_kept *k)
{
	const uint64_t ns = dlk_keeper_patience_ns(k->lease.ttl_ms) / 4;

	return ns < ANSWER_MS * DLK_MS ? ANSWER_MS * DLK_MS : ns;
}

/* The watch of a remote file closes the descriptor itself, in time. */
static int watch_file(struct dlk_kept *k, int *fds)
{
	struct dlk_watch_what what = { .add = &k->add, .opened = opened };

	if (k->add.kind == DLK_KEPT_FLOCK) {
		dlk_guard_begin(&k->guard, fds[0]);
		what.open_only = !dlk_guard_can_tell(&k->guard);
	}
	if (!descriptors_are_left(k))
		return -EMFILE;
	k->watch = dlk_watch_get(fds[0], &what);
	if (!k->watch)
		return -errno;
	if (!k->watch->opening)
		watch_it(k, fds[0]);
	if (k->add.remote) {
		fds[0] = -1;
		k->answer_ns = dlk_now_ns() + answer_in_ns(k);
		if (k->answer_ns < answers_ns)
			answers_ns = k->answer_ns;
	}
	return 0;
}

/* The descriptor of what a shadow stands for, that an ADD came with. */
struct lent {
	struct dlk_errand errand;
	uint32_t number; /* the lease's, which may have ended since */
	int fd;
};

static void close_lent(struct dlk_errand *e)
{
	close(((struct lent *)e)->fd);
}

static void given_back(struct dlk_errand *e)
{
	struct dlk_kept *k = dlk_carried_find(((struct lent *)e)->number);

	free(e);
	if (k && k->shadow && dlk_shadow_copy_given_back(k->shadow))
		dlk_watch_stir(k->watch);
}

/* Its server may be away. */
static void give_back(struct dlk_kept *k, int fd)
{
	struct lent *l = calloc(1, sizeof(*l));

	if (!l) {
		dlk_errand_close(fd);
		return;
	}
	*l = (struct lent){ { .run = close_lent, .done = given_back },
			    k->number,
			    fd };
	dlk_shadow_copy_lent(k->shadow);
	dlk_errand_send(&l->errand);
}

/* What it takes to see the end; 0 or -errno. */
static int guard_it(struct dlk_kept *k, int *fds)
{
	const bool shadow = fds[1] >= 0, remote = k->add.remote;
	int err;

	k->section = dlk_section(k->add.section);
	if (!k->section)
		return -ENXIO;
	/* The connection, too, while the program can still be told. */
	if (dlk_store_prepare(k->section->store, &k->lease) < 0)
		return -ENOMEM;
	if (shadow) {
		k->shadow = dlk_shadow_copy_get(fds);
		if (!k->shadow)
			return -errno;
	}
	k->add.remote = remote && !shadow;
	err = watch_file(k, fds);
	if (!err && remote && shadow) {
		give_back(k, fds[1]);
		fds[1] = -1;
	}
	return err;
}

/* What is not ours to keep: but for that nobody waits for a file server. */
static int leave(const struct dlk_keep_add *m, int *fds, int err)
{
	for (int i = 0; i < 2 && m->remote; i++)
		if (fds[i] >= 0) {
			dlk_errand_close(fds[i]);
			fds[i] = -1;
		}
	return err;
}

int dlk_carry(const struct dlk_keep_add *m, int *fds)
{
	struct dlk_kept *k;
	int err;

	if (fds[0] < 0)
		return -EBADF;
	/* Once more: the other keeper has ended amidst it (hear.c). */
	if (dlk_carried_find(m->head.seq))
		return leave(m, fds, 0);
	k = new_kept(m);
	if (!k)
		return leave(m, fds, -ENOMEM);
	err = guard_it(k, fds);
	if (err) {
		let_go(k);
		return leave(m, fds, err);
	}
	k->add.remote = k->watch->remote;
	insert(k);
	set_due(k, dlk_keeper_renew_ns(m->renew_ns, m->deadline_ns));
	dlk_mirror_lease(k);
	if (dlk_log_wants(DLK_DEBUG))
		tell(DLK_DEBUG, k, " is carried on: ", k->lease.token);
	return k->answer_ns != 0;
}

/* --- a lease ends --------------------------------------------------------- */

static void owe(struct dlk_kept *k)
{
	k->state = DLK_OWED_BACK;
	k->deadline_ns = dlk_now_ns() + (k->lease.ttl_ms + 1000) * DLK_MS;
	set_due(k, 0);
	dlk_mirror_state(k);
}

void dlk_carry_owe_freed(struct dlk_watch *w)
{
	struct dlk_kept *k;

	LIST_FOREACH(k, &w->leases, beside)
	if (k->state == DLK_KEPT && k->add.granted_ns < dlk_watch_free_at(w))
		dlk_carry_owe(k);
}

struct flushing {
	struct dlk_errand errand;
	struct dlk_kept *k; /* it stays, and its watch's descriptor */
	int fd;
};

static void flush_it(struct dlk_errand *e)
{
	dlk_coherence_flush(((struct flushing *)e)->fd);
}

static void flushed(struct dlk_errand *e)
{
	struct dlk_kept *k = ((struct flushing *)e)->k;

	free(e);
	if (k->state == DLK_FLUSHING)
		owe(k);
	else
		k->state = DLK_DROPPED;
}

/* False: nothing is to be written back, or there is no memory for it. */
static bool flush(struct dlk_kept *k)
{
	const int fd = k->add.revalidates ? k->watch->fd : -1;
	struct flushing *f = fd < 0 ? NULL : calloc(1, sizeof(*f));

	if (!f)
		return false;
	*f = (struct flushing){ { .run = flush_it, .done = flushed }, k, fd };
	dlk_errand_send(&f->errand);
	return true;
}

/*
 * What ends now was lost before: nobody has renewed it until its last mark, and
 * the process has said so itself, or was ended for it.
 */
static bool has_run_out(const struct dlk_kept *k)
{
	const uint32_t ttl_ms = k->lease.ttl_ms;
	const uint64_t last = k->add.on_lost == DLK_LOST_KILL
				      ? dlk_stop_ns(k->deadline_ns, ttl_ms)
				      : k->deadline_ns;

	return k->state == DLK_KEPT && k->holders != DLK_HOLDERS_KILLED &&
	       !k->full_ms && !dlk_shim_is_mute() && dlk_now_ns() >= last;
}

/* Who is killed by his own timer says nothing any more. */
static void tell_end(const struct dlk_kept *k)
{
	struct dlk_line l;

	dlk_kept_line(&l, DLK_WARNING, k);
	dlk_text_str(&l.text, " was not renewed for ");
	dlk_kept_put_unrenewed(&l.text, k);
	dlk_text_strs(&l.text, " (",
		      k->section->why[0] ? k->section->why : "nobody did",
		      "), and its lock has ended since: its process was killed "
		      "by its own timer, or had unlocked",
		      NULL);
	dlk_line_end(&l);
}

void dlk_carry_given_up(struct dlk_kept *k)
{
	if (has_run_out(k))
		dlk_losses_note(k);
	dlk_carry_drop(k);
}

void dlk_carry_owe(struct dlk_kept *k)
{
	if (k->state != DLK_KEPT)
		return;
	if (has_run_out(k)) {
		dlk_losses_note(k);
		tell_end(k);
	}
	if (k->holders == DLK_HOLDERS_PAUSED)
		dlk_paused_lock_ended(k);
	k->state = DLK_FLUSHING;
	has_moved(k);
	dlk_due_clear(&k->section->due, &k->due);
	if (!flush(k))
		owe(k);
}

/*
 * The server may take no new connection any more when the process is gone, so
 * it is seen to in time that we have one: by a renewal, of the lease that is
 * due first.
 */
static bool must_connect_for(const struct dlk_kept *k)
{
	return !dlk_store_is_connected(k->section->store, &k->lease) &&
	       k->section->due.first == &k->due;
}

/* By its process, whose it is to renew the next time, too. */
void dlk_carry_renewed(struct dlk_kept *k, uint64_t deadline_ns, bool timed)
{
	const uint32_t ttl_ms = k->lease.ttl_ms;
	uint64_t renew_ns;

	k->silent = 0;
	k->untimed = !timed;
	if (k->state != DLK_KEPT || deadline_ns <= k->deadline_ns)
		return;
	renew_ns = dlk_renew_ns(dlk_asked_ns(deadline_ns, ttl_ms), ttl_ms);
	k->deadline_ns = deadline_ns;
	k->failing = k->doubted = k->ready = false;
	has_moved(k);
	if (!must_connect_for(k))
		set_due(k, dlk_keeper_renew_ns(renew_ns, deadline_ns));
}

/*
 * When it has renewed last nobody can say, so what can be proved is what we have
 * renewed ourselves (DESIGN L5): by that they have marks again, which may have passed.
 */
void dlk_carry_mute_ended(void)
{
	uint64_t first = UINT64_MAX, stop;
	const struct dlk_kept *k;

	LIST_FOREACH(k, &dlk_carried, next)
	{
		stop = dlk_stop_ns(k->deadline_ns, k->lease.ttl_ms);
		if (dlk_carry_has_marks(k) && stop < first)
			first = stop;
	}
	dlk_sections_until(first);
	cut_short = true;
	dlk_carried_news++;
	dlk_carried_moves++;
}

void dlk_carry_cut(struct dlk_kept *k, uint32_t ttl_ms)
{
	const uint64_t now = dlk_now_ns();

	if (k->state != DLK_KEPT || ttl_ms == k->lease.ttl_ms)
		return;
	/* (For hold_at_least it is cut more than once, and may be longer.) */
	k->full_ms = k->full_ms ?: k->lease.ttl_ms;
	k->lease.ttl_ms = ttl_ms;
	if (k->deadline_ns > dlk_deadline_ns(now, ttl_ms))
		k->deadline_ns = dlk_deadline_ns(now, ttl_ms);
	if (k->due.at_ns > dlk_renew_ns(now, ttl_ms))
		set_due(k, dlk_renew_ns(now, ttl_ms));
	has_moved(k);
}

/*
 * Not renewed at once: the end of its lock is perhaps seen only now, and that
 * of the container comes after that of its last program.  What was cut no other
 * process had (hold/container.c), so nobody holds it by a deadline; but the
 * server may not have heard of the cut, and keeps the lease for the whole ttl.
 * So there is as much time to see the end and to release it, also from a server
 * that does not answer for a while.
 */
void dlk_carry_uncut(struct dlk_kept *k)
{
	if (k->state != DLK_KEPT || !k->full_ms)
		return;
	k->lease.ttl_ms = k->full_ms;
	k->deadline_ns = dlk_deadline_ns(dlk_now_ns(), k->full_ms);
	k->full_ms = 0;
	dlk_carried_news++;
	has_moved(k);
}

void dlk_carry_lapse(struct dlk_kept *k)
{
	if (k->state >= DLK_ENDING)
		return;
	tell(DLK_WARNING, k, " is not carried on any more: ",
	     "the process that took its lock has ended, its file cannot be "
	     "opened, and nobody else can tell whether the lock is there; the "
	     "lease ends by its ttl");
	dlk_carry_drop(k);
}

/* --- what is due ---------------------------------------------------------- */

/* Those of a state, for one round trip; not what has become due anew since. */
static struct {
	struct dlk_kept *who[DLK_RENEW_BATCH];
	struct dlk_renewal ask[DLK_RENEW_BATCH];
	struct dlk_lease reads[DLK_RENEW_BATCH];
	uint32_t ttl_ms[DLK_RENEW_BATCH];
	unsigned n;
} batch;

/* As a reader's, if it is one's by now (and not to stay as a writer's). */
static const struct dlk_lease *lease_of(const struct dlk_kept *k,
					struct dlk_lease *reads)
{
	if (!k->reads || k->state != DLK_KEPT || k->lease.stays_until_ns)
		return &k->lease;
	*reads = k->lease;
	reads->shared = true;
	return reads;
}

static void collect(struct dlk_due *const *due, unsigned n,
		    enum dlk_kept_state state)
{
	batch.n = 0;
	for (unsigned i = 0; i < n; i++) {
		struct dlk_kept *k = (struct dlk_kept *)due[i];

		if (k->state != state || dlk_due_is_set(&k->due))
			continue;
		batch.who[batch.n] = k;
		batch.ask[batch.n] = (struct dlk_renewal){
			.lease = lease_of(k, &batch.reads[batch.n]),
			.deadline_ns = k->deadline_ns,
			.sent_seq = k->seen_seq,
		};
		batch.ttl_ms[batch.n] = k->lease.ttl_ms;
		batch.n++;
	}
}

static void released(struct dlk_kept *k, int result)
{
	const uint64_t now = dlk_now_ns();

	if (k->state != DLK_OWED_BACK)
		return;
	if (result == 0 || now >= k->deadline_ns)
		dlk_carry_drop(k);
	else
		set_due(k, now + 100 * DLK_MS);
}

static void release_some(struct dlk_section *s)
{
	struct dlk_attempt at = dlk_section_attempt(s);

	if (batch.n)
		s->store->ops->release(s->store, &at, batch.ask, batch.n);
	for (unsigned i = 0; i < batch.n; i++)
		released(batch.who[i], batch.ask[i].result);
}

/* Within the deadline: whoever knows the ranges may put them back yet. */
static void reclaim_records(struct dlk_kept *k, struct dlk_renewal *r)
{
	if (r->result != DLK_GONE || !k->lease.ranges_key ||
	    k->state != DLK_KEPT || dlk_now_ns() >= k->deadline_ns)
		return;
	k->unseen = dlk_records_may_put_back(k) && !dlk_watch_answers(k->watch);
	r->asked_ns = dlk_now_ns();
	r->reclaimed = true;
	dlk_records_put_back(k, r);
	if (r->result == DLK_GONE)
		r->result = -EAGAIN;
	/* In time, or else nobody knows what came in between. */
	else if (r->result == 0 && dlk_now_ns() >= k->deadline_ns)
		r->result = DLK_GONE;
}

static void retry(struct dlk_kept *k, uint64_t now)
{
	uint64_t at = dlk_retry_ns(now, k->lease.ttl_ms);

	/* A claim is short (lease/queue.h). */
	if (now < k->deadline_ns && at > now + (k->deadline_ns - now) / 4)
		at = now + (k->deadline_ns - now) / 4;
	set_due(k, at);
}

/*
 * Is it lost?  The deadline is that of the latest renewal by anybody, for the
 * process renews as well, perhaps by a connection that is still open where we
 * get none (maxclients); of one that cannot tell, nobody knows it.  Before it,
 * only another's token is proof; and that the lock has just been given back
 * must have had the time to be seen.  And of a ttl that was cut, silence is
 * none at all: the server may not have heard of it, and then keeps the lease
 * for the whole ttl, if nobody releases it when the lock has ended.
 *
 *	process				we
 *	release ->
 *	unlock				renew ->	somebody else's
 *	DROP				what was that?
 */
static bool is_lost(struct dlk_kept *k, int result, uint64_t now)
{
	if (result != DLK_LOST && (now < k->deadline_ns || dlk_shim_is_mute() ||
				   (result < 0 && k->full_ms))) {
		retry(k, now);
		return false;
	}
	/* Unreachable is nothing to it, or a matter of survive.c (L6). */
	if (result < 0 && dlk_lost_lasts(k->add.on_lost)) {
		retry(k, now);
		return false;
	}
	if (!dlk_shim_speaks() && (result < 0 || k->doubted))
		return true;
	k->doubted = true;
	set_due(k, now + DOUBT_MS * DLK_MS);
	dlk_watch_stir(k->watch);
	return false;
}

/* Of a ttl that was cut, and of a shim that cannot tell, silence is none. */
bool dlk_carry_has_marks(const struct dlk_kept *k)
{
	return k->state == DLK_KEPT && k->holders == DLK_HOLDERS_RUN &&
	       dlk_lost_stops(k->add.on_lost) && !k->full_ms &&
	       !dlk_shim_is_mute();
}

void dlk_carry_holders(struct dlk_kept *k, enum dlk_kept_holders holders)
{
	dlk_carried_news += holders != DLK_HOLDERS_KILLED;
	dlk_carried_moves++;
	k->holders = holders;
}

/* Of one that was held on to, nobody knows who had it meanwhile. */
static bool is_to_be_stopped(const struct dlk_kept *k, int result)
{
	return !k->robbed && k->holders != DLK_HOLDERS_KILLED && result >= 0 &&
	       (dlk_lost_lasts(k->add.on_lost) ||
		(result == DLK_LOST && k->add.on_lost != DLK_LOST_REPORT));
}

static void is_held_until(struct dlk_kept *k, uint64_t deadline_ns)
{
	if (k->deadline_ns < deadline_ns)
		k->deadline_ns = deadline_ns;
	has_moved(k);
	if (k->robbed || k->holders != DLK_HOLDERS_RUN)
		dlk_carry_holders(k, DLK_HOLDERS_RUN);
	k->doubted = k->robbed = k->ready = false;
}

/* Its process may have cut it meanwhile: asked for was the one ttl or the other. */
static uint64_t held_ns(const struct dlk_kept *k, const struct dlk_renewal *r,
			uint32_t asked_ms)
{
	return dlk_deadline_ns(r->asked_ns, asked_ms < k->lease.ttl_ms
						    ? asked_ms
						    : k->lease.ttl_ms);
}

static void renewed(struct dlk_kept *k, struct dlk_renewal *r,
		    uint32_t asked_ms, const char *why)
{
	uint64_t now;

	reclaim_records(k, r);
	now = dlk_now_ns();
	if (k->state != DLK_KEPT)
		return;
	if (r->result == 0) {
		is_held_until(k, held_ns(k, r, asked_ms));
		k->silent++;
		set_due(k, dlk_renew_ns(r->asked_ns, k->lease.ttl_ms));
		k->failing = false;
		return;
	}
	if (r->result == DLK_REPLACED) {
		dlk_carry_drop(k);
		return;
	}
	/* The server keeps everybody out for so long (5.4). */
	if (r->result < 0 &&
	    dlk_later(r->until_ns, k->deadline_ns, k->lease.ttl_ms) &&
	    dlk_stop_ns(r->until_ns, k->lease.ttl_ms) > now)
		is_held_until(k, r->until_ns);
	k->failing = true;
	dlk_watch_stir(k->watch);
	if (!is_lost(k, r->result, now))
		return;
	/* First those who have its lock are stopped (survive.c). */
	if (is_to_be_stopped(k, r->result)) {
		k->robbed = true;
		dlk_carried_news++;
		set_due(k, now + DOUBT_MS * DLK_MS);
		return;
	}
	/* Its mark came while the server was asked. */
	if (dlk_carry_has_marks(k)) {
		set_due(k, now + DOUBT_MS * DLK_MS);
		return;
	}
	if (k->holders != DLK_HOLDERS_KILLED) {
		dlk_losses_note(k);
		tell(DLK_ERROR, k,
		     dlk_shim_lives() ? " is LOST while its lock is held: "
				      : " is LOST, and its process has ended: ",
		     dlk_renewal_loss(r, why));
	}
	dlk_carry_drop(k);
}

void dlk_carry_is_seen(struct dlk_kept *k)
{
	if (k->unseen && k->state == DLK_KEPT)
		set_due(k, 0);
	k->unseen = false;
}

/* A sign of a restart: all that is carried there is asked for now. */
static void hurry(const struct dlk_store *store)
{
	struct dlk_kept *k;

	LIST_FOREACH(k, &dlk_carried, next)
	if (k->state == DLK_KEPT && k->section->store == store)
		set_due(k, 0);
}

void dlk_carry_heed(const struct pollfd *p, unsigned n)
{
	bool any = false;

	for (unsigned i = 0; i < n; i++)
		any |= p[i].revents != 0;
	if (any)
		dlk_stores_look();
}

/* All that is carried there is held until then, at least. */
static void tell_held(const struct dlk_section *s)
{
	uint64_t until = UINT64_MAX;
	struct dlk_kept *k, *last = NULL;

	LIST_FOREACH(k, &dlk_carried, next)
	{
		if (k->state != DLK_KEPT || k->section != s)
			continue;
		if (k->deadline_ns < until)
			until = k->deadline_ns;
		if (!last || (int32_t)(k->number - last->number) > 0)
			last = k;
	}
	if (last)
		dlk_shim_tell_held(last->number, s->number, until);
}

/*
 * What was given back meanwhile, and put back after that, is released once more (11.6),
 * unless it goes on by another carry.  All at once, and no more than that: the others'
 * renewals are not to wait for a server that is silent.
 */
static void release_put_back(struct dlk_section *s)
{
	struct dlk_renewal again[PUT_BACK];
	struct dlk_attempt at;
	unsigned n = 0;

	for (unsigned i = 0; i < batch.n && n < PUT_BACK; i++) {
		const struct dlk_kept *k = batch.who[i];

		if (batch.ask[i].reclaimed && k->state == DLK_DROPPED &&
		    !dlk_carried_twin(k))
			again[n++] = (struct dlk_renewal){ .lease = &k->lease };
	}
	if (!n || s->store->silent)
		return;
	at = dlk_section_attempt(s);
	s->store->ops->release(s->store, &at, again, n);
}

static void renew_some(struct dlk_section *s)
{
	struct dlk_attempt at = dlk_section_renewal(s);
	const uint64_t began_ns = dlk_now_ns();
	bool any = false;

	if (batch.n) {
		dlk_stores_look(); /* begins to listen, for hear_meanwhile() */
		renewing = s->store;
		s->store->ops->renew(s->store, &at, batch.ask, batch.n);
		renewing = NULL;
		dlk_store_renewed(s->store, batch.ask[0].result, began_ns);
		/* (Marks are others where a server is silent: survive.c.) */
		dlk_carried_news += s->store->silent;
	}
	if (batch.n && batch.ask[0].result != -EINTR)
		memcpy(s->why, at.why, sizeof(s->why));
	for (unsigned i = 0; i < batch.n; i++) {
		any |= batch.ask[i].result == 0;
		renewed(batch.who[i], &batch.ask[i], batch.ttl_ms[i], at.why);
	}
	release_put_back(s);
	/* To who is stopped it is said when he goes on. */
	if (any && !dlk_paused.n && dlk_shim_reads())
		tell_held(s);
}

void dlk_carry_tell_held(void)
{
	const struct dlk_section *s;

	for (unsigned i = 0; (s = dlk_section(i)); i++)
		tell_held(s);
}

bool dlk_carry_some(uint64_t now_ns)
{
	struct dlk_section *s;
	static struct dlk_due *due[DLK_RENEW_BATCH];
	bool any = false;

	cut_short = false;
	answer_late(now_ns);
	for (unsigned i = 0; (s = dlk_section(i)); i++) {
		const unsigned n =
			dlk_dues_take(&s->due, now_ns, due, DLK_RENEW_BATCH);

		collect(due, n, DLK_OWED_BACK);
		release_some(s);
		collect(due, n, DLK_KEPT);
		renew_some(s);
		any |= n > 0;
	}
	return any;
}

uint64_t dlk_carry_due_ns(void)
{
	const uint64_t due = dlk_sections_due_ns(NULL);

	return due < answers_ns ? due : answers_ns;
}

/* --- two keepers ---------------------------------------------------------- */

struct dlk_kept *dlk_carry_adopt(const struct dlk_keep_add *m,
				 struct dlk_watch *w, struct dlk_guard *g,
				 struct dlk_shadow_copy *s)
{
	struct dlk_kept *k = new_kept(m);

	if (!k)
		return NULL;
	k->section = dlk_section(m->section);
	k->watch = w;
	k->guard = *g;
	k->shadow = s;
	insert(k);
	return k;
}

void dlk_carry_follow(struct dlk_kept *k, const struct dlk_mirror_state *s)
{
	k->answer_ns = s->unanswered;
	/* Who stands by has stopped nobody, though it was made when its parent
	 * had: for whom that was is found at the end of it (wake()). */
	if (k->holders != DLK_HOLDERS_RUN)
		dlk_carry_holders(k, DLK_HOLDERS_RUN);
	if (s->state >= DLK_ENDING) {
		dlk_carry_drop(k);
		return;
	}
	k->state = s->state;
	if (k->by != s->by)
		dlk_carry_by(k, s->by);
	k->guard.was_first = s->was_first;
	k->lease.ttl_ms = s->ttl_ms;
	k->full_ms = s->full_ms;
	k->deadline_ns = s->deadline_ns;
}

/* All that is due, and be it in a minute: whoever knew when is dead. */
static void wake(struct dlk_kept *k)
{
	const bool paused = dlk_paused.n && k->add.on_lost == DLK_LOST_PAUSE;

	k->listed_ns = 0;
	k->doubted = false;
	/* An answer that was to come late was the parent's to give. */
	if (k->answer_ns)
		answer(k, 0);
	if (k->state == DLK_KEPT) {
		if (paused || k->holders == DLK_HOLDERS_PAUSED)
			dlk_carry_holders(k, paused ? DLK_HOLDERS_PAUSED
						    : DLK_HOLDERS_RUN);
		set_due(k, 0);
		return;
	}
	/* What was written back, or was to be, once more. */
	k->state = DLK_KEPT;
	dlk_carry_owe(k);
}

void dlk_carry_wake(void)
{
	struct dlk_kept *k;

	LIST_FOREACH(k, &dlk_carried, next)
	{
		/* What has been found out since we were forked is not known. */
		k->apart.n = 0;
		if (dlk_store_prepare(k->section->store, &k->lease) == 0)
			wake(k);
		else
			dlk_carry_lapse(k);
	}
}

uint64_t dlk_carry_overdue_ns(uint32_t *ttl_ms)
{
	uint64_t first = UINT64_MAX;
	const struct dlk_kept *k;

	LIST_FOREACH(k, &dlk_carried, next)
	{
		const uint32_t ttl = k->lease.ttl_ms;
		const uint64_t asked = dlk_asked_ns(k->deadline_ns, ttl);

		if (k->state != DLK_KEPT || dlk_warn_ns(asked, ttl) >= first)
			continue;
		first = dlk_warn_ns(asked, ttl);
		*ttl_ms = ttl;
	}
	return first;
}

bool dlk_carry_begin(const struct dlk_keep_server *servers, unsigned n,
		     void (*hear_fn)(void))
{
	hear = hear_fn;
	return dlk_sections_begin(servers, n, hear_meanwhile, hurry);
}
