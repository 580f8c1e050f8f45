/* SPDX-License-Identifier: MIT */
/* Where the master is; see sentinel.h. */
#include "redis/sentinel.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "model/text.h"
#include "model/timeline.h"
#include "os/guard.h"
#include "os/sys.h"
#include "redis/node.h"
#include "redis/resolve.h"
#include "redis/tls.h"

enum {
	MASTERS = 16,
	SENTINELS = 16,
	SLICE_MS = 20,
	/* Beyond the first answer, for one that names another master. */
	OTHERS_MS = 30,
	/* To tell one that it is listened to. */
	LISTEN_MS = 50,
	/* For each step until it listens; and until the next one is listened to,
	 * where one has failed. */
	LISTEN_AGAIN_MS = 1000,
	/* Between two looks at what was heard; one is a system call. */
	HEAR_MS = 5,
	/* What was said is believed for so long: by who listens, and else. */
	LISTENED_MS = 10000,
	FRESH_MS = 1000,
	/* Of an answer, where there is a connection that may be good. */
	VERIFY_MS = 100,
};

struct address {
	char host[256]; /* "": none */
	uint32_t port;
};

/* What is known of one master. */
static struct master {
	const struct dlk_endpoint *ep; /* NULL: a free place */
	struct dlk_known *known;
	struct address at;     /* as it was said last */
	uint64_t doubts;       /* how many there had been then */
	uint64_t until_ns;     /* it is believed; 0: it is to be said again */
	struct address reigns; /* connections to this one are not stale */
	/* Who listens: the thread that made it so. */
	bool busy;
	struct dlk_conn *listens;
	enum { CONNECTS, ASKS, LISTENS } state;
	uint64_t state_ns; /* since when */
	unsigned next;
	uint64_t again_ns, heard_ns;
} masters[MASTERS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* (mutex held) */
static struct master *master_of(const struct dlk_endpoint *ep)
{
	struct master *m = masters;

	while (m < masters + MASTERS && m->ep && m->ep != ep)
		m++;
	if (m == masters + MASTERS)
		return NULL;
	if (!m->ep) {
		m->ep = ep;
		m->known = dlk_server_known(ep);
	}
	return m;
}

static bool same_address(const struct address *a, const struct address *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* --- one Sentinel --------------------------------------------------------- */

/* What its connection failed of; its password has options of its own. */
static const char *error_of(const struct dlk_conn *c)
{
	return strncmp(c->error, "NOAUTH ", 7) == 0
		       ? "NOAUTH (it wants a password: sentinel_password_file "
			 "and sentinel_username)"
	       : strncmp(c->error, "WRONGPASS ", 10) == 0
		       ? "WRONGPASS (see sentinel_username and "
			 "sentinel_password_file)"
		       : c->error;
}

static bool read_text(const redisReply *r, size_t i, char *text, size_t size)
{
	const redisReply *e = r->element[i];

	if (e->type != REDIS_REPLY_STRING || !e->len || e->len >= size ||
	    strlen(e->str) != e->len)
		return false;
	memcpy(text, e->str, e->len + 1);
	return true;
}

static bool read_address(const redisReply *r, size_t i, struct address *a)
{
	char port[8];
	uint64_t n;

	if (!read_text(r, i, a->host, sizeof(a->host)) ||
	    !read_text(r, i + 1, port, sizeof(port)) ||
	    !dlk_number(port, 10, &n) || !n || n > 65535)
		return false;
	a->port = (uint32_t)n;
	return true;
}

/* Its answer: 0, or why it is none. */
static int read_answer(struct dlk_conn *c, const redisReply *r,
		       struct address *a)
{
	if (r->type == REDIS_REPLY_ARRAY && r->elements == 2 &&
	    read_address(r, 0, a))
		return 0;
	if (r->type == REDIS_REPLY_NIL)
		dlk_conn_set_error(c, "it knows no master of that name");
	else if (r->type != REDIS_REPLY_ERROR)
		dlk_conn_set_error(c, "an answer of an unexpected type");
	else if (strncmp(r->str, "ERR unknown command", 19) == 0)
		dlk_conn_set_error(c, "it is no Sentinel");
	else
		dlk_conn_explain(c, r->str);
	return -EREMOTEIO;
}

static int send_question(struct dlk_conn *c, const char *name,
			 uint64_t deadline_ns)
{
	const struct dlk_arg args[] = {
		{ DLK_LITERAL("SENTINEL") },
		{ DLK_LITERAL("get-master-addr-by-name") },
		dlk_arg_str(name),
	};

	return dlk_conn_append(c, 3, args) ?: dlk_conn_flush(c, deadline_ns);
}

static struct dlk_conn *new_conn(const struct dlk_endpoint *ep, unsigned i)
{
	struct dlk_conn *c = dlk_conn_new(&ep[1 + i]);

	/* INFO of a Sentinel tells nothing that is wanted. */
	if (c)
		c->only_listens = true;
	return c;
}

/* --- all of them ---------------------------------------------------------- */

struct search {
	const struct dlk_endpoint *ep;
	const struct dlk_patience *wait;
	uint64_t doubts, switches; /* how many there were when it began */
	struct address failed; /* what was known, and does not answer as such */
	struct address first;  /* the first answer */
	uint64_t others_by_ns; /* 0: there is none yet */
	unsigned asks;         /* that have not answered */
	unsigned refusals;     /* of us, or by us: asking again is of no use */
	unsigned lacking;      /* ... for we lack a file */
	struct {
		struct dlk_conn *c;
		bool asked;
	} v[SENTINELS];
	char *why;
	size_t size;
};

static void explain(struct search *s, const struct dlk_endpoint *ep,
		    const char *error)
{
	struct dlk_text t = { .buf = s->why,
			      .size = s->size,
			      .len = strlen(s->why) };

	dlk_text_strs(&t,
		      t.len ? "; " : "no Sentinel names the master: ", ep->name,
		      ": ", error, NULL);
}

static void end_one(struct search *s, unsigned i)
{
	dlk_conn_delete(s->v[i].c);
	s->v[i].c = NULL;
	s->asks--;
}

/* A step: true, it has named a master, in *a. */
static bool ask_one(struct search *s, unsigned i, struct address *a)
{
	struct dlk_conn *c = s->v[i].c;
	const uint64_t by = s->wait->deadline_ns;
	const redisReply *r;
	int err = 0;

	if (!s->v[i].asked) {
		err = dlk_conn_start(c, by)
			      ?: send_question(c, s->ep->host, by);
		s->v[i].asked = !err;
	}
	if (!err)
		err = dlk_conn_reply(c, 0, &r);
	if (err == -EINPROGRESS || err == -EAGAIN)
		return false;
	err = err ?: read_answer(c, r, a);
	if (err)
		explain(s, c->ep, error_of(c));
	s->refusals += err == -EACCES;
	s->lacking += c->lacks_file;
	end_one(s, i);
	return !err;
}

/* Until one of them has something to say, for a slice at most. */
static void sleep_on(const struct search *s)
{
	struct pollfd p[SENTINELS];
	unsigned n = 0;

	for (unsigned i = 0; i < s->ep->n_sentinels; i++)
		if (s->v[i].c)
			p[n++] = dlk_conn_poll(s->v[i].c);
	dlk_poll(p, n, s->others_by_ns ? 5 : SLICE_MS);
}

/* True: *a is the answer; else what there is so far. */
static bool ask_each(struct search *s, struct address *a)
{
	for (unsigned i = 0; i < s->ep->n_sentinels; i++) {
		if (!s->v[i].c || !ask_one(s, i, a))
			continue;
		if (!same_address(a, &s->failed))
			return true;
		if (!s->others_by_ns)
			s->others_by_ns = dlk_now_ns() + OTHERS_MS * DLK_MS;
		s->first = *a;
	}
	return false;
}

static int find(struct search *s, struct address *a)
{
	for (;;) {
		const uint64_t now = dlk_now_ns();

		if (ask_each(s, a))
			return 0;
		if (s->others_by_ns && (!s->asks || now >= s->others_by_ns)) {
			*a = s->first;
			return 0;
		}
		if (!s->asks)
			return s->lacking == s->ep->n_sentinels ? -ENOKEY
			       : s->refusals == s->ep->n_sentinels
				       ? -EACCES
				       : -EHOSTUNREACH;
		if (now >= s->wait->deadline_ns)
			return -ETIMEDOUT;
		if (s->wait->interrupt && s->wait->interrupt(s->wait->arg))
			return -EINTR;
		sleep_on(s);
	}
}

static int search(struct search *s, struct address *a)
{
	int err;

	s->why[0] = '\0';
	for (unsigned i = 0; i < s->ep->n_sentinels; i++) {
		s->v[i].c = new_conn(s->ep, i);
		s->asks += s->v[i].c != NULL;
	}
	err = find(s, a);
	if (err == -ETIMEDOUT && !s->why[0])
		explain(s, &s->ep[1], "no answer");
	for (unsigned i = 0; i < s->ep->n_sentinels; i++)
		dlk_conn_delete(s->v[i].c);
	return err;
}

/* (mutex held) */
static struct master *begin(struct search *s)
{
	struct master *m = master_of(s->ep);

	s->doubts = dlk_server_doubts(m ? m->known : NULL);
	s->switches = dlk_server_switches(m ? m->known : NULL);
	return m;
}

/*
 * (mutex held) Its answer may be from before what was heard meanwhile, by another
 * thread:
 *
 *	a search			who listens
 *	where? ->
 *					+switch-master: NEW
 *	<- OLD, by one that is late
 */
static bool is_news(const struct master *m, const struct search *s)
{
	return s->switches == dlk_server_switches(m->known);
}

/* A copy of `ep`: where it is, and its name for messages. */
static void place(struct dlk_endpoint *found, const struct address *a)
{
	/* (Compared as bytes, in tls.c.) */
	memset(found->host, 0, sizeof(found->host));
	memset(found->name, 0, sizeof(found->name));
	dlk_node_set_address(found, a->host, strlen(a->host), a->port);
}

static bool is_known(struct search *s, struct address *a)
{
	struct master *m;

	DLK_GUARD(&mutex);
	m = begin(s);
	if (!m || !m->at.port)
		return false;
	*a = s->failed = m->at;
	return m->known && m->doubts == s->doubts;
}

/*
 * (mutex held) Where it is no shorter than a delayed restart, who was the master
 * could grant until another does; who listens will hear of a switch.
 */
static void believe(struct master *m, uint64_t ms)
{
	const uint64_t delay = m->ep->restart_delay_ms / 4;

	if (m->ep->restart_delay_ms && delay < ms)
		ms = delay;
	m->until_ns = dlk_now_ns() + ms * DLK_MS;
}

/* (mutex held) */
static void was_said(struct master *m)
{
	believe(m, m->state == LISTENS ? LISTENED_MS : FRESH_MS);
}

/* (mutex held) The first one that is named reigns: there is none before. */
static void set_at(struct master *m, const struct address *a, uint64_t doubts)
{
	m->at = *a;
	m->doubts = doubts;
	was_said(m);
	if (!m->reigns.port)
		m->reigns = *a;
}

/*
 * After a doubt it goes first who names another one, and that may be a Sentinel
 * which has not heard of the last failover.  So it is where to look, and no
 * connection is stale by it, until that one says that it is a master (met), or
 * the Sentinels say so once more, who are asked at the next question:
 *
 *	thread 1		thread 2 (to OLD)	OLD	NEW
 *	asks OLD: no answer				hangs
 *	where? -> NEW						promoted
 *	INFO ->							role:master
 *				stale: closed		goes on
 */
static void note(const struct search *s, const struct address *a)
{
	struct master *m;

	DLK_GUARD(&mutex);
	m = master_of(s->ep);
	if (!m || !is_news(m, s))
		return;
	set_at(m, a, s->doubts);
	if (!same_address(a, &m->reigns))
		m->until_ns = 0;
}

/* (mutex held) Is it another one?  Of its own connections none is stale then. */
static bool is_switched(struct master *m, const struct address *a)
{
	if (!a->port || !m->at.port)
		return false;
	if (!same_address(a, &m->at))
		set_at(m, a, dlk_server_doubts(m->known));
	if (same_address(a, &m->reigns))
		return false;
	m->reigns = *a;
	was_said(m);
	dlk_server_switched(m->known);
	return true;
}

/* It is a master, by its own word.  (Of two threads that find it both are right.) */
static uint64_t met(const struct dlk_endpoint *ep,
		    const struct dlk_endpoint *found, uint64_t switches)
{
	struct address a = { .port = found->port };
	struct search s = { .switches = switches };
	struct master *m;

	memcpy(a.host, found->host, sizeof(a.host));
	DLK_GUARD(&mutex);
	m = master_of(ep);
	/* (By its own word only: the Sentinels are to say so at the next question.) */
	if (m && is_news(m, &s) && is_switched(m, &a))
		m->until_ns = 0;
	return m && same_address(&a, &m->reigns) ? dlk_server_switches(m->known)
						 : switches;
}

/*
 * Where no Sentinel names any (but for those that refuse us) it is the one that was
 * named last, if it still says that it is a master; with half of the time left to
 * ask it.
 */
static int find_master(const struct dlk_endpoint *ep,
		       const struct dlk_patience *wait,
		       struct dlk_endpoint *found, char *why, size_t size)
{
	struct dlk_patience half = *wait;
	struct search s = { .ep = ep, .wait = &half, .why = why, .size = size };
	const uint64_t now = dlk_now_ns();
	struct address a;
	int err = 0;

	if (!is_known(&s, &a)) {
		if (s.failed.port && now < wait->deadline_ns)
			half.deadline_ns -= (wait->deadline_ns - now) / 2;
		err = search(&s, &a);
		if (!err)
			note(&s, &a);
	}
	if ((err == -EHOSTUNREACH || err == -ETIMEDOUT) && s.failed.port) {
		a = s.failed;
		err = 0;
	}
	if (!err)
		place(found, &a);
	return err;
}

void dlk_sentinel_begin(void)
{
	dlk_conn_finds_by(find_master, met);
}

int dlk_sentinel_ask(const struct dlk_endpoint *ep, unsigned i,
		     uint64_t deadline_ns, struct dlk_endpoint *found,
		     char *why, size_t size)
{
	struct dlk_conn *c = new_conn(ep, i);
	const redisReply *r;
	struct address a;
	struct dlk_text t = dlk_text_in(why, size);
	int err;

	if (!c)
		return -ENOMEM;
	err = dlk_conn_open(c, deadline_ns)
		      ?: send_question(c, ep->host, deadline_ns)
		      ?: dlk_conn_reply(c, deadline_ns, &r)
		      ?: read_answer(c, r, &a);
	if (err)
		dlk_text_str(&t, error_of(c));
	*found = *ep;
	if (!err)
		place(found, &a);
	dlk_conn_delete(c);
	return err;
}

/* --- told of a failover --------------------------------------------------- */

static int subscribe(struct dlk_conn *c)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("SUBSCRIBE") },
					{ DLK_LITERAL("+switch-master") } };

	return dlk_conn_append(c, 2, args)
		       ?: dlk_conn_flush(c, dlk_now_ns() + LISTEN_MS * DLK_MS);
}

