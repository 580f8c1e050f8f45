/* SPDX-License-Identifier: MIT */
/*
 * Leases of a quorum: renewed, put back, released.
 *
 *  1. Renewed is what a majority has renewed, and counts from before the first
 *     was asked.  Lost is what no majority can have any more, by what the
 *     masters say; as long as too few say anything it may be there yet.
 *  2. While a majority stands, a master that has lost the lease (it was away,
 *     or restarted) gets it again: nobody else can have it [PUT BACK].
 *
 *	holder		M1	M2	M3
 *	acquire		yes	yes	(away)
 *	renew ->	yes	yes	none
 *	put back ->			yes
 *			(dies)
 *	renew ->		yes	yes
 *
 *  3. Of an owner of records each says the number of its last request, how many
 *     ranges it has, and a digest of them.  What a majority says alike is right,
 *     and who has another list was away meanwhile: he gets that one, by its
 *     number.  (The number alone does not tell: who has missed the last but one
 *     has the last.  Of more than 500 ranges there is no digest.)  What the owner
 *     has asked for since has a greater one, and is not undone.  Where no majority
 *     is alike the owner settles it, who knows, and nobody else.
 *  4. What was forgotten by a majority at a time is put back at each as by a
 *     single server (DESIGN 5.4), within the deadline.
 */
#include "lease/quorum.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "lease/records.h"
#include "lease/upkeep.h"
#include "model/timeline.h"
#include "os/log.h"
#include "os/sys.h"
#include "redis/pool.h"

/*
 * Those that are late are waited for so long, for what they say is acted on; with a
 * renewal for as long as one may owe an answer, for who is never heard gets nothing
 * back.  More ranges of an owner than that are not put back; those of its later
 * requests are.
 */
enum { LATE_MS = 20, RANGES_MAX = 16384 };

/* --- a batch to all masters ------------------------------------------------ */

typedef int batch_fn(struct dlk_conn *c, uint64_t deadline_ns,
		     struct dlk_renewal *r, unsigned n);

/* What each of them says of each lease. */
struct batch {
	struct dlk_renewal *of[DLK_MASTERS_MAX];
	const struct dlk_renewal *ask; /* NULL: of what they say already */
	unsigned n;
	size_t size;
	batch_fn *fn;
	uint32_t voted;
};

static bool begin(struct batch *x, const struct dlk_masters *masters,
		  batch_fn *fn, const struct dlk_renewal *ask, unsigned n)
{
	struct dlk_renewal *r;

	*x = (struct batch){ .ask = ask, .n = n, .fn = fn };
	x->size = masters->n * n * sizeof(*r);
	r = dlk_pages(x->size);
	for (unsigned i = 0; r && i < masters->n; i++)
		x->of[i] = r + (size_t)i * n;
	return r;
}

/* An error is an answer, and a vote: but it is why what it is of has failed. */
static void note_failure(struct ballot *b, unsigned i, const struct dlk_conn *c)
{
	const struct batch *x = b->arg;

	for (unsigned k = 0; k < x->n; k++)
		if (x->of[i][k].result < 0) {
			dlk_ballot_note(b, i, c->error);
			return;
		}
}

static int ask(struct ballot *b, unsigned i, struct dlk_conn *c)
{
	struct batch *x = b->arg;
	int err;

	if (c->half == DLK_ASKING && x->ask)
		memcpy(x->of[i], x->ask, x->n * sizeof(*x->ask));
	err = x->fn(c, b->by_ns, x->of[i], x->n);
	b->v[i].replies = dlk_batch_owed(x->of[i], x->n);
	if (!err)
		note_failure(b, i, c);
	return err;
}

/* Who has answered has voted, whatever of. */
static void count(struct ballot *b, unsigned i, int vote)
{
	struct batch *x = b->arg;

	if (vote) {
		dlk_tally_silent(&b->tally, true);
		return;
	}
	x->voted |= 1U << i;
	dlk_tally_yes(&b->tally, i);
}

static struct ballot ballot_of(struct dlk_store *s, struct dlk_attempt *at,
			       struct batch *x)
{
	return (struct ballot){ .masters = dlk_masters_of(s),
				.at = at,
				.ask = ask,
				.count = count,
				.arg = x,
				.linger_ns = LATE_MS * DLK_MS,
				.linger_no_ns = LATE_MS * DLK_MS };
}

/* --- one lease ------------------------------------------------------------ */

/* How often the masters say what of it. */
struct said {
	unsigned yes, lost, gone, replaced;
	int error;
	bool reclaimed;
};

