/* SPDX-License-Identifier: MIT */
/*
 * What the keeper was asked to carry on, what it has said, and what it is told
 * of that (DESIGN L4).
 *
 *  1. A keeper that does not answer in time is killed, and the next one gets
 *     all leases: so no keeper carries what we believe refused.  It is its
 *     standby that does both if something was left to it, which we do not know
 *     any more and the next one could not get.
 *  2. What is asked (keeper.number) and not answered is neither "yes" nor "no".
 *     The end of such a lease is told in order, behind the question.
 *
 * (mutex) is that of the holds, (keeper_mutex) dlk_keeper_mutex.
 */
#include "hold/delegation.h"

#include <errno.h>
#include <string.h>

#include "keeper/protocol.h"
#include "os/log.h"
#include "os/mounts.h"
#include "os/proc.h"
#include "os/shadowdir.h"
#include "os/spawn_own.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/backstop.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/schedule.h"
#include "hold/keeper_client.h"
#include "hold/self.h"
#include "hold/shadow.h"
#include "hold/thread.h"
#include "hold/trace.h"
#include "model/timeline.h"

enum { ASKED = 128, REFUSED_MS = 1000 };
/* A close waits so long for what ends by it to be given back. */
enum { SETTLE_MS = 1000 };
/* A lease over which keepers die is asked for again by the thread after: */
enum { DEADLY_MS = 60000 };

/* Of which file is the lease that was asked for by this number? */
static struct {
	uint32_t number;
	struct dlk_file file;
} asked[ASKED];

/* What was closed before this message is given back, or another's. */
static uint32_t settled;

static unsigned lost; /* keepers, wherever it was noticed */
static int lost_by;   /* the last one: it hung, or has ended */

/* --- messages ------------------------------------------------------------- */

static enum dlk_kept_kind kept_kind(const struct dlk_hold *h)
{
	return h->kind == DLK_POSIX ? DLK_KEPT_POSIX
	       : h->kind == DLK_OFD ? DLK_KEPT_OFD
				    : DLK_KEPT_FLOCK;
}

/*
 * A network's, FUSE's: they have no device of their own (mounts.c).  What
 * goes to the keeper is closed there in the background, and a lock is there
 * until then: so not where a lock directory is a tmpfs.
 */
static bool is_remote(const struct dlk_hold *h)
{
	/* A shadow is local; it goes with a file that is not. */
	return h->program_fd >= 0 || h->revalidates ||
	       dlk_fs_of(h->fd, h->file.dev) != DLK_FS_LOCAL;
}

static uint32_t section_of(const struct dlk_hold *h)
{
	return (uint32_t)(h->rule->redis - dlk_self.config->redis);
}

/* Its size. */
static size_t compose(struct dlk_keep_add *m, const struct dlk_hold *h)
{
	const struct dlk_lease *l = &h->lease;
	char *p = m->bytes;

	*m = (struct dlk_keep_add){
		.head.type = DLK_KEEP_ADD,
		.dev = h->file.dev,
		.node = dlk_node(&h->file),
		.key_len = (uint32_t)l->key_len,
		.token_len = (uint32_t)l->token_len,
		.ranges_key_len = (uint32_t)l->ranges_key_len,
		.ttl_ms = l->ttl_ms,
		.shared = l->shared,
		.fair = l->fair,
		.interop = l->interop,
		.kind = kept_kind(h),
		.revalidates = h->revalidates,
		.remote = is_remote(h),
		.section = section_of(h),
		.pid = (uint32_t)dlk_pid(),
		.on_lost = h->rule->on_lost,
		.pause_ms = l->pause_ms,
		.granted_ns = h->valid.granted_ns,
		.deadline_ns = h->valid.deadline_ns,
		.renew_ns = h->valid.renew_ns,
		.stays_until_ns = l->stays_until_ns,
	};
	memcpy(p, l->key, l->key_len + 1);
	p += l->key_len + 1;
	memcpy(p, l->token, l->token_len + 1);
	p += l->token_len + 1;
	memcpy(p, l->ranges_key ? l->ranges_key : "", l->ranges_key_len + 1);
	return sizeof(*m) + l->key_len + l->token_len + l->ranges_key_len + 3;
}

