/* SPDX-License-Identifier: MIT */
/*
 * When processes end: "ready", then "PID NS" for each, as it does; and for each
 * line that it is told "all", when it has told of all that had ended by then.
 *
 *	deaths PID...
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "tests/lib/helper.h"

enum { MOST = 1024 };

static struct pollfd p[MOST + 1];

static void tell_of(char **pids, int n)
{
	const long long now = now_ns();
	char line[64];

	for (int i = 0; i < n; i++) {
		if (p[i].fd < 0 || !p[i].revents)
			continue;
		snprintf(line, sizeof(line), "%s %lld", pids[i], now);
		tell(line);
		close(p[i].fd);
		p[i].fd = -1;
	}
}

int main(int argc, char **argv)
{
	const int n = argc - 1;
	char line[64];

	if (n > MOST)
		return 64;
	for (int i = 0; i < n; i++) {
		p[i].fd = (int)syscall(SYS_pidfd_open,
				       strtol(argv[i + 1], NULL, 10), 0);
		p[i].events = POLLIN;
		if (p[i].fd < 0)
			die(argv[i + 1]);
	}
	p[n].fd = STDIN_FILENO;
	p[n].events = POLLIN;
	tell("ready");
	while (poll(p, (nfds_t)n + 1, -1) > 0) {
		tell_of(argv + 1, n);
		if (!p[n].revents)
			continue;
		if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
			return 0;
		tell("all");
	}
	return 1;
}