static struct said hear(const struct batch *x, unsigned masters, unsigned k)
{
	struct said s = { .error = -ETIMEDOUT };

	for (unsigned i = 0; i < masters; i++) {
		const struct dlk_renewal *r = &x->of[i][k];

		if (!(x->voted & 1U << i))
			continue;
		s.yes += r->result == 0;
		s.lost += r->result == DLK_LOST;
		s.gone += r->result == DLK_GONE;
		s.replaced += r->result == DLK_REPLACED;
		s.reclaimed |= r->reclaimed;
		if (r->result < 0)
			s.error = r->result;
	}
	return s;
}

/* (1) */
static int judge(const struct said *s, unsigned n, bool records)
{
	if (s->yes >= dlk_majority(n))
		return 0;
	/* Of ranges the owner alone knows what: it puts them back where they
	 * were forgotten, and has a majority by that though one is away. */
	if (records && s->gone && s->yes + s->gone >= dlk_majority(n))
		return DLK_GONE;
	if (n - s->lost - s->gone - s->replaced >= dlk_majority(n))
		return s->error;
	if (s->replaced && s->replaced >= s->lost)
		return DLK_REPLACED;
	return s->lost ? DLK_LOST : DLK_GONE;
}

/* --- put back (2, 3) ------------------------------------------------------- */

/* Once a process, and master: the user has it in hand that it is so. */
static void say_missing(struct dlk_store *s, const struct dlk_master *m,
			const struct dlk_lease *lease)
{
	static atomic_uint said;
	const unsigned bit = 1U << (unsigned)(m - dlk_masters_of(s)->v);
	struct dlk_line l;

	if (atomic_fetch_or(&said, bit) & bit)
		return;
	dlk_line_begin(&l, DLK_INFO);
	dlk_text_str(&l.text, "the lease ");
	dlk_text_quoted(&l.text, lease->key, lease->key_len);
	dlk_text_strs(&l.text, " was missing at redis \"", s->name, "\" at ",
		      m->ep->name,
		      ", which was restarted or away: it is put back, for a "
		      "majority has it",
		      NULL);
	dlk_line_end(&l);
}

static bool are_alike(const struct dlk_renewal *a, const struct dlk_renewal *b)
{
	return a->seq == b->seq && a->ranges == b->ranges &&
	       a->digest == b->digest;
}

/* One of the majority that has the same (NULL: has it not); n: none has. */
static unsigned alike_ones(const struct dlk_renewal *const *said, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned same = 0;

		for (unsigned j = 0; j < n && said[i]; j++)
			same += said[j] && are_alike(said[i], said[j]);
		if (same >= dlk_majority(n))
			return i;
	}
	return n;
}

/* The same of the k-th. */
static unsigned best_of(const struct batch *x, unsigned masters, unsigned k)
{
	const struct dlk_renewal *said[DLK_MASTERS_MAX] = { NULL };

	for (unsigned i = 0; i < masters && i < DLK_MASTERS_MAX; i++)
		if ((x->voted & 1U << i) && x->of[i][k].result == 0)
			said[i] = &x->of[i][k];
	return alike_ones(said, masters);
}

/* (A later request may be on its way, and so is what becomes of it.) */
static bool lacks(const struct batch *x, unsigned i, unsigned k, unsigned best)
{
	const struct dlk_renewal *r = &x->of[i][k];

	return (x->voted & 1U << i) &&
	       (r->result == DLK_GONE ||
		(r->result == 0 && r->seq <= x->of[best][k].seq &&
		 !are_alike(r, &x->of[best][k])));
}

/* The list of an owner, by one master. */
static int read_list(struct dlk_master *m, uint64_t by_ns,
		     const struct dlk_lease *lease, struct dlk_ranges *list,
		     uint64_t *seq)
{
	struct dlk_conn *c = dlk_master_conn(m, DLK_ANY, 0);
	int err = c ? dlk_records_list(c, by_ns, lease, list, seq) : -ENOTCONN;

	if (c)
		dlk_pool_put(c);
	return err;
}

static int put_list(struct dlk_master *m, uint64_t by_ns,
		    const struct dlk_lease *lease,
		    const struct dlk_ranges *list, uint64_t seq)
{
	const struct dlk_renewal u = { .lease = lease, .sent_seq = seq };
	struct dlk_conn *c = dlk_master_conn(m, DLK_ANY, 0);
	struct dlk_token t;
	int err;

	if (!c || !dlk_token_parse(lease->token, lease->token_len, &t)) {
		if (c)
			dlk_pool_put(c);
		return -ENOTCONN;
	}
	err = dlk_conn_open(c, by_ns)
		      ?: dlk_records_restore(c, by_ns, &u, t.since_ns, list);
	dlk_pool_put(c);
	return err;
}

