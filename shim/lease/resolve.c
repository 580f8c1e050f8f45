/* SPDX-License-Identifier: MIT */
/* Names to addresses; see resolve.h. */
#include "lease/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lease/sys.h"
#include "model/timeline.h"

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
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		*len = sizeof(*v6);
		return 0;
	}
	return -EINVAL;
}

/* All that arrives until the end of the pipe, or the deadline: then false. */
static bool drain(int fd, char *buf, size_t size, uint64_t deadline_ns)
{
	size_t len = 0;

	while (len < size - 1) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = dlk_now_ns();
		ssize_t n;

		if (now >= deadline_ns)
			break;
		n = dlk_poll(&p, 1,
			     (unsigned)((deadline_ns - now) / DLK_MS) + 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		n = dlk_syscall(SYS_read, fd, buf + len, size - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	buf[len] = '\0';
	return true;
}

/* "127.0.0.1       STREAM localhost": the first word of the first line. */
static int by_name(const char *host, uint32_t port, uint64_t deadline_ns,
		   struct sockaddr_storage *addr, socklen_t *len)
{
	char name[256], text[512];
	char arg0[] = "getent", arg1[] = "ahosts", arg2[] = "--";
	char *argv[] = { arg0, arg1, arg2, name, NULL };
	char *envp[] = { NULL };
	int fds[2];
	pid_t pid;

	strncpy(name, host, sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	if (dlk_syscall(SYS_pipe2, fds, O_CLOEXEC) < 0)
		return -errno;
	pid = dlk_spawn("/usr/bin/getent", argv, envp, fds[1], -1, true);
	dlk_close(fds[1]);
	if (pid > 0)
		drain(fds[0], text, sizeof(text), deadline_ns);
	dlk_close(fds[0]);
	/* Not killed: it may be reaped, and its pid another's. */
	for (int i = 0; pid > 0 && i < 10 && !dlk_reap(pid, "getent"); i++)
		dlk_pause_ns(DLK_MS);
	if (pid < 0)
		return pid;
	text[strcspn(text, " \t\n")] = '\0';
	return numeric(text, port, addr, len) < 0 ? -EHOSTUNREACH : 0;
}

int dlk_resolve(const struct dlk_endpoint *ep, uint64_t deadline_ns,
		struct sockaddr_storage *addr, socklen_t *len)
{
	struct sockaddr_un *un = (struct sockaddr_un *)addr;

	if (ep->scheme != DLK_UNIX) {
		if (numeric(ep->host, ep->port, addr, len) == 0)
			return 0;
		return by_name(ep->host, ep->port, deadline_ns, addr, len);
	}
	memset(addr, 0, sizeof(*addr));
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, ep->path, strnlen(ep->path, sizeof(ep->path)));
	*len = sizeof(*un);
	return 0;
}
