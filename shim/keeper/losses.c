/* SPDX-License-Identifier: MIT */
/*
 * What was lost is told to the server as well, for dlockctl history; mostly it
 * was lost because the server could not be reached, and so it is told later.
 *
 *  1. It delays nothing: a connection is made for it when nothing is carried,
 *     and else only used if it is there.
 *  2. It is tried for TRIED_MS, beyond the last lease and the process; what is
 *     not written by then is in the log only.
 *  3. One server that is away keeps no other's back, and is asked once each
 *     RETRY_MS for all of its losses: for another one each time, for of a
 *     cluster it is a node that is away.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "keeper/keeper.h"
#include "model/timeline.h"
#include "os/log.h"
#include "os/sys.h"

enum { TRIED_MS = 600000, RETRY_MS = 1000, MOST = 64 };

struct loss {
	STAILQ_ENTRY(loss) next;
	const struct dlk_section *section;
	uint64_t lasted_ms, until_ns, due_ns;
	struct dlk_lease lease;
	char bytes[]; /* of its key and token */
};

static STAILQ_HEAD(, loss) losses = STAILQ_HEAD_INITIALIZER(losses);
static unsigned n_losses;

static uint64_t lasted_ms(const struct dlk_kept *k, uint64_t now)
{
	struct dlk_token token;

	return dlk_token_parse(k->lease.token, k->lease.token_len, &token) &&
			       token.since_ns < now
		       ? (now - token.since_ns) / DLK_MS
		       : 0;
}

void dlk_losses_note(const struct dlk_kept *k)
{
	const size_t size = k->lease.key_len + k->lease.token_len + 2;
	const uint64_t now = dlk_now_ns();
	struct loss *l;

	if (!k->section->store->ops->record_loss || n_losses == MOST ||
	    !(l = calloc(1, sizeof(*l) + size)))
		return;
	memcpy(l->bytes, k->lease.key, k->lease.key_len);
	memcpy(l->bytes + k->lease.key_len + 1, k->lease.token,
	       k->lease.token_len);
	l->section = k->section;
	l->lasted_ms = lasted_ms(k, now);
	l->until_ns = now + TRIED_MS * DLK_MS;
	l->due_ns = now;
	l->lease = k->lease;
	l->lease.key = l->bytes;
	l->lease.token = l->bytes + k->lease.key_len + 1;
	STAILQ_INSERT_TAIL(&losses, l, next);
	n_losses++;
}

static void say(const struct loss *l, const char *why)
{
	struct dlk_line line;

	dlk_line_begin(&line, DLK_WARNING);
	dlk_text_str(&line.text, "the loss of ");
	dlk_text_quoted(&line.text, l->lease.key, l->lease.key_len);
	dlk_text_strs(&line.text, " is not in its history at redis ",
		      l->section->store->at, ": ", why, NULL);
	dlk_line_end(&line);
}

/* True: it is not to be told again. */
static bool record(const struct loss *l, uint64_t now, bool idle)
{
	struct dlk_store *s = l->section->store;
	struct dlk_attempt at = dlk_section_attempt(l->section);
	int err = -EAGAIN;

	if (idle || dlk_store_is_connected(s, &l->lease))
		err = s->ops->record_loss(s, &at, &l->lease, l->lasted_ms);
	if (err && err != -EACCES && err != -EREMOTEIO && now < l->until_ns)
		return false;
	if (err)
		say(l, at.why[0] ? at.why : "its server did not answer");
	return true;
}

static struct loss *first_due(void)
{
	struct loss *l, *first = STAILQ_FIRST(&losses);

	STAILQ_FOREACH(l, &losses, next)
	if (l->due_ns < first->due_ns)
		first = l;
	return first;
}

static void put_off(struct loss *last)
{
	const uint64_t at_ns = dlk_now_ns() + RETRY_MS * DLK_MS;
	struct loss *l;

	STAILQ_INSERT_TAIL(&losses, last, next);
	STAILQ_FOREACH(l, &losses, next)
	if (l->section == last->section)
		l->due_ns = at_ns;
}

void dlk_losses_record(uint64_t now_ns, bool idle)
{
	struct loss *l;

	while ((l = first_due()) && l->due_ns <= now_ns) {
		STAILQ_REMOVE(&losses, l, loss, next);
		if (!record(l, now_ns, idle)) {
			put_off(l);
			continue;
		}
		n_losses--;
		free(l);
	}
}

uint64_t dlk_losses_due_ns(void)
{
	const struct loss *first = first_due();

	return first ? first->due_ns : UINT64_MAX;
}