/* The masters that lack some of an owner's ranges get what the best one has. */
static bool put_ranges_back(struct dlk_store *s, const struct batch *x,
			    unsigned k, unsigned best, uint64_t by_ns)
{
	struct dlk_masters *masters = dlk_masters_of(s);
	const struct dlk_lease *lease = x->ask[k].lease;
	struct dlk_ranges list = { .room = RANGES_MAX };
	bool read = false, any = false;
	uint64_t seq;

	for (unsigned i = 0; i < masters->n; i++) {
		if (!lacks(x, i, k, best))
			continue;
		say_missing(s, &masters->v[i], lease);
		if (!list.v)
			list.v = dlk_pages(RANGES_MAX * sizeof(*list.v));
		if (list.v && !read)
			read = read_list(&masters->v[best], by_ns, lease, &list,
					 &seq) == 0;
		if (read &&
		    put_list(&masters->v[i], by_ns, lease, &list, seq) == 0)
			any = true;
	}
	if (list.v)
		munmap(list.v, RANGES_MAX * sizeof(*list.v));
	return any;
}

/*
 * Of whole files: all in one more round, where any are to be put back.  The last
 * that is done with x, whose question is gone then.
 */
static void put_files_back(struct dlk_store *s, struct dlk_attempt *at,
			   struct batch *x, uint32_t at_masters)
{
	struct ballot b = ballot_of(s, at, x);

	x->fn = dlk_put_back_batch;
	x->ask = NULL;
	b.without = ~at_masters;
	b.once = true;
	dlk_ballot_hold(&b);
}

/*
 * What stands by a majority and lacks a master: what is not to be put back, for
 * it does not stand, is marked so that the batch leaves it out.
 */
static uint32_t choose(struct dlk_store *s, struct batch *x,
		       const struct dlk_renewal *r, unsigned k)
{
	struct dlk_masters *masters = dlk_masters_of(s);
	uint32_t whom = 0;

	for (unsigned i = 0; i < masters->n; i++) {
		if (!(x->voted & 1U << i) || x->of[i][k].result != DLK_GONE)
			continue;
		if (r[k].result != 0 || r[k].lease->ranges_key) {
			x->of[i][k].result = DLK_LOST;
			continue;
		}
		/* (The majority has renewed it just now.) */
		x->of[i][k].deadline_ns =
			dlk_deadline_ns(r[k].asked_ns, r[k].lease->ttl_ms);
		say_missing(s, &masters->v[i], r[k].lease);
		whom |= 1U << i;
	}
	return whom;
}

static bool has_time(const struct dlk_attempt *at, uint64_t by_ns)
{
	return dlk_now_ns() < by_ns &&
	       !(at->interrupt && at->interrupt(at->arg));
}

static void put_back(struct dlk_store *s, struct dlk_attempt *at,
		     struct batch *x, struct dlk_renewal *r)
{
	const uint64_t by = dlk_attempt_by_ns(at, dlk_now_ns());
	const unsigned masters = dlk_masters_of(s)->n;
	uint32_t whom = 0;
	unsigned best;

	/* What there is no time for is put back by the next renewal. */
	for (unsigned k = 0; k < x->n && has_time(at, by); k++) {
		if (r[k].result != 0 || !r[k].lease->ranges_key)
			continue;
		best = best_of(x, masters, k);
		r[k].unlike = best == masters;
		if (best < masters)
			r[k].reclaimed |= put_ranges_back(s, x, k, best, by);
	}
	for (unsigned k = 0; k < x->n; k++) {
		const uint32_t one = choose(s, x, r, k);

		r[k].reclaimed |= one != 0;
		whom |= one;
	}
	if (whom)
		put_files_back(s, at, x, whom);
}

/* --- the operations ------------------------------------------------------- */

/* What they say is in *x then, to be unmapped; false: all of r have failed. */
static bool ask_all(struct ballot *b, struct batch *x, batch_fn *fn,
		    unsigned late_ms, struct dlk_store *s,
		    struct dlk_attempt *at, struct dlk_renewal *r, unsigned n)
{
	if (begin(x, dlk_masters_of(s), fn, r, n)) {
		*b = ballot_of(s, at, x);
		b->linger_ns = late_ms * DLK_MS;
		dlk_ballot_hold(b);
		return true;
	}
	strcpy(at->why, "no memory for a question");
	for (unsigned k = 0; k < n; k++) {
		r[k].reclaimed = false;
		r[k].until_ns = 0;
		r[k].result = -ENOMEM;
	}
	return false;
}

