/* SPDX-License-Identifier: MIT */
/* A queue, entry by entry; see scan_queue.h. */
#include "tools/scan_queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease/ranges.h"
#include "lease/waits.h"
#include "model/text.h"
#include "tools/common.h"

/* Of so many waiters it is asked since when; a question each. */
enum { TOLD_MAX = 256 };

/* The words of an entry: EXPIRY LIFE CHANNEL WHAT CLAIM. */
struct entry {
	uint64_t expiry, life;
	const char *channel, *what, *claim;
	size_t channel_len, what_len, claim_len;
};

static const char *word(const char *text, const char *end, const char **out,
			size_t *len)
{
	const char *blank = memchr(text, ' ', (size_t)(end - text));

	if (!blank || blank == text)
		return NULL;
	*out = text;
	*len = (size_t)(blank - text);
	return blank + 1;
}

static bool read_entry(struct scan_text value, struct entry *e)
{
	const char *end = value.bytes + value.len;
	const char *p = dlk_number(value.bytes, 10, &e->expiry);

	p = p && *p == ' ' ? dlk_number(p + 1, 10, &e->life) : NULL;
	p = p && *p == ' ' ? word(p + 1, end, &e->channel, &e->channel_len)
			   : NULL;
	p = p ? word(p, end, &e->what, &e->what_len) : NULL;
	e->claim = p;
	e->claim_len = p ? (size_t)(end - p) : 0;
	return p && e->expiry <= INT64_MAX && e->life <= e->expiry;
}

static bool is(const char *text, size_t len, const char *literal)
{
	return len == strlen(literal) && !memcmp(text, literal, len);
}

/* What it waits for; false if that is nothing that we know. */
static bool read_what(const struct scan_queue *q, const struct entry *e,
		      struct scan_waiter *w)
{
	w->away = is(e->what, e->what_len, "away");
	w->shared = is(e->what, e->what_len, "SH");
	if (w->away)
		return true;
	if (!q->record)
		return w->shared || is(e->what, e->what_len, "EX");
	if (e->what_len != DLK_WHAT_LEN)
		return false;
	return dlk_range_read(e->what[0], e->what + 1, &w->range);
}

bool scan_queue_add(void *queue, int64_t now_ms, struct scan_text field,
		    struct scan_text value)
{
	struct scan_queue *q = queue;
	struct scan_waiter w = { .since_ms = -1 };
	struct entry e = { 0 };

	if (is(field.bytes, field.len, "head") ||
	    is(field.bytes, field.len, "tail"))
		return true;
	if (q->read == SCAN_QUEUE_MAX)
		return false;
	q->read++;
	w.ticket = scan_number(field.bytes);
	if (w.ticket < 0 || !read_entry(value, &e) || !read_what(q, &e, &w) ||
	    !dlk_token_parse(e.claim, e.claim_len, &w.token)) {
		q->cut = true;
		return true;
	}
	if ((int64_t)e.expiry <= now_ms)
		return true;
	w.heard_ms = now_ms - (int64_t)(e.expiry - e.life);
	w.polls = is(e.channel, e.channel_len, "-");
	q->waiters = tool_grow(q->waiters, q->n, &q->room, sizeof(w));
	q->waiters[q->n++] = w;
	return true;
}

static int by_ticket(const void *a, const void *b)
{
	const struct scan_waiter *x = a, *y = b;

	return (x->ticket > y->ticket) - (x->ticket < y->ticket);
}

/* HSCAN may name one twice. */
static void sort(struct scan_queue *q)
{
	size_t kept = 0;

	if (q->n)
		qsort(q->waiters, q->n, sizeof(*q->waiters), by_ticket);
	for (size_t i = 0; i < q->n; i++)
		if (!kept ||
		    q->waiters[kept - 1].ticket != q->waiters[i].ticket)
			q->waiters[kept++] = q->waiters[i];
	q->n = kept;
}

/* --- since when ----------------------------------------------------------- */

/* Does this wait, which its process told of, stand for the entry? */
static bool same_wait(const struct scan_waiter *w, const struct dlk_wait *wait,
		      const char *key)
{
	return is(wait->key, wait->key_len, key) &&
	       wait->range.start == w->range.start &&
	       wait->range.end == w->range.end &&
	       wait->range.type == w->range.type;
}

/*
 * Its number is the moment at which it began, by the server's clock.  Whatever
 * fails here, it is not known.
 */
static void read_since(struct dlk_conn *c, struct scan_waiter *w,
		       const char *key)
{
	static struct dlk_wait wait;
	char process[DLK_PROCESS_LEN + 1];
	int err = 1;

	snprintf(process, sizeof(process), "%.*s", DLK_PROCESS_LEN,
		 w->token.random);
	for (unsigned n = 0; err > 0 && w->since_ms < 0; n++) {
		uint64_t deadline = tool_deadline(c->ep);

		err = dlk_conn_open(c, deadline);
		if (!err)
			err = dlk_wait_read(c, deadline, process, n, &wait);
		if (err > 0 && same_wait(w, &wait, key) && wait.told >= wait.id)
			w->since_ms = (int64_t)(wait.told - wait.id) / 1000;
		dlk_conn_reset(c);
	}
}

void scan_queue_since(struct dlk_conn *c, const char *key, struct scan_queue *q)
{
	for (size_t i = 0; i < q->n && i < TOLD_MAX && q->record; i++)
		read_since(c, &q->waiters[i], key);
}

int scan_queue(struct dlk_conn *c, const char *key, size_t len,
	       struct scan_queue *q)
{
	char name[DLK_KEY_MAX + sizeof("{%rec}%q")] = "{";
	struct scan_hash hash = { c, name, len + strlen("{}%q"), scan_queue_add,
				  q, "" };
	int err;

	memcpy(name + 1, key, len);
	strcpy(name + 1 + len, "}%q");
	err = scan_hash(&hash);
	sort(q);
	q->cut = q->cut || err == -E2BIG;
	return err == -E2BIG || err > 0 ? 0 : err;
}

void scan_queue_free(struct scan_queue *q)
{
	free(q->waiters);
	*q = (struct scan_queue){ 0 };
}
