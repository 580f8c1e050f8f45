/* SPDX-License-Identifier: MIT */
/* A lease without a file; see lease_job.h. */
#include "tools/lease_job.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/acquire.h"
#include "model/timeline.h"
#include "model/token.h"
#include "os/sys.h"
#include "tools/boot.h"

/* Heard of so often in one life of its place, as DESIGN 4.2 has it. */
enum { BEATS = 4, UNHEARD_MS = 50, AGAIN_MS = 100 };

static void restarted(const struct dlk_store *s)
{
	(void)s; /* the next renewal finds out */
}

/* --- the token ------------------------------------------------------------ */

static void make_token(struct lease_job *j)
{
	uint8_t random[16];
	uint64_t file;
	ssize_t n;

	dlk_random(random, sizeof(random));
	dlk_random(&file, sizeof(file));
	dlk_token_random(&j->words, random);
	snprintf(j->words.file, sizeof(j->words.file), "lock:%016llx:-",
		 (unsigned long long)file);
	j->words.since_ns = dlk_now_ns();
	n = dlk_token_format(&j->words, j->token, sizeof(j->token));
	j->lease.token = j->token;
	j->lease.token_len = n > 0 ? (size_t)n : 0;
	strcpy(j->claim, j->token);
	memcpy(dlk_token_since(j->claim), DLK_NEVER, strlen(DLK_NEVER));
}

int lease_job_begin(struct lease_job *j, const struct dlk_config *config,
		    const struct dlk_rule *rule, const char *key, bool shared,
		    const char *command)
{
	int err;

	boot_host(config->host_id, j->words.host);
	if (!j->words.host[0])
		return -EREMOTEIO;
	err = dlk_stores_begin(config->redis, config->n_redis, restarted);
	if (err)
		return err;
	j->rule = rule;
	j->store = dlk_store_of(rule->redis);
	j->lease = (struct dlk_lease){ .key = key,
				       .key_len = strlen(key),
				       .ttl_ms = rule->ttl_ms,
				       .shared = shared,
				       .fair = rule->fair,
				       .interop = rule->interop };
	boot_hostname(j->words.hostname);
	dlk_word(j->words.command, sizeof(j->words.command), command,
		 strlen(command));
	j->words.pid = (uint32_t)getpid();
	return 0;
}

static struct dlk_attempt attempt(const struct lease_job *j)
{
	return (struct dlk_attempt){
		.timeout_ns = j->store->connect_timeout_ms * DLK_MS,
	};
}

uint64_t lease_job_deadline(const struct lease_job *j)
{
	return dlk_deadline_ns(j->asked_ns, j->rule->ttl_ms);
}

uint64_t lease_job_kill_ns(const struct lease_job *j)
{
	return lease_job_deadline(j) - j->rule->ttl_ms / 10 * DLK_MS;
}

/* --- waiting -------------------------------------------------------------- */

/* One wait: a place in the queue, and what is heard of it. */
struct wait {
	struct lease_job *j;
	struct dlk_waiter w;
	struct dlk_subscription *sub; /* NULL: it looks by itself */
	bool owes;                    /* give_up() goes first */
	uint64_t fails_ns;            /* no server since; 0: it answers */
	struct acquire refused;       /* so often, where there is no queue */
};

static void take_channel(struct wait *x)
{
	struct lease_job *j = x->j;
	struct dlk_attempt at = attempt(j);

	x->w.claim_ttl_ms = dlk_claim_ttl_ms(j->rule->ttl_ms);
	x->sub = j->store->ops->subscribed(j->store, &j->lease);
	if (!x->sub &&
	    j->store->ops->subscribe(j->store, &at, &j->lease, &x->sub))
		x->sub = NULL;
	strcpy(x->w.channel,
	       x->sub ? j->store->ops->channel(x->sub) : DLK_NO_CHANNEL);
}

static void new_name(struct wait *x)
{
	make_token(x->j);
	x->w.claim = x->j->claim;
	x->w.claim_len = x->j->lease.token_len;
	x->w.queued = false;
}

/*
 * What may have been granted, or may be yet, is given back (DESIGN 5.2).  Until
 * a server says so, nothing is asked for: by this name a release that comes
 * late would end it, and by another one this would be in its way.
 */
static int give_up(struct wait *x)
{
	struct lease_job *j = x->j;
	struct dlk_attempt at = attempt(j);
	struct dlk_renewal r = { .lease = &j->lease };

	x->w.queued = false;
	j->store->ops->release(j->store, &at, &r, 1);
	x->owes = r.result != 0;
	if (x->owes)
		memcpy(j->why, at.why, sizeof(j->why));
	else
		new_name(x);
	return r.result;
}