/* Only what has failed has a reason. */
static void explain_failure(const struct ballot *b, const struct dlk_renewal *r,
			    unsigned n)
{
	for (unsigned k = 0; k < n; k++)
		if (r[k].result < 0) {
			dlk_ballot_explain(b);
			return;
		}
}

/* What no majority has any more is in the way of others where it is left. */
static void give_up(struct dlk_store *s, const struct dlk_renewal *r,
		    const struct said *said)
{
	const struct dlk_sending how = { .timeout_ns = LATE_MS * DLK_MS };

	if (r->result > 0 && r->result != DLK_GONE && said->yes)
		dlk_quorum_send_release(s, &how, r->lease);
}

void dlk_quorum_renew(struct dlk_store *s, struct dlk_attempt *at,
		      struct dlk_renewal *r, unsigned n)
{
	const unsigned masters = dlk_masters_of(s)->n;
	struct batch x;
	struct ballot b;

	if (!ask_all(&b, &x, dlk_renew_batch, DLK_SILENT_MS, s, at, r, n))
		return;
	for (unsigned k = 0; k < n; k++) {
		const struct said said = hear(&x, masters, k);

		r[k].asked_ns = b.asked_ns;
		r[k].until_ns = 0;
		r[k].unlike = false;
		r[k].reclaimed = said.reclaimed;
		r[k].result =
			b.interrupted && said.yes < dlk_majority(masters)
				? -EINTR
				: judge(&said, masters, r[k].lease->ranges_key);
		give_up(s, &r[k], &said);
	}
	explain_failure(&b, r, n);
	if (!b.interrupted)
		put_back(s, at, &x, r);
	munmap(x.of[0], x.size);
}

/*
 * It is not there any more where a majority says so, and each other one that is
 * not away.
 */
static int judge_release(const struct dlk_masters *masters,
			 const struct batch *x, unsigned k)
{
	unsigned done = 0;
	int err = 0;

	for (unsigned i = 0; i < masters->n; i++) {
		const int one =
			x->voted & 1U << i ? x->of[i][k].result : -ETIMEDOUT;

		done += one == 0;
		if (one && one != -EREMOTEIO &&
		    !dlk_master_is_away(&masters->v[i], dlk_now_ns()))
			err = one;
	}
	if (err || done >= dlk_majority(masters->n))
		return err;
	return -ETIMEDOUT;
}

void dlk_quorum_release(struct dlk_store *s, struct dlk_attempt *at,
			struct dlk_renewal *r, unsigned n)
{
	struct batch x;
	struct ballot b;

	if (!ask_all(&b, &x, dlk_release_batch, LATE_MS, s, at, r, n))
		return;
	for (unsigned k = 0; k < n; k++)
		r[k].result = judge_release(dlk_masters_of(s), &x, k);
	explain_failure(&b, r, n);
	munmap(x.of[0], x.size);
}

/* --- an owner's ranges ---------------------------------------------------- */

struct ranges {
	const struct dlk_lease *lease;
	const struct dlk_ranges *held;
	uint64_t seq, since_ns;
	bool settles;
	struct dlk_renewal of[DLK_MASTERS_MAX];
	unsigned yes, gone, lost, late;
};

static void count_ranges(struct ballot *b, unsigned i, int vote)
{
	struct ranges *x = b->arg;

	x->yes += vote == 0;
	x->gone += vote == DLK_GONE;
	x->lost += vote == DLK_LOST;
	x->late += vote == DLK_OLD_SEQ;
	if (vote == 0)
		dlk_tally_yes(&b->tally, i);
	else if (vote > 0)
		dlk_tally_no(&b->tally, i, 0);
	else
		dlk_tally_silent(&b->tally, true);
}

static void ask_of_ranges(struct ballot *b, struct dlk_store *s,
			  struct dlk_attempt *at,
			  int (*ask_one)(struct ballot *b, unsigned i,
					 struct dlk_conn *c),
			  struct ranges *x)
{
	*b = (struct ballot){ .masters = dlk_masters_of(s),
			      .at = at,
			      .ask = ask_one,
			      .count = count_ranges,
			      .arg = x,
			      .linger_ns = LATE_MS * DLK_MS };
	dlk_ballot_hold(b);
}