struct adding {
	struct dlk_keep_add *m;
	size_t size;
	int fds[DLK_KEEP_FDS];
};

static int send_shadow(int program_fd, void *arg)
{
	struct adding *a = arg;

	a->fds[1] = program_fd;
	return dlk_keeper_send(&a->m->head, a->size, a->fds,
			       a->fds[2] < 0 ? 2 : 3);
}

/*
 * The lock's descriptor; a shadow's goes with the file that it stands for.  Who
 * closes one of several descriptors names another one first, by the mutex that
 * is held here: so it is the lock's until it is sent.
 */
static int send_add(const struct dlk_hold *h, struct dlk_keep_add *m)
{
	struct adding a = { m, compose(m, h), { -1, -1, -1 } };
	struct dlk_shadow_why why;
	int err;

	if (h->program_fd < 0) {
		DLK_GUARD(&dlk_holds_mutex);
		a.fds[0] = h->fd;
		return dlk_keeper_send(&m->head, a.size, a.fds, 1);
	}
	a.fds[0] = h->fd;
	a.fds[2] = dlk_shadowdir_open(dlk_self.config->state_dir, false, &why);
	err = dlk_shadow_lend(h->fd, send_shadow, &a);
	if (a.fds[2] >= 0)
		dlk_close(a.fds[2]);
	return err;
}

/*
 * (keeper_mutex) The hold has its number before the keeper is told of it: what
 * lies in the socket has the description, so who closes that now is to wait for
 * the keeper.
 *
 *	our thread		we
 *	a keeper is started
 *				close: nobody else has it
 *	ADD, with the
 *	description ->
 *				LOCK_NB by another: refused
 *	... the keeper reads it
 *
 * False: it was given up meanwhile.
 */
static bool announce(struct dlk_hold *h, uint32_t number)
{
	bool held;

	DLK_GUARD(&dlk_holds_mutex);
	held = dlk_hold_goes_on(h);
	if (held)
		h->keeper.number = number;
	return held;
}

/* (keeper_mutex) The keeper was not told, as a renewal may have believed. */
static void take_back(struct dlk_hold *h, uint32_t number)
{
	DLK_GUARD(&dlk_holds_mutex);
	if (h->keeper.number == number) {
		h->keeper.number = 0;
		dlk_schedule(h);
	}
}

/* (keeper_mutex) */
static int tell_add(struct dlk_hold *h)
{
	struct dlk_keep_add *m = dlk_keeper_room();
	const uint32_t number = dlk_keeper_next();
	int err;

	if (!m)
		return -ENOMEM;
	if (!announce(h, number))
		return 0;
	err = send_add(h, m);
	if (err) {
		take_back(h, number);
		return err;
	}
	dlk_keeper_depends(h->lease.ttl_ms);
	asked[number % ASKED].number = number;
	asked[number % ASKED].file = h->file;
	DLK_GUARD(&dlk_holds_mutex);
	if (h->keeper.number == number) {
		h->keeper.known_until_ns = m->deadline_ns;
		h->keeper.due_ns = UINT64_MAX;
		dlk_schedule(h);
	}
	return 0;
}

static void begin_failure(struct dlk_line *l, const struct dlk_hold *h)
{
	dlk_line_begin(l, DLK_WARNING);
	dlk_text_str(&l->text, "no keeper for the lease ");
	dlk_text_quoted(&l->text, h->lease.key, h->lease.key_len);
	dlk_text_str(&l->text, ": ");
}

