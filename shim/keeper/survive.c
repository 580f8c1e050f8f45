/* SPDX-License-Identifier: MIT */
/*
 * A lease that is lost stops its holders before another host can have it
 * (DESIGN L6), as its rule's on_lost says: by its stop mark (model/timeline.h)
 * if it was not renewed, and at once if another's token was seen.
 *
 *	warn		stop			deadline
 *	|---------------|-----------------------|
 *	who has it,	who has it, what have	(nobody runs that has it)
 *	to know how	they started since, and
 *	long a look	heard of no renewal: kill
 *	takes		all of them
 *
 * "pause" stops them then (paused.c), and kills who is not renewed in time, or
 * whose lease is another's, or was.
 *
 *  1. No signal before the stop mark: a renewal may come until then.  A look
 *     that takes long begins earlier; and it ends before the timer of the
 *     process that took it, for with that one dead nobody finds who works for
 *     him.  The rest is looked for when those are dead who were seen by then.
 *  2. What the shim has said MUST be heard first: it renews as well.
 *  3. At a look, and while a lease is past its warning, it comes before all
 *     that have no real-time priority, where it may: beside two busy loops, on
 *     two cores, five keepers that looked at 500 processes were late by up to
 *     2 s, and replaced as hung amidst it [m].
 *  4. Whom it may not signal, and a process 1, which takes no signal from
 *     inside, is named in the log.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "keeper/keeper.h"
#include "keeper/list.h"
#include "os/log.h"
#include "os/precedence.h"
#include "os/sys.h"
#include "model/timeline.h"

enum { ROUNDS = 4, TURNS = 64, LATE_MS = 5, ROOM = 4 };

static uint64_t took_ns; /* by the last look at all processes */
/* When we were awake last, and how much too late that was. */
static uint64_t awake_ns, late_ns;
/* When the last timer of those who are stopped has come, of their own (L6). */
static uint64_t timers_ns;

/* --- which, and when ------------------------------------------------------ */

static bool is_robbed(const struct dlk_kept *k)
{
	return k->state == DLK_KEPT && k->robbed &&
	       k->holders != DLK_HOLDERS_KILLED &&
	       k->add.on_lost != DLK_LOST_REPORT;
}

/* Its holders are stopped: until when, at most? */
static uint64_t pause_end_ns(const struct dlk_kept *k)
{
	return k->state == DLK_KEPT && k->holders == DLK_HOLDERS_PAUSED
		       ? dlk_pause_end_ns(k->deadline_ns, k->lease.pause_ms)
		       : UINT64_MAX;
}

/* Its holders are to be killed, without a mark. */
static bool is_doomed(const struct dlk_kept *k)
{
	return is_robbed(k) || pause_end_ns(k) <= dlk_now_ns();
}

static bool is_to_pause(const struct dlk_kept *k)
{
	return k->add.on_lost == DLK_LOST_PAUSE && !is_doomed(k);
}

static uint64_t warn_ns(const struct dlk_kept *k)
{
	const uint32_t ttl_ms = k->lease.ttl_ms;

	return dlk_warn_ns(dlk_asked_ns(k->deadline_ns, ttl_ms), ttl_ms);
}

static uint64_t stop_ns(const struct dlk_kept *k)
{
	return dlk_stop_ns(k->deadline_ns, k->lease.ttl_ms);
}

/*
 * When its holders are looked for to learn how long that takes: at the warning,
 * or at once if the server was silent, for its next answer is waited for until
 * they are to be stopped.
 */
static uint64_t learn_ns(const struct dlk_kept *k)
{
	return k->section->store->silent ? 0 : warn_ns(k);
}

/*
 * A look lasts no longer: half way from the stop mark to the timer of the taker.  Those
 * who are seen by then are killed before he is, by that, and leaves whom nobody finds
 * without him.
 */
static uint64_t end_ns(const struct dlk_kept *k)
{
	const uint64_t stop = stop_ns(k);

	return stop +
	       (dlk_backstop_ns(k->deadline_ns, k->lease.ttl_ms) - stop) / 2;
}

