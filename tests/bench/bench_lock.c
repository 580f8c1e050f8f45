/* SPDX-License-Identifier: MIT */
/*
 * What a lock costs, in one process.
 *
 *	bench_lock cycle PORT FILE N
 *		lock + unlock of FILE against PING on a TCP connection to
 *		127.0.0.1:PORT, in alternating blocks: "PING CYCLE LOCK"
 *	bench_lock calls FILE N
 *		flock(LOCK_EX) + flock(LOCK_UN): "NS"
 *
 * Prints medians in nanoseconds; of `calls`, per call.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/helper.h"

enum { BLOCK = 100 };

static int connected(const char *port)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void ping(int fd)
{
	static const char request[] = "*1\r\n$4\r\nPING\r\n";
	char reply[64];

	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0 ||
	    recv(fd, reply, sizeof(reply), 0) != 7)
		die("PING");
}

static long long *figures(size_t n)
{
	long long *v = calloc(n, sizeof(*v));

	if (!v)
		die("calloc");
	return v;
}

static void cycle(const char *port, const char *name, size_t n)
{
	long long *pings = figures(n), *locks = figures(n), *calls = figures(n);
	int sock = connected(port), fd = opened(name);

	ping(sock);
	if (flock(fd, LOCK_EX) || flock(fd, LOCK_UN))
		die("flock");
	for (size_t i = 0; i < n; i += BLOCK) {
		for (size_t k = i; k < i + BLOCK && k < n; k++) {
			long long t = now_ns();

			ping(sock);
			pings[k] = now_ns() - t;
		}
		for (size_t k = i; k < i + BLOCK && k < n; k++) {
			long long t = now_ns();

			if (flock(fd, LOCK_EX))
				die("lock");
			calls[k] = now_ns() - t;
			if (flock(fd, LOCK_UN))
				die("unlock");
			locks[k] = now_ns() - t;
		}
	}
	printf("%lld %lld %lld\n", median(pings, n), median(locks, n),
	       median(calls, n));
}

static void calls(const char *name, size_t n)
{
	long long *blocks = figures(n / BLOCK);
	int fd = opened(name);

	for (size_t i = 0; i < n / BLOCK; i++) {
		long long t = now_ns();

		for (int k = 0; k < BLOCK; k++)
			if (flock(fd, LOCK_EX) || flock(fd, LOCK_UN))
				die("flock");
		blocks[i] = (now_ns() - t) / (2 * BLOCK);
	}
	printf("%lld\n", median(blocks, n / BLOCK));
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "cycle") == 0)
		cycle(argv[2], argv[3], strtoul(argv[4], NULL, 10));
	else if (argc == 4 && strcmp(argv[1], "calls") == 0)
		calls(argv[2], strtoul(argv[3], NULL, 10));
	else
		return 64;
	return 0;
}