/* By one that runs: it is not to blame, but the file that is locked. */
static void tell_refusal(const struct dlk_hold *h, int err)
{
	struct dlk_line l;

	begin_failure(&l, h);
	dlk_text_strs(&l.text,
		      "dlock-keeper runs, and cannot see when the lock of its "
		      "file ends: ",
		      strerrordesc_np(-err) ?: "unknown error",
		      "; it ends by its ttl when this process ends", NULL);
	if (err == -EACCES || err == -EPERM || err == -EMEDIUMTYPE)
		dlk_text_str(&l.text,
			     ".  Let the user of this process read or write "
			     "that file, or mount a /proc of this pid "
			     "namespace (unshare --mount-proc)");
	dlk_line_end(&l);
}

static void tell_failure(const struct dlk_hold *h, int err)
{
	struct dlk_line l;

	begin_failure(&l, h);
	if (err == -EXDEV) {
		dlk_text_str(&l.text, dlk_spawn_why(err));
		dlk_line_end(&l);
		return;
	}
	dlk_text_strs(&l.text, dlk_self.keeper_path,
		      ", and " DLK_LIBEXECDIR "/dlock-keeper: ",
		      err == -ESRCH ? "it has ended as soon as it was started"
				    : dlk_spawn_why(err),
		      "; it ends by its ttl when this process ends", NULL);
	if (err == -ENOENT || err == -EACCES)
		dlk_text_str(&l.text, ".  Is dlock-keeper installed beside "
				      "libdlock-preload.so, and in this root?");
	if (err == -EMFILE) {
		dlk_text_str(&l.text, ".  Raise the limit of open files, the "
				      "hard one too (ulimit -n): a keeper has "
				      "the same, and needs ");
		dlk_text_i64(&l.text, DLK_KEEP_DESCRIPTORS);
		dlk_text_str(&l.text, " at the least");
	}
	dlk_line_end(&l);
}

/* --- answers -------------------------------------------------------------- */

/* The lease that was asked for by this number, or NULL. */
static struct dlk_hold *find_asked(uint32_t number)
{
	struct dlk_hold *h;

	for (h = dlk_holds_first(); h; h = h->next)
		if (h->keeper.number == number)
			return h;
	return NULL;
}

/* The same, of those that were asked for lately. */
static struct dlk_hold *find_lately(uint32_t number)
{
	const struct dlk_file *file = &asked[number % ASKED].file;
	struct dlk_hold *h = NULL;

	if (asked[number % ASKED].number != number)
		return find_asked(number);
	while ((h = dlk_hold_find(file, h)))
		if (h->keeper.number == number)
			return h;
	while ((h = dlk_hold_find_records(file, h)))
		if (h->keeper.number == number)
			return h;
	return NULL;
}

/*
 * (mutex) It has no keeper, and is to have one by then.  Nobody but us is left to
 * watch it, by what is known here of how long it is held.
 */
static void undelegate(struct dlk_hold *h, uint64_t by_ns)
{
	dlk_holds_check();
	h->keeper.number = 0;
	h->keeper.carried = false;
	h->valid.elsewhere = false;
	h->keeper.due_ns = by_ns;
	dlk_backstop_watch(h);
	dlk_schedule(h);
}

/* (mutex) No keeper takes it: is that to be said, which is once? */
static bool refuse(struct dlk_hold *h)
{
	const uint64_t now = dlk_now_ns();
	const bool held = dlk_hold_goes_on(h);
	const bool tell = held && !h->keeper.refused_ns;

	undelegate(h, now + REFUSED_MS * DLK_MS);
	if (held)
		h->keeper.refused_ns = now;
	return tell;
}

static bool is_to_tell(struct dlk_hold *h)
{
	DLK_GUARD(&dlk_holds_mutex);
	return refuse(h);
}

void dlk_delegation_refused(struct dlk_hold *h, int err)
{
	if (is_to_tell(h))
		tell_failure(h, err);
}