/* When the look begins: it ends in time, and two of them fit into the margin. */
static uint64_t begin_ns(const struct dlk_kept *k)
{
	const uint64_t warn = warn_ns(k), stop = stop_ns(k);
	const uint64_t margin = dlk_margin_ns(k->lease.ttl_ms);
	const uint64_t first = took_ns + took_ns / 4, room = end_ns(k) - stop;
	uint64_t early = 2 * took_ns > margin ? 2 * took_ns - margin : 0;

	if (first > room && first - room > early)
		early = first - room;
	return stop < warn + early ? warn : stop - early;
}

static uint64_t next_ns(const struct dlk_kept *k)
{
	if (is_robbed(k))
		return 0;
	if (!dlk_carry_has_marks(k))
		return pause_end_ns(k);
	return k->looked_for_ns == k->deadline_ns ? begin_ns(k) : learn_ns(k);
}

/* The first of all: when something is to be done, and when one is overdue. */
static struct {
	uint64_t due_ns, overdue_ns;
	unsigned news;
} marks;

/*
 * Marks move on only, but for those of a new lease, so the first one that was
 * known is early enough: thousands are not looked at for each message.
 */
static void find_marks(uint64_t now)
{
	const struct dlk_kept *k;

	if (marks.news == dlk_carried_news && now < marks.due_ns &&
	    now < marks.overdue_ns)
		return;
	marks.news = dlk_carried_news;
	marks.due_ns = marks.overdue_ns = UINT64_MAX;
	LIST_FOREACH(k, &dlk_carried, next)
	{
		if (next_ns(k) < marks.due_ns)
			marks.due_ns = next_ns(k);
		if (dlk_carry_has_marks(k) && warn_ns(k) < marks.overdue_ns)
			marks.overdue_ns = warn_ns(k);
	}
}

uint64_t dlk_survive_due_ns(void)
{
	find_marks(dlk_now_ns());
	return marks.due_ns;
}

uint64_t dlk_survive_wakes_ns(void)
{
	const uint64_t now = dlk_now_ns();

	find_marks(now);
	return now < marks.overdue_ns && marks.overdue_ns < marks.due_ns
		       ? marks.overdue_ns
		       : marks.due_ns;
}

/* --- what is said --------------------------------------------------------- */

static bool was_signalled(const struct dlk_victim *v)
{
	return v->err == 0;
}

static bool could_not_be(const struct dlk_victim *v)
{
	return v->err != 0;
}

/* No server has refused it: so we had no core, or other things in hand. */
static void put_own_fault(struct dlk_text *t)
{
	dlk_text_str(t, "nobody did: dlock-keeper was woken ");
	dlk_text_i64(t, (int64_t)(late_ns / DLK_MS));
	dlk_text_str(t, " ms late, and that was ");
	dlk_text_i64(t, (int64_t)((dlk_now_ns() - awake_ns) / DLK_MS));
	dlk_text_str(t, " ms ago");
}

static void put_why(struct dlk_text *t, const struct dlk_kept *k)
{
	dlk_kept_put_unrenewed(t, k);
	dlk_text_str(t, " (");
	if (k->section->why[0])
		dlk_text_str(t, k->section->why);
	else
		put_own_fault(t);
	dlk_text_str(t, ")");
}

static void put_nobody(struct dlk_text *t)
{
	if (!dlk_victims_put_shut(
		    t, "; none of those whom dlock-keeper may look into has "
		       "its lock, and it may not look into these, of whom "
		       "who has it runs on: "))
		dlk_text_str(t, "; nobody is found who has its lock");
}

