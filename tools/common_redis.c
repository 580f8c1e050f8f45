/* SPDX-License-Identifier: MIT */
/* Does a server answer?  See common.h. */
#include "tools/common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "model/text.h"
#include "redis/conn.h"
#include "redis/tls.h"
#include "os/sys.h"

uint64_t tool_deadline(const struct dlk_endpoint *ep)
{
	return dlk_now_ns() + ep->connect_timeout_ms * UINT64_C(1000000);
}

int tool_listens(const char *path, int type)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return -errno;
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		err = -errno;
	close(fd);
	return err;
}

bool tool_same_server(const struct dlk_endpoint *a,
		      const struct dlk_endpoint *b)
{
	return a->scheme == b->scheme && a->port == b->port && a->db == b->db &&
	       !strcmp(a->host, b->host) && !strcmp(a->path, b->path);
}

int tool_call(struct dlk_conn *c, int argc, const struct dlk_arg *args,
	      const redisReply **reply)
{
	const uint64_t deadline = tool_deadline(c->ep);
	int err = dlk_conn_open(c, deadline);

	return err ? err : dlk_conn_call(c, deadline, argc, args, reply);
}

const char *tool_why(const struct dlk_conn *c, int err)
{
	return c && *c->error ? c->error : strerror(-err);
}

/*
 * What all of a user's commands, or this one, are answered with.  (It stands first,
 * or behind a Sentinel's name.)
 */
static bool is_denied(const char *error)
{
	static const char *const words[] = { "NOPERM ", "NOAUTH ",
					     "WRONGPASS " };

	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strstr(error, words[i]))
			return true;
	return false;
}

int tool_refusal(struct dlk_conn *c, const redisReply *reply)
{
	dlk_conn_explain(c, reply->str);
	return is_denied(reply->str) ? -EACCES : -EREMOTEIO;
}

/* -EACCES is all that keeps one from logging in (redis/conn.h), too. */
enum tool_bar tool_bar(const struct dlk_conn *c, int err)
{
	if (c && c->lacks_file)
		return TOOL_UNREADY;
	switch (err) {
	case -EACCES:
		return c && is_denied(c->error) ? TOOL_DENIED : TOOL_REFUSED;
	case -EREMOTEIO:
	case -EPROTO:
	case -EAGAIN:
		return TOOL_REFUSED;
	default:
		return TOOL_SILENT;
	}
}

int tool_bar_exit(enum tool_bar bar)
{
	return bar == TOOL_UNREADY  ? DLK_EXIT_CONFIG
	       : bar == TOOL_DENIED ? DLK_EXIT_DENIED
				    : DLK_EXIT_UNAVAILABLE;
}

const char *tool_bar_words(enum tool_bar bar)
{
	return bar == TOOL_SILENT ? "does not answer" : "cannot be used";
}

uint64_t tool_info(const char *info, const char *name, uint64_t otherwise)
{
	size_t len = strlen(name);
	uint64_t n;

	for (const char *p = info; (p = strstr(p, name)); p += len)
		if ((p == info || p[-1] == '\n') && p[len] == ':')
			return dlk_number(p + len + 1, 10, &n) ? n : otherwise;
	return otherwise;
}

static bool begins(const char *error, const char *word)
{
	return !strncmp(error, word, strlen(word));
}

/* (By rename-command, or its age, a server knows none of a name.) */
bool tool_is_forbidden(const redisReply *reply)
{
	return reply && reply->type == REDIS_REPLY_ERROR &&
	       (begins(reply->str, "NOPERM") ||
		begins(reply->str, "ERR unknown command") ||
		begins(reply->str, "ERR unknown subcommand"));
}

void tool_begin(const char *name)
{
	tool_name = name;
	dlk_tls_begin_beside_program();
}

enum tool_bar tool_ping(const struct dlk_endpoint *ep, char *why, size_t size)
{
	const struct dlk_arg ping[] = { { DLK_LITERAL("PING") } };
	struct dlk_conn *c = dlk_conn_new(ep);
	const redisReply *reply;
	enum tool_bar bar = 0;
	int err = c ? tool_call(c, 1, ping, &reply) : -ENOMEM;

	if (!err && reply->type == REDIS_REPLY_ERROR &&
	    !tool_is_forbidden(reply))
		err = tool_refusal(c, reply);
	if (err) {
		snprintf(why, size, "%s", tool_why(c, err));
		bar = tool_bar(c, err);
	}
	dlk_conn_delete(c);
	return bar;
}