/* "NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT", of this master. */
static bool read_switch(const redisReply *r, const char *name,
			struct address *a)
{
	const size_t len = strlen(name);
	const char *text, *host, *end;
	uint64_t port;

	if (r->type != REDIS_REPLY_ARRAY || r->elements != 3 ||
	    r->element[0]->type != REDIS_REPLY_STRING ||
	    r->element[2]->type != REDIS_REPLY_STRING ||
	    strcmp(r->element[0]->str, "message") != 0)
		return false;
	text = r->element[2]->str;
	if (strncmp(text, name, len) != 0 || text[len] != ' ')
		return false;
	host = strchr(text + len + 1, ' ');
	host = host ? strchr(host + 1, ' ') : NULL;
	end = host ? strchr(host + 1, ' ') : NULL;
	if (!end || (size_t)(end - host - 1) >= sizeof(a->host) ||
	    !dlk_number(end + 1, 10, &port) || !port || port > 65535)
		return false;
	memcpy(a->host, host + 1, (size_t)(end - host - 1));
	a->host[end - host - 1] = '\0';
	a->port = (uint32_t)port;
	return true;
}

static void go_to(struct master *m, int state)
{
	DLK_GUARD(&mutex);
	m->state = state;
	m->state_ns = dlk_now_ns();
}