static void say(const struct dlk_kept *k, const struct dlk_victims *list)
{
	const bool paused = k->holders == DLK_HOLDERS_PAUSED;
	const bool pauses = list == &dlk_paused;
	struct dlk_line l;

	dlk_kept_line(&l, DLK_ERROR, k);
	if (k->robbed) {
		dlk_text_str(&l.text,
			     " is LOST: it is another's, or was meanwhile");
	} else {
		dlk_text_str(&l.text,
			     pauses ? " was not renewed for "
				    : " is LOST: it was not renewed for ");
		put_why(&l.text, k);
	}
	if (paused && !k->robbed)
		dlk_text_str(&l.text, ", which is more than pause_at_most");
	if (list->n == 0 && !list->err)
		put_nobody(&l.text);
	dlk_victims_put(&l.text, list, k, was_signalled,
			pauses ? ", so these who have its lock are stopped "
				 "until it is:"
			       : ", so these who have its lock are killed:");
	dlk_victims_put(
		&l.text, list, k, could_not_be,
		pauses ? "; these have its lock, CANNOT be stopped, and run on:"
		       : "; these have its lock, CANNOT be killed, and run "
			 "on:");
	if (list->err)
		dlk_text_strs(
			&l.text,
			list->n == 0
				? "; who has its lock could not be "
				  "looked for, and runs on: "
				: "; not all processes could be looked at, and "
				  "who else has it runs on: ",
			dlk_victims_why(list->err), NULL);
	dlk_line_alarm(&l);
}

/* --- what is done --------------------------------------------------------- */

static struct dlk_victims list;

static struct leases {
	struct dlk_kept **v;
	size_t n, room;
} due, beside;

static bool take(struct leases *l, struct dlk_kept *k)
{
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): of pointers */
	if (!dlk_grow(&l->v, &l->room, l->n, sizeof(*l->v)))
		return false;
	l->v[l->n++] = k;
	return true;
}

static void collect(uint64_t now, uint64_t (*when)(const struct dlk_kept *k))
{
	struct dlk_kept *k;

	due.n = 0;
	LIST_FOREACH(k, &dlk_carried, next)
	{
		if (!is_doomed(k) && (!dlk_carry_has_marks(k) || when(k) > now))
			continue;
		if (!take(&due, k))
			return;
		k->due_by_ns = k->deadline_ns;
	}
}

/* Without the others; is one left? */
static bool keep_those(bool (*is_one)(const struct dlk_kept *k))
{
	size_t n = 0;

	for (size_t i = 0; i < due.n; i++)
		if (is_one(due.v[i]))
			due.v[n++] = due.v[i];
	due.n = n;
	return n > 0;
}

/* It was not renewed, nor given back, since. */
static bool is_due_yet(const struct dlk_kept *k)
{
	return k->state == DLK_KEPT && k->deadline_ns == k->due_by_ns;
}

static bool are_due(void)
{
	dlk_carry_hear();
	return keep_those(is_due_yet);
}

static uint64_t mark_of(const struct dlk_kept *k)
{
	return is_doomed(k) ? 0 : stop_ns(k);
}

/*
 * The first ones, and those a moment later of which the same is to become; when
 * the last of them is due.
 */
static uint64_t take_first(void)
{
	uint64_t first = UINT64_MAX, last = 0;
	bool pauses = false;
	size_t n = 0;

	for (size_t i = 0; i < due.n; i++) {
		if (mark_of(due.v[i]) >= first)
			continue;
		first = mark_of(due.v[i]);
		pauses = is_to_pause(due.v[i]);
	}
	for (size_t i = 0; i < due.n; i++) {
		const uint32_t ttl_ms = due.v[i]->lease.ttl_ms;

		if (mark_of(due.v[i]) > first + dlk_margin_ns(ttl_ms) / 8 ||
		    is_to_pause(due.v[i]) != pauses)
			continue;
		if (mark_of(due.v[i]) > last)
			last = mark_of(due.v[i]);
		due.v[n++] = due.v[i];
	}
	due.n = n;
	return last;
}

/* So what is renewed is all of them, and no other look is needed for the rest. */
static bool are_at_one_server(void)
{
	for (size_t i = 1; i < due.n; i++)
		if (due.v[i]->section != due.v[0]->section)
			return false;
	return true;
}

/* (While somebody is paused a question has other looks, and the last one's lists are
 * those that are killed by.) */
static bool ask_server(uint64_t mark)
{
	if (dlk_paused.n || !are_at_one_server())
		return false;
	dlk_sections_until(mark);
	return dlk_carry_some(dlk_now_ns());
}