static int ask_state(struct ballot *b, unsigned i, struct dlk_conn *c)
{
	struct ranges *x = b->arg;

	x->of[i].lease = x->lease;
	x->of[i].sent_seq = x->seq;
	return dlk_renew_batch(c, b->by_ns, &x->of[i], 1) ?: x->of[i].result;
}

/* Is it there?  Else, within its restart window, it is put back (4); or (3). */
static int ask_reclaim(struct ballot *b, unsigned i, struct dlk_conn *c)
{
	struct ranges *x = b->arg;
	struct dlk_renewal *u = &x->of[i];
	int err = ask_state(b, i, c);

	if (err == 0 && x->settles)
		return dlk_records_restore(c, b->by_ns, u, x->since_ns,
					   x->held);
	if (err != DLK_GONE)
		return err;
	dlk_records_reclaim(c, b->by_ns, u, x->since_ns, x->held);
	return u->result;
}

/* (What one of several masters grants nobody before tells nothing of all.) */
void dlk_quorum_reclaim(struct dlk_store *s, struct dlk_attempt *at,
			struct dlk_renewal *r, uint64_t since_ns,
			const struct dlk_ranges *held)
{
	struct ranges x = { .lease = r->lease,
			    .held = held,
			    .seq = r->sent_seq,
			    .since_ns = since_ns,
			    .settles = r->unlike };
	struct ballot b;

	ask_of_ranges(&b, s, at, ask_reclaim, &x);
	r->until_ns = 0;
	switch (dlk_tally_state(&b.tally)) {
	case TALLY_YES:
		r->result = 0;
		return;
	case TALLY_NO:
		r->result = x.lost ? DLK_LOST : DLK_GONE;
		if (x.lost + x.gone > b.tally.n - dlk_majority(b.tally.n))
			return;
		break;
	default:
		break;
	}
	dlk_ballot_explain(&b);
	r->result = b.interrupted ? -EINTR : -ETIMEDOUT;
}

/* How much an owner's server knows of it. */
static bool knows_less(const struct dlk_renewal *a, const struct dlk_renewal *b)
{
	return a->seq != b->seq ? a->seq < b->seq : a->ranges < b->ranges;
}

static unsigned most_of(const struct dlk_renewal *const *said, unsigned n)
{
	unsigned best = n;

	for (unsigned i = 0; i < n; i++)
		if (said[i] && (best == n || knows_less(said[best], said[i])))
			best = i;
	return best;
}

/* The list of those who are alike, or of the one that knows most, of a majority that
 * knows it. */
int dlk_quorum_list(struct dlk_store *s, struct dlk_attempt *at,
		    const struct dlk_lease *lease, struct dlk_ranges *held,
		    uint64_t *seq)
{
	struct dlk_masters *masters = dlk_masters_of(s);
	struct ranges x = { .lease = lease };
	const struct dlk_renewal *said[DLK_MASTERS_MAX] = { NULL };
	unsigned best;
	struct ballot b;

	for (unsigned i = 0; i < masters->n; i++)
		x.of[i].result = -ENOTCONN;
	ask_of_ranges(&b, s, at, ask_state, &x);
	if (dlk_tally_state(&b.tally) != TALLY_YES) {
		dlk_ballot_explain(&b);
		return x.gone + x.lost > masters->n - dlk_majority(masters->n)
			       ? DLK_GONE
			       : -ETIMEDOUT;
	}
	for (unsigned i = 0; i < masters->n; i++)
		if (x.of[i].result == 0)
			said[i] = &x.of[i];
	best = alike_ones(said, masters->n);
	if (best == masters->n)
		best = most_of(said, masters->n);
	return read_list(&masters->v[best], b.by_ns, lease, held, seq);
}

static int ask_reduce(struct ballot *b, unsigned i, struct dlk_conn *c)
{
	struct ranges *x = b->arg;

	(void)i;
	/* (No halves: it is a page after the other.) */
	c->half = DLK_WHOLE;
	return dlk_records_reduce(c, b->by_ns, x->lease, x->seq, x->held);
}

int dlk_quorum_reduce(struct dlk_store *s, struct dlk_attempt *at,
		      const struct dlk_lease *lease, uint64_t seq,
		      const struct dlk_ranges *held)
{
	struct ranges x = { .lease = lease, .held = held, .seq = seq };
	struct ballot b;

	ask_of_ranges(&b, s, at, ask_reduce, &x);
	if (x.late)
		return DLK_OLD_SEQ;
	if (dlk_tally_state(&b.tally) == TALLY_YES)
		return 0;
	dlk_ballot_explain(&b);
	return -ETIMEDOUT;
}