/* All that was said: -EAGAIN, or it has ended. */
static int hear(struct master *m, struct address *last)
{
	const redisReply *r;
	int err = dlk_conn_drain(m->listens, 0);

	while (!err && !(err = dlk_conn_take(m->listens, &r))) {
		/* (The first is the answer to SUBSCRIBE.) */
		if (m->state == ASKS)
			go_to(m, LISTENS);
		if (r->type == REDIS_REPLY_ERROR)
			err = -EACCES;
		else
			read_switch(r, m->ep->host, last);
	}
	dlk_conn_reset(m->listens);
	return err;
}

/* (m->busy) Begins to listen, or goes on: 0, or it has ended. */
static int listen_on(struct master *m, struct address *last)
{
	int err;

	if (!m->listens) {
		m->listens = new_conn(m->ep, m->next++ % m->ep->n_sentinels);
		go_to(m, CONNECTS);
	}
	if (!m->listens)
		return -ENOMEM;
	if (m->state != CONNECTS) {
		err = hear(m, last);
	} else {
		err = dlk_conn_start(m->listens,
				     dlk_now_ns() + LISTEN_AGAIN_MS * DLK_MS)
			      ?: subscribe(m->listens);
		if (!err)
			go_to(m, ASKS);
	}
	if (err && err != -EAGAIN && err != -EINPROGRESS)
		return err;
	/* One that is stopped takes all, and says nothing. */
	return m->state != LISTENS &&
			       dlk_now_ns() >
				       m->state_ns + LISTEN_AGAIN_MS * DLK_MS
		       ? -ETIMEDOUT
		       : 0;
}