/*
 * Until the mark, if the look was quicker than the last one, or is to be followed by
 * another.  A server may be back by then, which is to be asked (but not while we have
 * found whom to pause, for whoever is in that list and runs is stopped at any look).
 * Where a part is renewed (a node of a cluster is back), the rest needs another look,
 * and the time for that is now.
 */
static bool wait_for(uint64_t mark, bool asks)
{
	const size_t had = due.n;
	uint64_t now;

	while (are_due() && (now = dlk_now_ns()) < mark) {
		if (asks && due.n < had)
			return false;
		if (!asks || !ask_server(mark))
			dlk_pause_ns(mark - now < 2 * DLK_MS ? mark - now
							     : 2 * DLK_MS);
	}
	return are_due();
}

static bool is_due(const struct dlk_kept *k)
{
	for (size_t i = 0; i < due.n; i++)
		if (due.v[i] == k)
			return true;
	return false;
}

static bool is_taker_of_due(pid_t pid)
{
	for (size_t i = 0; i < due.n; i++)
		if (pid == (pid_t)due.v[i]->add.pid)
			return true;
	return false;
}

/*
 * The other OFD locks of who is about to be killed: their own marks come when he is
 * dead.  (Both lists have the leases in the same order.)
 */
static void collect_beside(void)
{
	struct dlk_kept *k;
	size_t i = 0;
	pid_t taker;

	beside.n = 0;
	LIST_FOREACH(k, &dlk_carried, next)
	{
		if (i < due.n && due.v[i] == k) {
			i++;
			continue;
		}
		taker = dlk_victims_ofd_taker(k);
		if (taker && is_taker_of_due(taker) && !take(&beside, k))
			return;
	}
}

/* (Without its taker nobody tells whose an OFD lock is.) */
static bool has_ofd(void)
{
	for (size_t i = 0; i < due.n; i++)
		if (dlk_victims_ofd_taker(due.v[i]))
			return true;
	return false;
}

/* It would end him, whom nobody has killed yet, and leave whoever works for him. */
static bool has_timer(const struct dlk_kept *k)
{
	const pid_t pid = (pid_t)k->add.pid;

	return k->by == DLK_BY_PROCESS && !k->untimed && !is_doomed(k) &&
	       !is_to_pause(k) && dlk_shim_process_lives(pid) != 0 &&
	       !dlk_victims_has_let_go(&list, pid);
}

/*
 * The first end of all; 0: there is none, for who has no timer, or has lost it to
 * another, or is to be stopped, which puts that off.  A look that begins too late has
 * half of what is left.  And not where takers have OFD locks, for without them nobody
 * tells whose the others' are.
 */
static uint64_t look_end_ns(void)
{
	const uint64_t now = dlk_now_ns();
	uint64_t first = 0, end, timer;

	if (beside.n || has_ofd())
		return 0;
	for (size_t i = 0; i < due.n; i++) {
		end = end_ns(due.v[i]);
		timer = dlk_backstop_ns(due.v[i]->deadline_ns,
					due.v[i]->lease.ttl_ms);
		if (end <= now && now + LATE_MS * DLK_MS < timer)
			end = now + (timer - now) / 2;
		if (end > now && (!first || end < first) && has_timer(due.v[i]))
			first = end;
	}
	return first;
}

static void look_for_holders(struct dlk_victims *who)
{
	collect_beside();
	who->until_ns = who->heed_ns = look_end_ns();
	dlk_victims_find(who, due.v, due.n, beside.v, beside.n);
	if (!dlk_victims_were_cut() || who->took_ns > took_ns)
		took_ns = who->took_ns;
}

/*
 * Where descriptors are lacking, the watchdogs' victims give theirs up.  Who has been
 * seen is not looked for again: the look may have taken so long that a holder is dead
 * by now, of his own timer, and who works for him is not found without him.
 */
static void find(struct dlk_victims *who)
{
	look_for_holders(who);
	if (!who->err || who->err == ETIME)
		return;
	dlk_watchdog_yield();
	if (dlk_victims_lacked_nothing())
		dlk_victims_find_rest(who);
	else
		look_for_holders(who);
}

