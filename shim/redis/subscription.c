/* SPDX-License-Identifier: MIT */
/* Who listens; see subscription.h. */
#include "redis/subscription.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "model/text.h"
#include "model/timeline.h"
#include "model/token.h"
#include "os/sys.h"
#include "redis/script.h"

enum { SUBSCRIPTIONS = 128 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct dlk_subscription
	subscriptions[SUBSCRIPTIONS]; /* guarded by the mutex */

#define CHANNEL "dlock%wake:"

/* A user that may not SUBSCRIBE is one for a while. */
enum { REFUSED_MS = 10000 };

struct dlk_subscription *dlk_subscription_get(const struct dlk_endpoint *ep)
{
	struct dlk_subscription *found = NULL;

	pthread_mutex_lock(&mutex);
	for (int i = 0; i < SUBSCRIPTIONS && !found && subscriptions[i].conn;
	     i++)
		if (subscriptions[i].conn->ep == ep && !subscriptions[i].busy &&
		    dlk_conn_is_open(subscriptions[i].conn))
			found = &subscriptions[i];
	if (found)
		found->busy = true;
	pthread_mutex_unlock(&mutex);
	/* What was said meanwhile; or the server has closed it. */
	if (found && dlk_subscription_heard(found, "") < 0) {
		dlk_subscription_put(found);
		return NULL;
	}
	return found;
}

/* (mutex held) A place: one that was never used, or one to be opened anew. */
static struct dlk_subscription *find_place(const struct dlk_endpoint *ep)
{
	for (int i = 0; i < SUBSCRIPTIONS; i++) {
		struct dlk_subscription *w = &subscriptions[i];

		if (!w->busy && (!w->conn || w->conn->ep == ep))
			return w;
	}
	return NULL;
}

static int subscribe(struct dlk_subscription *w, uint64_t deadline_ns)
{
	char name[sizeof(CHANNEL) + DLK_RANDOM_LEN] = CHANNEL;
	const struct dlk_arg args[] = {
		{ DLK_LITERAL("SUBSCRIBE") },
		{ name, sizeof(name) - 1 },
	};
	struct dlk_token random;
	uint8_t bytes[16];
	const redisReply *r;
	int err;

	dlk_random(bytes, sizeof(bytes));
	dlk_token_random(&random, bytes);
	memcpy(w->channel, random.random, sizeof(w->channel));
	memcpy(name + sizeof(CHANNEL) - 1, w->channel, sizeof(w->channel));
	err = dlk_conn_open(w->conn, deadline_ns)
		      ?: dlk_conn_call(w->conn, deadline_ns, 2, args, &r);
	if (err || r->type == REDIS_REPLY_ARRAY)
		return err;
	err = dlk_script_refused(w->conn, r);
	if (err != -EREMOTEIO)
		return err;
	w->refused_ns = dlk_now_ns() + REFUSED_MS * DLK_MS;
	return -EPERM;
}

int dlk_subscription_new(const struct dlk_endpoint *ep, uint64_t deadline_ns,
			 struct dlk_subscription **w, char *why)
{
	struct dlk_conn *c;
	int err;

	pthread_mutex_lock(&mutex);
	*w = find_place(ep);
	if (*w)
		(*w)->busy = true;
	pthread_mutex_unlock(&mutex);
	if (!*w)
		return -EMFILE;
	if (dlk_now_ns() < (*w)->refused_ns) {
		strcpy(why, "it was refused a moment ago");
		dlk_subscription_put(*w);
		*w = NULL;
		return -EPERM;
	}
	c = (*w)->conn ?: dlk_conn_new(ep);
	if (!c) {
		strcpy(why, "no memory for a connection");
		err = -ENOMEM;
	} else {
		dlk_conn_close(c);
		c->only_listens = true;
		pthread_mutex_lock(&mutex);
		(*w)->conn = c;
		pthread_mutex_unlock(&mutex);
		err = subscribe(*w, deadline_ns);
	}
	if (!err)
		return 0;
	if (c) {
		memcpy(why, c->error, sizeof(c->error));
		dlk_conn_close(c);
	}
	dlk_subscription_put(*w);
	*w = NULL;
	return err;
}

/* "message", channel, "granted DIGITS NUMBER" */
static int word(const redisReply *r, const char *to)
{
	const char *text, *space;

	if (r->type != REDIS_REPLY_ARRAY || r->elements != 3 ||
	    r->element[2]->type != REDIS_REPLY_STRING)
		return 0;
	text = r->element[2]->str;
	space = strchr(text, ' ');
	return space && to[0] && strcmp(space + 1, to) == 0 ? text[0] : 0;
}

int dlk_subscription_heard(struct dlk_subscription *w, const char *to)
{
	const redisReply *r;
	int err, heard = 0;

	while ((err = dlk_conn_take(w->conn, &r)) == 0) {
		int said = word(r, to);

		if (said)
			heard = said;
	}
	dlk_conn_reset(w->conn);
	return heard || err == -EAGAIN ? heard : err;
}

int dlk_subscription_fd(const struct dlk_subscription *w)
{
	return dlk_conn_fd(w->conn);
}

void dlk_subscription_put(struct dlk_subscription *w)
{
	pthread_mutex_lock(&mutex);
	w->busy = false;
	pthread_mutex_unlock(&mutex);
}

void dlk_subscription_close(struct dlk_subscription *w)
{
	dlk_conn_close(w->conn);
}

void dlk_subscriptions_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (int i = 0; i < SUBSCRIPTIONS && subscriptions[i].conn; i++)
		dlk_conn_forget(subscriptions[i].conn);
	memset(subscriptions, 0, sizeof(subscriptions));
}