/* (mutex held) What is heard no more may have been said. */
static void stop_listening(struct master *m)
{
	m->listens = NULL;
	m->state = CONNECTS;
	m->until_ns = 0;
}

static bool look(const struct dlk_endpoint *ep, bool begins)
{
	struct address last = { .port = 0 };
	struct dlk_conn *ended = NULL;
	struct master *m;
	bool switched;

	pthread_mutex_lock(&mutex);
	m = master_of(ep);
	if (!m || m->busy || !m->at.port || dlk_now_ns() < m->again_ns ||
	    !(begins || m->listens))
		m = NULL;
	else
		m->busy = true;
	pthread_mutex_unlock(&mutex);
	if (!m)
		return false;
	if (listen_on(m, &last))
		ended = m->listens;
	pthread_mutex_lock(&mutex);
	if (ended) {
		stop_listening(m);
		m->again_ns = dlk_now_ns() + LISTEN_AGAIN_MS * DLK_MS;
	}
	switched = is_switched(m, &last);
	m->heard_ns = dlk_now_ns();
	m->busy = false;
	pthread_mutex_unlock(&mutex);
	dlk_conn_delete(ended);
	return switched;
}

bool dlk_sentinel_look(const struct dlk_endpoint *ep)
{
	return look(ep, true);
}