/* Else our thread, which waits in the kernel for its end, has been woken. */
static bool is_not_ending(const struct dlk_kept *k)
{
	return k->add.kind != DLK_KEPT_FLOCK || k->shadow ||
	       !k->watch->has_thread || dlk_watch_is_blocked(k->watch) != 0;
}

/* What has ended by now, and we had no core to see it, is not lost. */
static bool are_there(void)
{
	for (size_t i = 0; i < due.n; i++) {
		due.v[i]->failing = true;
		dlk_watch_stir(due.v[i]->watch);
	}
	dlk_look();
	are_due();
	return keep_those(is_not_ending);
}

/* Who has it no more is taken out; and who has come from them comes in. */
static void look_again(void)
{
	const int lacked = list.err;

	dlk_victims_refresh(&list, due.v, due.n);
	list.err = list.err ?: lacked;
}

static bool are_of_due(void)
{
	for (size_t i = 0; i < list.n; i++)
		if (!is_due(list.v[i].k))
			return false;
	return true;
}

/*
 * Those who are it by the mark.  Who was found for a lease that has been given
 * back meanwhile may have the lock of another one, too: then all are looked for
 * anew.  (A program that gives back one after the other does not put that off
 * for ever: its own timer ends it.)  *looked: by the look ahead they are in the list,
 * and may come from that afterwards.
 */
static bool find_holders(uint64_t mark, bool *looked)
{
	if (*looked && !are_of_due()) {
		dlk_victims_free(&list, 0);
		*looked = false;
	}
	if (!*looked || has_ofd()) {
		find(&list);
		*looked = false;
	}
	/* (A look that was cut, or is old.  An end that has come is none any more.) */
	for (; !list.n && (*looked || list.err == ETIME); *looked = false)
		find(&list);
	if (!wait_for(mark, true))
		return false;
	if (*looked)
		look_again();
	return (!dlk_victims_are_guessed(&list, 0) || are_there()) &&
	       are_of_due();
}

/* Those who came since the last look; then those who came since the kill. */
static void kill_all(void)
{
	for (int round = 0; round < ROUNDS; round++)
		if (!dlk_victims_find_children(&list))
			break;
	for (int round = 0; round < ROUNDS; round++) {
		const size_t had = list.n;

		dlk_victims_signal(&list, 0, SIGKILL);
		dlk_victims_find_orphans(&list);
		if (list.n == had)
			break;
	}
}

/* Nobody is found: their locks have ended perhaps. */
static bool have_ended(void)
{
	return !list.n && !list.err && !are_there();
}

static void say_all(void)
{
	for (size_t i = 0; i < due.n; i++)
		say(due.v[i], &list);
}

/*
 * In turns, where they are more than we may have descriptors.  Who was killed stays
 * in the list, without one: he may get no core to die by for long, and is not to
 * be found again in place of somebody else.  Nor is a look made while one has found
 * more than are killed: by whom they work nobody would see in it.
 */
static void kill_found(bool is_old)
{
	kill_all();
	for (int turn = 1; turn < TURNS && (list.err || is_old) && list.n;
	     turn++) {
		const size_t had = list.n;

		dlk_victims_let_go(&list);
		if (!dlk_victims_find_rest(&list)) {
			find(&list);
			is_old = false;
		}
		kill_all();
		if (list.err && list.n == had)
			dlk_pause_ns(LATE_MS * DLK_MS);
	}
	say_all();
}

static void kill_holders(uint64_t mark, bool looked)
{
	if (find_holders(mark, &looked) && !have_ended()) {
		kill_found(looked);
		for (size_t i = 0; i < due.n; i++) {
			/* Those, too, whose taker is dead by now. */
			if (due.v[i]->holders == DLK_HOLDERS_PAUSED)
				dlk_paused_kill();
			dlk_carry_holders(due.v[i], DLK_HOLDERS_KILLED);
			dlk_losses_note(due.v[i]);
			dlk_watch_stir(due.v[i]->watch);
		}
	}
	dlk_victims_free(&list, 0);
}