static void leave(struct wait *x)
{
	struct lease_job *j = x->j;
	struct dlk_sending how = { .timeout_ns = j->store->connect_timeout_ms *
						 DLK_MS };

	if (x->w.queued)
		j->store->ops->send_cancel(j->store, &how, &j->lease, &x->w);
	if (x->sub)
		j->store->ops->unsubscribe(x->sub, false);
}

/* Until something is heard, or it is time; true: a signal came. */
static bool rest(const struct wait *x, uint64_t until_ns)
{
	const struct lease_job *j = x->j;
	struct pollfd p[2] = {
		{ .fd = j->signals, .events = POLLIN },
		{ .fd = -1, .events = POLLIN },
	};
	uint64_t now = dlk_now_ns();

	if (x->sub)
		p[1].fd = j->store->ops->descriptor(x->sub);
	if (j->until_ns && until_ns > j->until_ns)
		until_ns = j->until_ns;
	poll(p, 2, until_ns > now ? (int)((until_ns - now) / DLK_MS) + 1 : 0);
	return p[0].revents;
}

/* When it has to speak of its place again, or look by itself. */
static uint64_t next_beat(const struct wait *x)
{
	uint64_t ms = x->w.claim_ttl_ms / BEATS;

	if (!x->sub && ms > UNHEARD_MS)
		ms = UNHEARD_MS;
	return dlk_now_ns() + ms * DLK_MS;
}

/* The claim becomes the lease.  0, or it has to be asked for anew. */
static int confirm(struct wait *x)
{
	struct lease_job *j = x->j;
	struct dlk_attempt at = attempt(j);
	int err =
		j->store->ops->confirm(j->store, &at, &j->lease, &j->asked_ns);

	x->w.queued = false;
	if (err && at.unsure)
		give_up(x);
	else if (err)
		new_name(x);
	return err;
}

static int ask(struct wait *x, struct dlk_answer *answer)
{
	struct lease_job *j = x->j;
	struct dlk_attempt at = attempt(j);
	const struct dlk_ask how = { .waiter = j->waits ? &x->w : NULL };
	int err = x->owes ? give_up(x) : 0;

	if (err)
		return err;
	if (j->store->no_queue)
		j->lease.rank = dlk_acquire_is_senior(&x->refused) ? DLK_SENIOR
								   : DLK_JUNIOR;
	err = j->store->ops->acquire(j->store, &at, &j->lease, &how, answer);
	j->lease.rank = DLK_NO_RANK;
	if (!err)
		j->asked_ns = answer->asked_ns;
	if (err < 0)
		memcpy(j->why, at.why, sizeof(j->why));
	if (err == DLK_BUSY)
		snprintf(j->holder, sizeof(j->holder), "%s", answer->holder);
	/* In a queue it is found by its name, if it comes yet. */
	if (err && at.unsure && (err < 0 || !x->w.queued))
		give_up(x);
	return err;
}

/* When, if nobody says that it is free. */
static uint64_t ask_again(struct wait *x, int err,
			  const struct dlk_answer *answer)
{
	uint64_t pause = AGAIN_MS * DLK_MS;
	uint32_t random;

	if (err == DLK_BUSY && x->j->store->no_queue) {
		dlk_random(&random, sizeof(random));
		dlk_acquire_note_holder(&x->refused, dlk_answer_holder(answer));
		pause = dlk_acquire_pause_ns(&x->refused, answer->left_ms, 0,
					     random);
	}
	return dlk_now_ns() + pause;
}

static int beat(struct wait *x, struct dlk_answer *answer)
{
	struct lease_job *j = x->j;
	struct dlk_attempt at = attempt(j);
	int err;

	if (!x->w.queued)
		return ask(x, answer);
	err = j->store->ops->heartbeat(j->store, &at, &j->lease, &x->w, answer);
	if (err < 0)
		memcpy(j->why, at.why, sizeof(j->why));
	return err ? err : confirm(x);
}

/* The word of who serves the queue: 0 it is held, -EAGAIN ask, or none. */
static int hear(struct wait *x, struct dlk_answer *answer)
{
	struct lease_job *j = x->j;
	int word = x->sub ? j->store->ops->heard(x->sub, &x->w) : 0;

	if (x->owes)
		return ask(x, answer);
	if (word == 'g')
		return confirm(x) ? ask(x, answer) : 0;
	if (word == 't')
		return ask(x, answer);
	if (word < 0) {
		j->store->ops->unsubscribe(x->sub, true);
		x->sub = NULL;
		strcpy(x->w.channel, DLK_NO_CHANNEL);
	}
	return beat(x, answer);
}

