/* SPDX-License-Identifier: MIT */
/*
 * The redis sections, as START has told of them: each is a store, with the
 * leases that are due there.
 */
#include <stdlib.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "lease/store.h"
#include "model/timeline.h"
#include "os/sys.h"

/* A connection looks at the time so often; and a question has this time, though
 * a mark has come. */
enum { SLICE_MS = 20, LEAST_MS = 10 };

static struct dlk_redis *redis;
static struct dlk_section *sections; /* as many */
static unsigned n_sections;
static bool (*interrupt)(void *arg);
static uint64_t mark = UINT64_MAX;

/* As the configuration has them; the servers of one stand together. */
static bool read_sections(const struct dlk_keep_server *from, unsigned n)
{
	struct dlk_endpoint *ep = dlk_undumped((n + 1) * sizeof(*ep));

	redis = calloc(n_sections + 1, sizeof(*redis));
	sections = calloc(n_sections + 1, sizeof(*sections));
	if (!ep || !redis || !sections)
		return false;
	for (unsigned i = 0; i < n; i++) {
		struct dlk_redis *of = &redis[from[i].section];

		ep[i] = from[i].ep;
		if (!of->endpoints)
			of->endpoints = &ep[i];
		/* (Behind a master there are its Sentinels.) */
		of->n_endpoints +=
			!of->endpoints->n_sentinels || of->endpoints == &ep[i];
		of->mode = (enum dlk_mode)from[i].mode;
		of->name = "";
	}
	return true;
}

/* One after the other, from 0 on. */
static bool are_in_order(const struct dlk_keep_server *servers, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const unsigned section = servers[i].section;

		if (section != n_sections && section + 1 != n_sections)
			return false;
		n_sections = section + 1;
	}
	return true;
}

bool dlk_sections_begin(const struct dlk_keep_server *servers, unsigned n,
			bool (*interrupt_fn)(void *arg),
			void (*restarted)(const struct dlk_store *s))
{
	if (!are_in_order(servers, n) || !read_sections(servers, n) ||
	    dlk_stores_begin(redis, n_sections, restarted) < 0)
		return false;
	interrupt = interrupt_fn;
	for (unsigned i = 0; i < n_sections; i++) {
		sections[i].number = i;
		sections[i].store = dlk_store_of(&redis[i]);
	}
	return true;
}

struct dlk_section *dlk_section(unsigned i)
{
	return i < n_sections ? &sections[i] : NULL;
}

/* Those of a helper (redis/tls.h) have another end until it has that, and one is to
 * itself. */
unsigned dlk_section_descriptors(const struct dlk_section *s)
{
	const struct dlk_redis *r = &redis[s->number];

	return r->n_endpoints + r->endpoints->n_sentinels +
	       2 * (r->endpoints->scheme == DLK_TLS ||
		    r->endpoints->password_file[0] != '\0');
}

void dlk_sections_until(uint64_t mark_ns)
{
	mark = mark_ns;
}

static uint64_t left_ns(uint64_t until_ns, uint64_t now)
{
	return until_ns > now + LEAST_MS * DLK_MS ? until_ns - now
						  : LEAST_MS * DLK_MS;
}

/* Half of what is left, for each question is asked twice. */
struct dlk_attempt dlk_section_attempt(const struct dlk_section *s)
{
	const uint64_t left = left_ns(mark, dlk_now_ns());
	uint64_t ns = s->store->connect_timeout_ms * DLK_MS;

	if (left / 2 < ns)
		ns = left / 2;
	return (struct dlk_attempt){
		.timeout_ns = ns,
		.interrupt = interrupt,
	};
}

uint64_t dlk_sections_due_ns(const struct dlk_section *but)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < n_sections; i++)
		if (&sections[i] != but &&
		    dlk_dues_ns(&sections[i].due) < first)
			first = dlk_dues_ns(&sections[i].due);
	return first;
}

void dlk_kept_line(struct dlk_line *l, enum dlk_level level,
		   const struct dlk_kept *k)
{
	dlk_line_begin(l, level);
	dlk_text_str(&l->text, "the lease ");
	dlk_text_quoted(&l->text, k->lease.key, k->lease.key_len);
	dlk_text_strs(&l->text, " at redis ", k->section->store->at, NULL);
}

/*
 * For a server that was silent all the time that is left, but for what the
 * leases of others need.
 */
struct dlk_attempt dlk_section_renewal(const struct dlk_section *s)
{
	struct dlk_attempt at = dlk_section_attempt(s);
	const uint64_t now = dlk_now_ns(), other = dlk_sections_due_ns(s);
	uint64_t until = now + dlk_store_patience_ms(s->store) * DLK_MS;

	if (mark < until + SLICE_MS * DLK_MS)
		until = now + left_ns(mark < SLICE_MS * DLK_MS
					      ? 0
					      : mark - SLICE_MS * DLK_MS,
				      now);
	if (other < until)
		until = other;
	if (s->store->silent && until > now + at.timeout_ns) {
		at.timeout_ns = until - now;
		at.until_ns = until;
	}
	return at;
}
