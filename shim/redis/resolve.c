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

#include "os/sys.h"
#include "model/text.h"
#include "model/timeline.h"

enum { SLICE_MS = 20 };

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

static int numeric(const char *host, uint32_t port,
		   struct sockaddr_storage *addr, socklen_t *len)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)addr;

	memset(addr, 0, sizeof(*addr));
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		*len = sizeof(*v4);
		return 0;
	}
	if (read_v6(host, v6)) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		*len = sizeof(*v6);
		return 0;
	}
	return -EINVAL;
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

/*
 * All that arrives until the end of the pipe, or for as long as is waited: then it
 * must be a line at least.
 */
static int drain(const struct dlk_own *in, char *buf, size_t size,
		 const struct dlk_patience *wait)
{
	size_t len = 0;
	long n = 1;
	int err = 1;

	while (n > 0 && len < size - 1 &&
	       (err = dlk_patience_wait(in->fd, wait)) > 0) {
		/* Else what is meant for the program would be lost to it. */
		if (!dlk_own_check(in))
			return -EBADF;
		n = dlk_syscall(SYS_read, in->fd, buf + len, size - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	buf[len] = '\0';
	if (err == 0 && !strchr(buf, '\n'))
		err = -ETIMEDOUT;
	return err < 0 ? err : 0;
}

/* High, and known to be ours: the program may close what it did not open. */
static int make_pipe(struct dlk_own *in, struct dlk_own *out)
{
	int fds[2];

	if (dlk_syscall(SYS_pipe2, fds, O_CLOEXEC) < 0)
		return -errno;
	return dlk_own_take_pair(in, out, fds);
}

/* "127.0.0.1       STREAM localhost": the first word of the first line. */
static int ask(const char *host, char *text, size_t size,
	       const struct dlk_patience *wait)
{
	char arg0[] = "getent", arg1[] = "ahosts", arg2[] = "--";
	char *name = (char *)(uintptr_t)host; /* only read */
	char *argv[] = { arg0, arg1, arg2, name, NULL };
	char *envp[] = { NULL };
	struct dlk_own in = { .fd = -1 }, out = in;
	int err = make_pipe(&in, &out);
	pid_t pid;

	if (err)
		return err;
	pid = dlk_spawn("/usr/bin/getent", argv, envp, out.fd, -1, true);
	dlk_own_close(&out);
	err = pid < 0 ? pid : drain(&in, text, size, wait);
	dlk_own_close(&in);
	/* Not killed: it may be reaped, and its pid another's. */
	for (int i = 0; pid > 0 && i < 10 && !dlk_reap(pid, "getent"); i++)
		dlk_pause_ns(DLK_MS);
	text[strcspn(text, " \t\n")] = '\0';
	return err;
}

int dlk_resolve(const struct dlk_endpoint *ep, const struct dlk_patience *wait,
		struct sockaddr_storage *addr, socklen_t *len)
{
	struct sockaddr_un *un = (struct sockaddr_un *)addr;
	char text[512] = "";
	int err;

	if (ep->scheme == DLK_UNIX) {
		memset(addr, 0, sizeof(*addr));
		un->sun_family = AF_UNIX;
		memcpy(un->sun_path, ep->path,
		       strnlen(ep->path, sizeof(ep->path)));
		*len = sizeof(*un);
		return 0;
	}
	if (numeric(ep->host, ep->port, addr, len) == 0)
		return 0;
	err = ask(ep->host, text, sizeof(text), wait);
	if (err)
		return err;
	return numeric(text, ep->port, addr, len) < 0 ? -EHOSTUNREACH : 0;
}