static bool is_over(const struct lease_job *j, uint64_t now)
{
	return j->until_ns && now >= j->until_ns;
}

/*
 * What an answer means: true, *outcome; or it goes on.  A server that does not
 * answer is waited for as long as the rule says, and no longer than a wait.
 */
static bool judge(struct wait *x, int err, const struct dlk_answer *answer,
		  enum lease_outcome *outcome)
{
	struct lease_job *j = x->j;
	uint64_t now = dlk_now_ns();

	*outcome = LEASE_FAILED;
	/* Too late to begin anything, it is asked for anew. */
	if (!err && now < lease_job_kill_ns(j)) {
		*outcome = LEASE_HELD;
		return true;
	}
	if (!err) {
		give_up(x);
		return is_over(j, now);
	}
	if (err == DLK_WRONG_TYPE || err == -EREMOTEIO || err == -EACCES) {
		if (err == DLK_WRONG_TYPE)
			snprintf(j->why, sizeof(j->why),
				 "its key is no lock (type %.32s)",
				 answer->holder);
		return true;
	}
	if (err == DLK_BUSY || err == DLK_GRACE) {
		x->fails_ns = 0;
		if (err == DLK_GRACE)
			snprintf(j->why, sizeof(j->why),
				 "the server was restarted, and grants nothing "
				 "for another %lld ms",
				 (long long)answer->left_ms);
		*outcome = err == DLK_BUSY ? LEASE_BUSY : LEASE_FAILED;
		return !j->waits || is_over(j, now);
	}
	if (err < 0 && !x->fails_ns)
		x->fails_ns = now;
	/*
	 * In the queue it keeps its name, and by that its place: what was not
	 * answered may have granted it, and the next heartbeat finds that.
	 */
	if (err < 0 && !x->owes && !x->w.queued)
		new_name(x);
	return err < 0 &&
	       (is_over(j, now) ||
		now - x->fails_ns >= (uint64_t)j->rule->timeout_ms * DLK_MS);
}

enum lease_outcome lease_job_get(struct lease_job *j)
{
	struct wait x = { .j = j };
	enum lease_outcome outcome;
	struct dlk_answer answer = { .left_ms = 0 };
	int err;

	if (j->waits)
		take_channel(&x);
	new_name(&x);
	err = ask(&x, &answer);
	while (!judge(&x, err, &answer, &outcome)) {
		uint64_t until = x.w.queued ? next_beat(&x)
					    : ask_again(&x, err, &answer);

		if (rest(&x, until)) {
			outcome = LEASE_SIGNAL;
			break;
		}
		err = hear(&x, &answer);
	}
	if (outcome == LEASE_HELD)
		x.w.queued = false;
	if (!j->lease.shared && j->rule->hold_at_least_ms)
		j->lease.stays_until_ns =
			dlk_now_ns() + j->rule->hold_at_least_ms * DLK_MS;
	leave(&x);
	return outcome;
}

/* --- holding -------------------------------------------------------------- */

int lease_job_renew(struct lease_job *j, uint64_t until_ns)
{
	struct dlk_attempt at = attempt(j);
	struct dlk_renewal r = { .lease = &j->lease,
				 .deadline_ns = lease_job_deadline(j) };

	at.until_ns = until_ns;
	j->store->ops->renew(j->store, &at, &r, 1);
	if (!r.result)
		j->asked_ns = r.asked_ns;
	else if (r.result < 0)
		memcpy(j->why, at.why, sizeof(j->why));
	return r.result;
}

bool lease_job_end(struct lease_job *j)
{
	struct pollfd p = { .fd = j->signals, .events = POLLIN };
	uint64_t until = dlk_now_ns() + j->rule->timeout_ms * DLK_MS;
	struct dlk_attempt at = attempt(j);
	struct dlk_renewal r = { .lease = &j->lease };

	if (until > lease_job_deadline(j))
		until = lease_job_deadline(j);
	do {
		j->store->ops->release(j->store, &at, &r, 1);
		if (!r.result)
			return true;
	} while (r.result != -EREMOTEIO && dlk_now_ns() < until &&
		 !poll(&p, 1, AGAIN_MS));
	memcpy(j->why, at.why, sizeof(j->why));
	return false;
}