/* What it lacks is no matter of the file. */
static void refused_by_keeper(struct dlk_hold *h, int err)
{
	const bool lacks = err == -EMFILE || err == -ENFILE || err == -ENOMEM;

	if (is_to_tell(h))
		(lacks ? tell_failure : tell_refusal)(h, err);
}

/*
 * What it carries it goes on with, but hears of no renewal any more, and so stops
 * nobody as long as we live: the next one has all of it as well, and does.  But not
 * what only a keeper renews that was started where the server can be reached.
 */
static void let_go(void)
{
	const bool away = atomic_load(&dlk_self.away);

	dlk_keeper_let_go();
	DLK_GUARD(&dlk_holds_mutex);
	for (struct dlk_hold *h = dlk_holds_first(); h; h = h->next) {
		if (h->keeper.number && !(away && h->keeper.carried))
			undelegate(h, dlk_now_ns());
		h->keeper.number = 0;
	}
}

/* HELD: what it has renewed, and this process perhaps could not.  (Without a number
 * it is one's that was let go of.) */
static void held(const struct dlk_keep_answer *a)
{
	DLK_GUARD(&dlk_holds_mutex);
	for (struct dlk_hold *h = dlk_holds_first(); h; h = h->next)
		if (dlk_hold_is_held(h) && h->keeper.carried &&
		    h->keeper.number &&
		    (int32_t)(h->keeper.number - a->lease) <= 0 &&
		    section_of(h) == a->section)
			dlk_hold_heard(h, a->until_ns, dlk_in_thread());
}

/* Of an ADD: yes, or no, at once or at last. */
static void answered(const struct dlk_keep_answer *a)
{
	const bool alone = atomic_load(&dlk_self.away) || !dlk_thread_here();
	struct dlk_hold *h = NULL;

	if (a->status == DLK_KEEP_HELD) {
		held(a);
		return;
	}
	if (a->status == DLK_KEEP_DISOBEYED) {
		let_go();
		return;
	}
	if (a->status == DLK_KEEP_SETTLED) {
		settled = a->seq;
		return;
	}
	dlk_holds_lock();
	/* Was it a lease?  A later one may have its place by now. */
	if (a->status || (int32_t)(asked[a->seq % ASKED].number - a->seq) >= 0)
		h = find_lately(a->seq);
	if (h) {
		dlk_hold_pin(h);
		h->keeper.carried = a->status == 0;
		h->keeper.deaths = 0;
		dlk_backstop_watch(h);
		if (alone)
			dlk_hold_leave(h);
	}
	dlk_holds_unlock();
	if (!h)
		return;
	if (a->status)
		refused_by_keeper(h, a->status);
	else
		dlk_trace_lease(h, "the keeper's to carry on, too", NULL);
	dlk_unpin(h);
}

/*
 * (keeper_mutex) It is gone, or is killed because it hangs: all that it had is
 * another's to carry.  What it was asked for and did not answer, the first of
 * that, may be what it hangs over, and so would the next one.
 */
static void lose(bool hangs)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_hold *first = NULL;
	bool tell = false;

	lost++;
	lost_by = hangs ? -ETIMEDOUT : -ESRCH;
	dlk_keeper_lose(hangs);
	dlk_holds_lock();
	for (struct dlk_hold *h = dlk_holds_first(); h; h = h->next)
		if (h->keeper.number && !h->keeper.carried &&
		    (!first || h->keeper.number < first->keeper.number))
			first = h;
	for (struct dlk_hold *h = dlk_holds_first(); h; h = h->next)
		if (h->keeper.number)
			undelegate(h, now);
	if (first && hangs && ++first->keeper.deaths == DLK_DEATHS) {
		tell = refuse(first);
		first->keeper.deaths = 0;
		first->keeper.due_ns = now + DEADLY_MS * DLK_MS;
		dlk_schedule(first);
	}
	if (tell)
		dlk_hold_pin(first);
	dlk_holds_unlock();
	if (tell) {
		tell_failure(first, -ETIMEDOUT);
		dlk_unpin(first);
	}
	dlk_keeper_wait_dead();
}