/* He took one of them himself: its first backstop mark; or UINT64_MAX. */
static uint64_t backstop_of(pid_t pid)
{
	uint64_t first = UINT64_MAX, mark;

	for (size_t i = 0; i < due.n; i++) {
		mark = dlk_backstop_ns(due.v[i]->deadline_ns,
				       due.v[i]->lease.ttl_ms);
		if (pid == (pid_t)due.v[i]->add.pid && mark < first)
			first = mark;
	}
	return first;
}

/* Its timers stand back (L6), of all of them: by what it has said, or before it
 * was stopped for another one. */
static bool is_ready(size_t had)
{
	for (size_t i = 0; i < due.n; i++)
		if (due.v[i]->ready ||
		    dlk_victims_has(&dlk_paused, had, (pid_t)due.v[i]->add.pid))
			return true;
	return false;
}

/* The process itself is stopped by its own timer, if we are late. */
static void forgive_late(struct dlk_victim *v, uint64_t looked_ns)
{
	if (looked_ns >= backstop_of(v->pid))
		v->was_stopped = false;
}

/*
 * Whom somebody else had stopped before he could say READY, that one would
 * continue him beside the next owner.
 */
static void kill_unready(struct dlk_victim *v)
{
	if (v->was_stopped && backstop_of(v->pid) != UINT64_MAX)
		dlk_paused_kill_one(v, " was stopped by somebody else before");
}

/*
 * Its process says READY, or dies of its timers: for who is stopped by somebody
 * else by then is not stopped by us, and would be continued by him.  One that
 * knows no deadline, or is no process of the shim's, says nothing.
 */
static bool wait_for_ready(uint64_t mark, size_t had)
{
	const uint64_t margin = dlk_margin_ns(due.v[0]->lease.ttl_ms);
	const uint64_t until = mark + margin * 3 / 8;

	while (are_due() && dlk_shim_lives() && !is_ready(had) &&
	       dlk_now_ns() < until)
		dlk_pause_ns(DLK_MS / 2);
	return are_due();
}

static void expect_timer(const struct dlk_kept *k, uint64_t deadline_ns)
{
	const uint64_t timer = dlk_backstop_ns(deadline_ns, k->lease.ttl_ms);

	if (timer > timers_ns)
		timers_ns = timer;
}

/*
 * Those who are stopped already, for another lease, stay as they are.  Who was
 * found for a lease that is given back meanwhile is stopped all the same, and
 * goes on with the others.  Where not all can be found, for lack of descriptors
 * (who is stopped has two), they are killed, which needs fewer: in turns.
 */
static void pause_holders(uint64_t mark)
{
	const size_t had = dlk_paused.n;
	uint64_t looked;
	bool ready;

	find(&dlk_paused);
	looked = dlk_now_ns();
	if (dlk_paused.err) {
		dlk_victims_free(&dlk_paused, had);
		kill_holders(mark, false);
		return;
	}
	if (!wait_for(mark, false) || !wait_for_ready(mark, had) ||
	    (dlk_victims_are_guessed(&dlk_paused, had) && !are_there())) {
		dlk_victims_free(&dlk_paused, had);
		return;
	}
	ready = is_ready(had);
	for (size_t i = had; i < dlk_paused.n; i++)
		forgive_late(&dlk_paused.v[i], looked);
	dlk_paused_stop(had);
	for (size_t i = had; !ready && i < dlk_paused.n; i++)
		kill_unready(&dlk_paused.v[i]);
	for (size_t i = 0; i < due.n; i++) {
		expect_timer(due.v[i], due.v[i]->due_by_ns);
		say(due.v[i], &dlk_paused);
		dlk_carry_holders(due.v[i], DLK_HOLDERS_PAUSED);
	}
	for (size_t i = had; i < dlk_paused.n; i++)
		dlk_paused.v[i].k = NULL;
	/* Their last mark is near: from here on it is none. */
	dlk_watchdog(dlk_now_ns());
}

/* `looked`: by the look ahead, for these and perhaps for others. */
static void stop(bool looked)
{
	const uint64_t mark = take_first();

	if (!is_to_pause(due.v[0])) {
		kill_holders(mark, looked);
		return;
	}
	dlk_victims_free(&list, 0); /* their descriptors are needed */
	pause_holders(mark);
}