bool dlk_sentinel_hear(const struct dlk_endpoint *ep)
{
	return look(ep, false);
}

/*
 * Where nobody answers it is not asked again for a while: for as long as an answer
 * counts that nobody listens after.  (What is in doubt is asked for by who opens the
 * next connection.)
 */
static bool is_to_verify(struct search *s, bool again, bool *to_hear)
{
	const uint64_t now = dlk_now_ns();
	struct master *m;
	bool verify = false;

	DLK_GUARD(&mutex);
	m = begin(s);
	*to_hear = again && m && now > m->heard_ns + HEAR_MS * DLK_MS;
	if (m && m->at.port && now >= m->until_ns &&
	    (again || m->doubts == s->doubts)) {
		verify = true;
		believe(m, FRESH_MS);
	}
	return verify;
}

void dlk_sentinel_verify(const struct dlk_endpoint *ep,
			 const struct dlk_patience *wait, bool again)
{
	struct dlk_patience brief = *wait;
	struct search s = { .ep = ep, .wait = &brief };
	const uint64_t by = dlk_now_ns() + VERIFY_MS * DLK_MS;
	bool verify, hear;
	struct address a;
	struct master *m;
	char why[256];

	verify = is_to_verify(&s, again, &hear);
	if (hear)
		dlk_sentinel_look(ep);
	if (!verify)
		return;
	brief.deadline_ns = by < wait->deadline_ns ? by : wait->deadline_ns;
	s.why = why;
	s.size = sizeof(why);
	if (search(&s, &a))
		return;
	DLK_GUARD(&mutex);
	m = master_of(ep);
	if (!m || !is_news(m, &s))
		return;
	was_said(m);
	/* (Who names the one before still ends no doubt about it.) */
	if (!same_address(&a, &m->reigns))
		is_switched(m, &a);
}

int dlk_sentinel_fd(const struct dlk_endpoint *ep)
{
	struct master *m;
	int fd = -1;

	DLK_GUARD(&mutex);
	m = master_of(ep);
	if (m && m->listens && m->state != CONNECTS && !m->busy)
		fd = dlk_conn_fd(m->listens);
	return fd;
}

void dlk_sentinel_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (struct master *m = masters; m < masters + MASTERS && m->ep; m++) {
		dlk_conn_forget(m->listens);
		stop_listening(m);
		m->busy = false;
		m->again_ns = 0;
	}
}
