/* SPDX-License-Identifier: MIT */
/* Names to addresses; see resolve.h. */
#include "redis/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/spawn.h"
#include "os/spawn_own.h"
#include "os/sys.h"
#include "model/text.h"
#include "model/timeline.h"

enum { SLICE_MS = 20 };

static const char getent[] = "/usr/bin/getent";

/* Behind a '%' the number of its link's interface, as getent(1) prints it. */
static bool read_v6(const char *host, struct sockaddr_in6 *v6)
{
	const size_t len = strcspn(host, "%");
	char address[INET6_ADDRSTRLEN] = "";
	uint64_t link = 0;
	const char *end = host + len;

	if (*end)
		end = dlk_number(end + 1, 10, &link);
	if (!end || *end || link > UINT32_MAX || len >= sizeof(address))
		return false;
	memcpy(address, host, len);
	v6->sin6_scope_id = (uint32_t)link;
	return inet_pton(AF_INET6, address, &v6->sin6_addr) == 1;
}

/* One more, if it is a numeric one. */
static bool add(struct dlk_addresses *to, const char *host, uint32_t port)
{
	struct sockaddr_storage *at = &to->v[to->n].at;
	struct sockaddr_in *v4 = (struct sockaddr_in *)at;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)at;

	memset(at, 0, sizeof(*at));
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		to->v[to->n++].len = sizeof(*v4);
		return true;
	}
	if (read_v6(host, v6)) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		to->v[to->n++].len = sizeof(*v6);
		return true;
	}
	return false;
}

int dlk_patience_wait(int fd, const struct dlk_patience *wait)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = 0;

	while (n == 0 || (n < 0 && errno == EINTR)) {
		if (wait->interrupt && wait->interrupt(wait->arg))
			return -EINTR;
		if (dlk_now_ns() >= wait->deadline_ns)
			return 0;
		n = dlk_poll(&p, 1, SLICE_MS);
	}
	return n < 0 ? -errno : 1;
}

/* High, and known to be ours: the program may close what it did not open. */
static int make_pipe(struct dlk_own *in, struct dlk_own *out)
{
	int fds[2];

	if (dlk_syscall(SYS_pipe2, fds, O_CLOEXEC) < 0)
		return -errno;
	return dlk_own_take_pair(in, out, fds);
}

static int begin(struct dlk_lookup *l, const char *host)
{
	char arg0[] = "getent", arg1[] = "ahosts", arg2[] = "--";
	char *name = (char *)(uintptr_t)host; /* only read */
	char *argv[] = { arg0, arg1, arg2, name, NULL };
	char *envp[] = { NULL };
	struct dlk_own out = { .fd = -1 };
	int err = make_pipe(&l->in, &out);

	if (err)
		return err;
	l->len = 0;
	l->pid = dlk_spawn(getent, argv, envp, out.fd, -1, true);
	dlk_own_close(&out);
	return l->pid < 0 ? l->pid : 0;
}

/* (Only its start can fail of these.)  An address needs nobody to look it up. */
void dlk_resolve_explain(struct dlk_text *t, int err)
{
	const bool lacks = err == -ENOENT || err == -EACCES;

	dlk_text_strs(t, lacks ? ": " : "", lacks ? getent : "", ": ",
		      dlk_spawn_why(err), NULL);
	if (lacks)
		dlk_text_str(t, " (is it in this root?  Else write the address "
				"in url)");
	else if (err == -EXDEV)
		dlk_text_str(t, " (write the address in url)");
}

void dlk_lookup_end(struct dlk_lookup *l)
{
	dlk_own_close(&l->in);
	/* Not killed: it may be reaped, and its pid another's. */
	if (l->pid > 0)
		dlk_reap(l->pid, "getent");
	l->pid = 0;
}

/* It has said all; its end is a moment later. */
static void end(struct dlk_lookup *l)
{
	for (int i = 0; l->pid > 0 && i < 10; i++) {
		if (dlk_reap(l->pid, "getent"))
			l->pid = 0;
		else
			dlk_pause_ns(DLK_MS);
	}
	dlk_lookup_end(l);
}

/* What there is of its answer: 0, that is all; -EINPROGRESS, -errno. */
static int read_some(struct dlk_lookup *l)
{
	struct pollfd p = { .fd = l->in.fd, .events = POLLIN };
	long n;

	while (l->len < sizeof(l->text) - 1) {
		/* Else what is meant for the program would be lost to it. */
		if (!dlk_own_check(&l->in))
			return -EBADF;
		if (dlk_poll(&p, 1, 0) <= 0)
			return -EINPROGRESS;
		n = dlk_syscall(SYS_read, l->in.fd, l->text + l->len,
				sizeof(l->text) - 1 - l->len);
		if (n <= 0)
			return 0;
		l->len += (size_t)n;
	}
	return 0;
}

/*
 * "127.0.0.1       STREAM localhost", and the same once more by DGRAM and RAW:
 * of each whole line that is of a stream the first word.
 */
static int read_addresses(struct dlk_lookup *l, uint32_t port,
			  struct dlk_addresses *to)
{
	char *line = l->text, *end;

	l->text[l->len] = '\0';
	for (; to->n < DLK_ADDRESSES_MAX && (end = strchr(line, '\n'));
	     line = end + 1) {
		char *rest = line + strcspn(line, " \t\n");

		*end = '\0';
		if (*rest)
			*rest++ = '\0';
		rest += strspn(rest, " \t");
		if (strncmp(rest, "STREAM", 6) == 0)
			add(to, line, port);
	}
	return to->n ? 0 : -EHOSTUNREACH;
}

static int look_up(const struct dlk_endpoint *ep, uint64_t deadline_ns,
		   struct dlk_lookup *l, struct dlk_addresses *to)
{
	int err = l->in.fd < 0 ? begin(l, ep->host) : 0;

	to->by_name = true;
	if (!err)
		err = read_some(l);
	if (err == -EINPROGRESS &&
	    (dlk_now_ns() < deadline_ns || !memchr(l->text, '\n', l->len)))
		return err;
	if (!err || err == -EINPROGRESS)
		err = read_addresses(l, ep->port, to);
	end(l);
	return err;
}

int dlk_resolve(const struct dlk_endpoint *ep, uint64_t deadline_ns,
		struct dlk_lookup *l, struct dlk_addresses *to)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&to->v[0].at;

	to->n = 0;
	to->by_name = false;
	if (ep->scheme != DLK_UNIX && !add(to, ep->host, ep->port))
		return look_up(ep, deadline_ns, l, to);
	if (ep->scheme != DLK_UNIX)
		return 0;
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, ep->path, strnlen(ep->path, sizeof(ep->path)));
	to->v[0].len = sizeof(*un);
	to->n = 1;
	return 0;
}

void dlk_put_address(struct dlk_text *t, const struct sockaddr_storage *at)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)at;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)at;
	const bool is_v4 = at->ss_family == AF_INET;
	const void *bytes = is_v4 ? (const void *)&v4->sin_addr
				  : (const void *)&v6->sin6_addr;
	char text[INET6_ADDRSTRLEN];

	dlk_text_str(t, inet_ntop(at->ss_family, bytes, text, sizeof(text))
				? text
				: "?");
	if (is_v4 || !v6->sin6_scope_id)
		return;
	dlk_text_str(t, "%");
	dlk_text_u64(t, v6->sin6_scope_id, 1);
}
