/* SPDX-License-Identifier: MIT */
/* Who listens; see subscription.h. */
#include "redis/subscription.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "model/text.h"
#include "model/timeline.h"
#include "model/token.h"
#include "os/guard.h"
#include "os/sys.h"
#include "redis/script.h"

enum { SUBSCRIPTIONS = 128 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct dlk_subscription
	subscriptions[SUBSCRIPTIONS]; /* guarded by the mutex */
static int used; /* places from the first one on; likewise */

#define CHANNEL "dlock%wake:"

/* A user that may not SUBSCRIBE is one for a while. */
enum { REFUSED_MS = 10000 };

/* "{TAG}", or "". */
struct slot_tag {
	char text[2 + DLK_TAG_LEN + 1];
};

static struct slot_tag tag_of(int slot)
{
	char tag[DLK_TAG_LEN + 1];
	struct slot_tag in = { "" };
	struct dlk_text t = dlk_text_in(in.text, sizeof(in.text));

	if (slot != DLK_NO_SLOT) {
		dlk_slot_tag(slot, tag);
		dlk_text_strs(&t, "{", tag, "}", NULL);
	}
	return in;
}

struct dlk_subscription *dlk_subscription_get(const struct dlk_endpoint *ep,
					      int slot)
{
	const struct slot_tag tag = tag_of(slot);
	struct dlk_subscription *found = NULL;

	pthread_mutex_lock(&mutex);
	for (int i = 0; i < used && !found; i++)
		if (!subscriptions[i].busy && subscriptions[i].conn &&
		    subscriptions[i].conn->ep == ep &&
		    strncmp(subscriptions[i].channel, tag.text,
			    strlen(tag.text)) == 0 &&
		    dlk_conn_is_open(subscriptions[i].conn))
			found = &subscriptions[i];
	if (found)
		found->busy = true;
	pthread_mutex_unlock(&mutex);
	/* What was said meanwhile; or the server has closed it. */
	if (found && dlk_subscription_heard(found, "") < 0) {
		dlk_subscription_close(found);
		dlk_subscription_put(found);
		return NULL;
	}
	return found;
}

/*
 * (mutex held) A place: one that was never used, or one to be opened anew; of
 * another server, if there is none of this one.
 */
static struct dlk_subscription *find_place(const struct dlk_endpoint *ep)
{
	struct dlk_subscription *other = NULL;

	for (int i = 0; i < SUBSCRIPTIONS; i++) {
		struct dlk_subscription *w = &subscriptions[i];

		if (used <= i)
			used = i + 1;
		if (!w->busy && (!w->conn || w->conn->ep == ep))
			return w;
		if (!w->busy)
			other = w;
	}
	return other;
}

/* Its connection, closed; NULL: no memory. */
static struct dlk_conn *conn_of(struct dlk_subscription *w,
				const struct dlk_endpoint *ep)
{
	struct dlk_conn *c = w->conn, *old = NULL;

	if (!c || c->ep != ep) {
		old = c;
		c = dlk_conn_new(ep);
	}
	if (!c)
		return NULL;
	dlk_conn_close(c);
	c->only_listens = true;
	pthread_mutex_lock(&mutex);
	w->conn = c;
	if (old)
		w->refused_ns = 0;
	pthread_mutex_unlock(&mutex);
	dlk_conn_delete(old);
	return c;
}

static int subscribe(struct dlk_subscription *w, int slot, uint64_t deadline_ns)
{
	char name[sizeof(CHANNEL) + sizeof(w->channel)];
	const struct slot_tag tag = tag_of(slot);
	struct dlk_arg args[2] = { { DLK_LITERAL("SUBSCRIBE") } };
	struct dlk_token random;
	struct dlk_text channel = dlk_text_in(w->channel, sizeof(w->channel));
	struct dlk_text t = dlk_text_in(name, sizeof(name));
	uint8_t bytes[16];
	const redisReply *r;
	int err;

	dlk_random(bytes, sizeof(bytes));
	dlk_token_random(&random, bytes);
	dlk_text_strs(&channel, tag.text, random.random, NULL);
	dlk_text_strs(&t, CHANNEL, w->channel, NULL);
	if (slot != DLK_NO_SLOT)
		args[0] = (struct dlk_arg){ DLK_LITERAL("SSUBSCRIBE") };
	args[1] = (struct dlk_arg){ name, t.len };
	w->conn->clustered = slot != DLK_NO_SLOT;
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

int dlk_subscription_new(const struct dlk_endpoint *ep, int slot,
			 uint64_t deadline_ns, struct dlk_subscription **w,
			 char *why)
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
	if ((*w)->conn && (*w)->conn->ep == ep &&
	    dlk_now_ns() < (*w)->refused_ns) {
		strcpy(why, "it was refused a moment ago");
		err = -EPERM;
	} else if (!(c = conn_of(*w, ep))) {
		strcpy(why, "no memory for a connection");
		err = -ENOMEM;
	} else {
		err = subscribe(*w, slot, deadline_ns);
		if (!err)
			return 0;
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

/* The slot is another node's from now on: nothing more is said here. */
static bool is_over(const redisReply *r)
{
	return r->type == REDIS_REPLY_ARRAY && r->elements &&
	       r->element[0]->type == REDIS_REPLY_STRING &&
	       strcmp(r->element[0]->str, "sunsubscribe") == 0;
}

int dlk_subscription_heard(struct dlk_subscription *w, const char *to)
{
	const redisReply *r;
	int err, heard = 0;

	while ((err = dlk_conn_take(w->conn, &r)) == 0) {
		int said = word(r, to);

		if (is_over(r)) {
			err = -EREMOTE;
			break;
		}
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
	DLK_GUARD(&mutex);
	w->busy = false;
}

void dlk_subscription_close(struct dlk_subscription *w)
{
	dlk_conn_close(w->conn);
}

void dlk_subscriptions_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (int i = 0; i < used; i++)
		dlk_conn_forget(subscriptions[i].conn);
	memset(subscriptions, 0, sizeof(subscriptions));
	used = 0;
}