unsigned dlk_delegation_lost(void)
{
	return lost;
}

int dlk_delegation_lost_by(void)
{
	return dlk_keeper_is_silent() ? -ETIMEDOUT : lost_by;
}

/* One that we have let go has ended: what it carried has no keeper. */
static void lose_let_go(void)
{
	if (!dlk_keeper_let_go_ended())
		return;
	DLK_GUARD(&dlk_holds_mutex);
	for (struct dlk_hold *h = dlk_holds_first(); h; h = h->next)
		if (h->keeper.carried && !h->keeper.number)
			undelegate(h, dlk_now_ns());
}

bool dlk_delegation_listen(void)
{
	struct dlk_keep_answer a;
	int n;

	lose_let_go();
	while ((n = dlk_keeper_hear(&a)) == 1)
		answered(&a);
	if (n < 0 || dlk_keeper_hangs()) {
		lose(n == 0);
		return false;
	}
	return true;
}

bool dlk_delegation_ask(struct dlk_hold *h, bool wait)
{
	int err = dlk_keeper_start(wait);
	const bool started = !err;

	if (started)
		err = tell_add(h);
	/* (What cannot be started is neither let go of nor lost: fanotify(7) and
	 * seccomp(2) may say EPERM, too.) */
	if (started && err == -EPERM)
		let_go();
	else if (started && err == -EPIPE)
		lose(false);
	else if (err && err != DLK_KEEPER_LATER)
		dlk_delegation_refused(h, err);
	return err != DLK_KEEPER_LATER;
}

/* --- what is renewed ------------------------------------------------------ */

/* (keeper_mutex) What it does not hear now it hears at the next renewal. */
static void tell_renewed(struct dlk_hold *const *all, unsigned n)
{
	union {
		struct dlk_keep_renewed m;
		char room[sizeof(struct dlk_keep_renewed) +
			  DLK_KEEP_RENEWALS * sizeof(struct dlk_keep_renewal)];
	} out = { .m.head.type = DLK_KEEP_RENEWED };
	unsigned said = 0;

	dlk_holds_lock();
	for (unsigned i = 0; i < n; i++) {
		struct dlk_hold *h = all[i];

		if (!dlk_schedule_is_news(h))
			continue;
		h->keeper.known_until_ns = h->valid.deadline_ns;
		out.m.renewals[said++] = (struct dlk_keep_renewal){
			.lease = h->keeper.number,
			.timed = dlk_backstop_is_armed(),
			.deadline_ns = h->valid.deadline_ns,
		};
	}
	dlk_holds_unlock();
	if (said)
		dlk_keeper_send(&out.m.head,
				sizeof(out.m) + said * sizeof(*out.m.renewals),
				NULL, 0);
}

void dlk_delegation_renewed(struct dlk_hold *const *all, unsigned n)
{
	DLK_GUARD(&dlk_keeper_mutex);
	/* There is room for the answers to come, and perhaps another keeper. */
	dlk_delegation_listen();
	for (unsigned i = 0; i < n; i += DLK_KEEP_RENEWALS)
		tell_renewed(all + i, n - i < DLK_KEEP_RENEWALS
					      ? n - i
					      : DLK_KEEP_RENEWALS);
}

uint64_t dlk_delegation_tick(void)
{
	DLK_GUARD(&dlk_keeper_mutex);
	dlk_delegation_listen();
	dlk_keeper_reap();
	return dlk_keeper_look_ns();
}

/* --- what becomes of a lease ---------------------------------------------- */

uint32_t dlk_take_from_keeper(struct dlk_hold *h)
{
	const uint32_t told = h->keeper.number;

	dlk_holds_check();
	h->keeper.number = 0;
	h->keeper.carried = false;
	return told;
}

/*
 * Its queue may be full, for it answers others before: then we wait, but not in
 * the thread, which must renew.  Who is not told sees the lock's end by itself.
 */
