/* SPDX-License-Identifier: MIT */
/* What the replicas have as well; see replicas.h. */
#include "redis/replicas.h"

#include <errno.h>

#include "model/text.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "redis/fault.h"

/*
 * How long the server waits.  It answers nothing else on this connection
 * meanwhile, so it is to be through before we give the connection up; and 0
 * would be for ever.
 */
static uint64_t patience_ms(uint64_t deadline_ns)
{
	const uint64_t now = dlk_now_ns();
	const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;

	return left * 3 / 4 / DLK_MS ?: 1;
}

int dlk_replicas_ask(struct dlk_conn *c, uint64_t deadline_ns)
{
	struct dlk_number n, ms;
	int err;

	if (!c->ep->replicas)
		return 0;
	const struct dlk_arg args[] = {
		{ DLK_LITERAL("WAIT") },
		dlk_arg_number(&n, c->ep->replicas, 0),
		dlk_arg_number(&ms, patience_ms(deadline_ns), 0),
	};

	err = dlk_conn_append(c, 3, args);
	if (err == -ENOBUFS)
		err = dlk_conn_flush(c, deadline_ns)
			      ?: dlk_conn_append(c, 3, args);
	return err;
}

static int explain(struct dlk_conn *c, uint64_t have)
{
	struct dlk_text t = dlk_text_in(c->error, sizeof(c->error));

	dlk_text_str(&t, "replicas = ");
	dlk_text_u64(&t, c->ep->replicas, 0);
	dlk_text_str(&t, ", and ");
	if (have)
		dlk_text_u64(&t, have, 0);
	else
		dlk_text_str(&t, "none");
	dlk_text_str(&t, " had it in time (are they there, and do they follow "
			 "this master?)");
	c->unconfirmed = true;
	return -ETIMEDOUT;
}

int dlk_replicas_have(struct dlk_conn *c, uint64_t deadline_ns)
{
	const redisReply *r;
	int err;

	if (!c->ep->replicas)
		return 0;
	err = dlk_conn_reply(c, deadline_ns, &r);
	if (err)
		return err;
	if (r->type == REDIS_REPLY_INTEGER)
		return (uint64_t)r->integer >= c->ep->replicas
			       ? 0
			       : explain(c, (uint64_t)r->integer);
	c->unconfirmed = true;
	if (r->type != REDIS_REPLY_ERROR) {
		dlk_conn_set_error(c, "an answer to WAIT of another type");
		return -EREMOTEIO;
	}
	dlk_conn_explain(c, r->str);
	return dlk_fault_errno(r->str);
}

int dlk_replicas_ignore(struct dlk_conn *c)
{
	return c->ep->replicas ? dlk_conn_defer(c, NULL, NULL, NULL) : 0;
}

int dlk_replicas_confirm(struct dlk_conn *c, uint64_t deadline_ns)
{
	if (!c->ep->replicas)
		return 0;
	return dlk_replicas_ask(c, deadline_ns)
		?: dlk_conn_flush(c, deadline_ns)
		?: dlk_replicas_have(c, deadline_ns);
}