static void say_go_on(void)
{
	struct dlk_line l;

	dlk_line_begin(&l, DLK_WARNING);
	dlk_text_str(&l.text, "who was stopped goes on (");
	dlk_text_i64(&l.text, (int64_t)dlk_paused.n);
	dlk_text_str(&l.text,
		     "): what they hold is renewed, or given back, and "
		     "nobody was granted it meanwhile");
	dlk_line_end(&l);
}

void dlk_survive_go_on(void)
{
	const struct dlk_kept *k;

	if (!dlk_paused.n)
		return;
	LIST_FOREACH(k, &dlk_carried, next)
	if (k->holders == DLK_HOLDERS_PAUSED && k->state == DLK_KEPT)
		return;
	/* Before, their own timers stop them, and nobody lets them go on. */
	if (dlk_now_ns() < timers_ns + LATE_MS * DLK_MS)
		return;
	/* First what makes who is continued go on, then that. */
	dlk_carry_tell_held();
	dlk_mirror_flush();
	say_go_on();
	dlk_paused_go_on();
}

static bool has_begun(const struct dlk_kept *k)
{
	return is_doomed(k) ||
	       (dlk_carry_has_marks(k) && begin_ns(k) <= dlk_now_ns());
}

/* A server may be back, whom nobody has asked amidst the look. */
static void ask_once(void)
{
	const uint64_t now = dlk_now_ns();

	if (dlk_paused.n || list.err == ETIME)
		return;
	dlk_sections_until(now);
	dlk_carry_some(now);
}

/* So many as leave what a connection needs, for a server that is back: the others are
 * found when those are dead.  (0 would be any number.) */
static size_t to_be_kept(void)
{
	const size_t left = dlk_descriptors_left();
	const size_t needed =
		ROOM + (due.n ? dlk_section_descriptors(due.v[0]->section) : 0);

	return left > needed ? left - needed : 1;
}

/*
 * To know how long a look takes, while there is time.  Where there is none for another
 * one, it counts: they are left in the list, and what is due by now.
 */
static void look_ahead(uint64_t now)
{
	collect(now, learn_ns);
	list.most = to_be_kept();
	look_for_holders(&list);
	list.most = 0;
	for (size_t i = 0; i < due.n; i++)
		due.v[i]->looked_for_ns = due.v[i]->due_by_ns;
	if (keep_those(has_begun))
		ask_once();
	else
		dlk_victims_free(&list, 0);
}

static bool is_look_due(uint64_t now)
{
	const struct dlk_kept *k;

	LIST_FOREACH(k, &dlk_carried, next)
	if (dlk_carry_has_marks(k) && k->looked_for_ns != k->deadline_ns &&
	    learn_ns(k) <= now)
		return true;
	return false;
}

/* (They were stopped at some mark that has passed, for a lease that may have been
 * renewed since.) */
void dlk_survive_wake(void)
{
	const uint64_t now = dlk_now_ns();
	const struct dlk_kept *k;

	LIST_FOREACH(k, &dlk_carried, next)
	if (k->holders == DLK_HOLDERS_PAUSED)
		expect_timer(k,
			     k->deadline_ns -
				     (stop_ns(k) > now ? stop_ns(k) - now : 0));
}

void dlk_survive_awake(uint64_t until_ns)
{
	awake_ns = dlk_now_ns();
	late_ns = awake_ns > until_ns ? awake_ns - until_ns : 0;
}

void dlk_survive(uint64_t now_ns)
{
	find_marks(now_ns);
	if (now_ns >= marks.due_ns || now_ns >= marks.overdue_ns)
		dlk_come_first();
	else
		dlk_step_back();
	if (now_ns < marks.due_ns)
		return;
	dlk_carry_hear();
	dlk_watchdog_mark();
	collect(now_ns, begin_ns);
	if (due.n) {
		stop(false);
		return;
	}
	if (is_look_due(now_ns))
		look_ahead(now_ns);
	if (due.n && are_due())
		stop(true);
	dlk_victims_free(&list, 0);
}