static bool say(struct dlk_keep *m, size_t size)
{
	int err = DLK_KEEPER_LATER;

	if (m->lease == 0)
		return false;
	DLK_GUARD(&dlk_keeper_mutex);
	while (err == DLK_KEEPER_LATER && dlk_delegation_listen() &&
	       !dlk_keeper_is_silent()) {
		err = dlk_keeper_send(m, size, NULL, 0);
		if (err != DLK_KEEPER_LATER || dlk_in_thread())
			break;
		dlk_keeper_wait(dlk_keeper_look_ns());
	}
	if (err == -EPERM)
		let_go();
	return err == 0;
}

bool dlk_delegation_tell(uint32_t told, uint32_t type)
{
	struct dlk_keep m = { .type = type, .lease = told };

	return say(&m, sizeof(m));
}

void dlk_delegation_ready(const struct dlk_hold *h)
{
	uint32_t told;

	dlk_holds_lock();
	told = h->keeper.number;
	dlk_holds_unlock();
	dlk_delegation_tell(told, DLK_KEEP_READY);
}

void dlk_delegation_cut(uint32_t told, uint32_t ttl_ms)
{
	struct dlk_keep_cut m = {
		.head = { .type = DLK_KEEP_CUT, .lease = told },
		.ttl_ms = ttl_ms,
	};

	say(&m.head, sizeof(m));
}

/* --- the process changes -------------------------------------------------- */

void dlk_delegation_stay(void)
{
	struct dlk_keep m = { .type = DLK_KEEP_STAY };
	bool sent = false;

	DLK_GUARD(&dlk_keeper_mutex);
	for (int deaths = 0; !sent && deaths < DLK_DEATHS; deaths++) {
		dlk_delegation_listen();
		if (dlk_keeper_start(true) < 0)
			break;
		sent = dlk_keeper_send(&m, sizeof(m), NULL, 0) == 0;
		while (sent && !dlk_keeper_is_silent() &&
		       dlk_keeper_look_ns() < UINT64_MAX) {
			dlk_keeper_wait(dlk_keeper_look_ns());
			sent = dlk_delegation_listen();
		}
	}
}

void dlk_delegation_dismiss(void)
{
	DLK_GUARD(&dlk_keeper_mutex);
	lose(false);
}

void dlk_delegation_privileges(bool other_namespace)
{
	DLK_GUARD(&dlk_keeper_mutex);
	/* What it has renewed during a long call is the last that we hear of it. */
	dlk_delegation_listen();
	if (dlk_keeper_is_there() && (other_namespace || dlk_keeper_may_more()))
		let_go();
}

/*
 * A child that is to be the keeper has all our descriptors until its exec(2):
 *
 *	we			our thread		the child
 *				a keeper is to start
 *							has the description
 *	close: the last one
 *	LOCK_NB by another: refused
 *							exec
 */
void dlk_delegation_closed(bool left)
{
	const uint64_t until = dlk_now_ns() + SETTLE_MS * DLK_MS;
	struct dlk_keep m = { .type = DLK_KEEP_CLOSED };
	unsigned lost_before;
	bool wait;

	DLK_GUARD(&dlk_keeper_mutex);
	while (dlk_keeper_is_starting() && dlk_now_ns() < until)
		dlk_keeper_wait(until);
	wait = left && dlk_keeper_is_there() && dlk_delegation_listen() &&
	       dlk_keeper_send(&m, sizeof(m), NULL, 0) == 0;
	lost_before = lost;
	/* (One that hangs is found out, and lost, maybe by another thread.) */
	while (wait && lost == lost_before && (int32_t)(settled - m.seq) < 0 &&
	       dlk_now_ns() < until) {
		const uint64_t look = dlk_keeper_look_ns();

		dlk_keeper_wait(look < until ? look : until);
		wait = dlk_delegation_listen();
	}
}
