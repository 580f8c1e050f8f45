/* SPDX-License-Identifier: MIT */
/* An entry more; see chronicle.h. */
#include "lease/chronicle.h"

#include <errno.h>
#include <string.h>

#include "model/text.h"
#include "redis/script.h"

#define KEPT_MS "2592000000" /* 30 days */

static struct dlk_arg name_of(struct dlk_conn *c, const char *key, size_t len)
{
	struct dlk_text t = dlk_text_in(c->work, sizeof(c->work));

	dlk_text_str(&t, "{");
	dlk_text_bytes(&t, key, len);
	dlk_text_str(&t, "}%h");
	return (struct dlk_arg){ c->work, t.len };
}

static int append(struct dlk_conn *c, const char *key, size_t key_len,
		  const struct dlk_chronicle_entry *e)
{
	struct dlk_number max, pid, lasted;
	const struct dlk_arg name = name_of(c, key, key_len);
	const struct dlk_arg xadd[] = {
		dlk_arg_str("XADD"),
		name,
		dlk_arg_str("MAXLEN"),
		dlk_arg_str("~"),
		dlk_arg_number(&max, DLK_CHRONICLE_MAX, 0),
		dlk_arg_str("*"),
		dlk_arg_str("what"),
		dlk_arg_str(e->what),
		dlk_arg_str("host"),
		dlk_arg_str(e->host),
		dlk_arg_str("who"),
		dlk_arg_str(e->who),
		dlk_arg_str("pid"),
		dlk_arg_number(&pid, e->pid, 0),
		dlk_arg_str("token"),
		dlk_arg_str(e->token),
		dlk_arg_str("lasted"),
		dlk_arg_number(&lasted, e->lasted_ms, 0),
	};
	const int words = sizeof(xadd) / sizeof(*xadd) -
			  (e->lasted_ms == DLK_LASTED_UNKNOWN ? 2 : 0);
	const struct dlk_arg expire[] = { dlk_arg_str("PEXPIRE"), name,
					  dlk_arg_str(KEPT_MS) };

	return dlk_conn_append(c, words, xadd) ?: dlk_conn_append(c, 3, expire);
}

static int judge(struct dlk_conn *c, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ERROR)
		return 0;
	if (!strncmp(reply->str, "NOPERM", strlen("NOPERM"))) {
		dlk_conn_explain(c, reply->str);
		return -EACCES;
	}
	return dlk_script_refused(c, reply);
}

int dlk_chronicle_add(struct dlk_conn *c, uint64_t deadline_ns, const char *key,
		      size_t key_len, const struct dlk_chronicle_entry *e)
{
	const redisReply *reply;
	int err = append(c, key, key_len, e) ?: dlk_conn_flush(c, deadline_ns);
	int one, result = 0;

	/* (One that is known to be out of date is closed: there is no more.) */
	for (int i = 0; i < 2 && !err && (!result || dlk_conn_is_open(c));
	     i++) {
		err = dlk_conn_reply(c, deadline_ns, &reply);
		one = err || result ? 0 : judge(c, reply);
		/* Where a slot arrives, who was sent there is let in for one
		   command: the entry is written, and the next one gives it its
		   time to live. */
		if (i == 0 || one != -EREMOTE)
			result = result ?: one;
	}
	return err ? err : result;
}
