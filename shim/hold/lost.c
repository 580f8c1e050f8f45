/* SPDX-License-Identifier: MIT */
/*
 * A lease that could not be renewed, or is another's; see lost.h.
 *
 * The judgement is verdict.c's; what is done is the rule's:
 *
 *	on_lost		at the warning	at the last mark	another's
 *	kill		SIGTERM		SIGKILL (the stop)	SIGKILL
 *	pause		a line		(the keeper's to do)	SIGKILL
 *	hold		a line		a line (the deadline)	SIGKILL
 *	report		a line		a line (the deadline)	a line
 *
 * What is said comes first, for nobody says it afterwards.
 */
#include "hold/lost.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "os/log.h"
#include "os/proc.h"
#include "os/signals.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/backstop.h"
#include "hold/holds.h"

/* SIGTERM was sent, for what has not been renewed since. */
static _Atomic bool asked_to_end;

static bool stops(const struct dlk_rule *rule)
{
	return rule->on_lost != DLK_LOST_REPORT;
}

/* --- what is said --------------------------------------------------------- */

/* '1.234s' */
static void put_seconds(struct dlk_text *t, uint64_t ns)
{
	dlk_text_u64(t, ns / (1000 * DLK_MS), 0);
	dlk_text_str(t, ".");
	dlk_text_u64(t, ns / DLK_MS % 1000, 3);
	dlk_text_str(t, "s");
}

/* Of a key that does not tell it; one at a time, as it is long. */
static void put_path(struct dlk_text *t, const struct dlk_hold *h)
{
	static _Atomic bool busy;
	static char path[DLK_PATH_MAX];
	ssize_t n = -1;

	if (h->rule->tells_path || atomic_exchange(&busy, true))
		return;
	if (dlk_kernel_is_file(h->fd, &h->file))
		n = dlk_kernel_path(dlk_hold_program_fd(h), path, sizeof(path));
	if (n > 0) {
		dlk_text_str(t, " of ");
		dlk_text_quoted(t, path, (size_t)n);
	}
	atomic_store(&busy, false);
}

/* 'the lease "KEY" of "PATH" at redis NAME' what why '; not renewed for 2s' */
static void begin(struct dlk_line *l, enum dlk_level level,
		  const struct dlk_hold *h, const char *what, const char *why)
{
	dlk_line_begin(l, level);
	dlk_text_str(&l->text, "the lease ");
	dlk_text_quoted(&l->text, h->lease.key, h->lease.key_len);
	put_path(&l->text, h);
	dlk_text_strs(&l->text, " at redis ", dlk_store_of(h->rule->redis)->at,
		      what, why, "; not renewed for ", NULL);
	put_seconds(&l->text, dlk_now_ns() - dlk_hold_asked_ns(h));
}

/* before 'process 4711 (flock)' after */
static void put_process(struct dlk_text *t, const char *before,
			const char *after)
{
	dlk_text_strs(t, before, "process ", NULL);
	dlk_text_i64(t, dlk_pid());
	if (program_invocation_short_name)
		dlk_text_strs(t, " (", program_invocation_short_name, ")",
			      NULL);
	dlk_text_str(t, after);
}

/* --- what is done --------------------------------------------------------- */

/*
 * Whoever asks to be told has time to end in order; who does not would be ended
 * by it, and goes on until the stop: the lease may be renewed yet.
 */
static bool ask_to_end(void)
{
	if (!dlk_has_handler(SIGTERM) || atomic_exchange(&asked_to_end, true))
		return false;
	dlk_syscall(SYS_kill, dlk_pid(), SIGTERM);
	return true;
}

void dlk_hold_warn(struct dlk_hold *h, const char *why)
{
	const bool pauses = dlk_hold_pauses(h);
	const uint64_t stop =
		pauses ? dlk_hold_stop_ns(h) : dlk_hold_final_ns(h);
	const bool kills = h->rule->on_lost == DLK_LOST_KILL;
	struct dlk_line l;

	begin(&l, DLK_WARNING, h, " could not be renewed for long: ", why);
	if (kills && ask_to_end())
		dlk_text_str(&l.text, "; SIGTERM was sent");
	if (dlk_lost_stops(h->rule->on_lost)) {
		put_process(&l.text, "; unless it is, ",
			    pauses ? " is stopped until it can be, in "
				   : " is killed in ");
		put_seconds(&l.text, dlk_left_ns(stop));
	}
	dlk_line_end(&l);
}

void dlk_hold_recovered(const struct dlk_hold *h)
{
	struct dlk_line l;

	atomic_store(&asked_to_end, false);
	begin(&l, DLK_INFO, h, " is renewed again", "");
	dlk_line_end(&l);
}

void dlk_hold_outlived(const struct dlk_hold *h, const char *why)
{
	struct dlk_line l;

	begin(&l, DLK_ERROR, h,
	      " has run out, and may be granted to others: ", why);
	put_process(&l.text, "; ", " goes on (on_lost = \"hold\")");
	dlk_line_alarm(&l);
}

void dlk_hold_lost(struct dlk_hold *h, const char *why)
{
	const bool kills = stops(h->rule);
	struct dlk_line l;
	bool lost;

	dlk_holds_lock();
	lost = kills ? dlk_hold_is_held(h) : h->state == HOLD_HELD;
	if (lost && !kills)
		dlk_hold_drop(h);
	dlk_holds_unlock();
	if (!lost)
		return;
	begin(&l, DLK_ERROR, h, " is LOST: ", why);
	if (kills) {
		put_process(&l.text, "; ", " is killed");
		dlk_line_alarm(&l);
		dlk_backstop_kill();
	}
	dlk_text_str(&l.text, "; stop this program");
	dlk_line_end(&l);
}

void dlk_lost_before_exec(const struct dlk_rule *rule)
{
	struct dlk_line l;

	if (!stops(rule))
		return;
	dlk_line_begin(&l, DLK_ERROR);
	put_process(&l.text, "what its program before execve(2) held is LOST; ",
		    " is killed");
	dlk_line_alarm(&l);
	dlk_backstop_kill();
}
