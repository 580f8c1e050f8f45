/* SPDX-License-Identifier: MIT */
/*
 * When processes end: "ready", then "PID NS" for each, as it does.
 *
 *	deaths PID...
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "tests/lib/helper.h"

enum { MOST = 1024 };

int main(int argc, char **argv)
{
	struct pollfd p[MOST];
	char line[64];
	int left = argc - 1;

	if (argc - 1 > MOST)
		return 64;
	for (int i = 0; i < argc - 1; i++) {
		p[i].fd = (int)syscall(SYS_pidfd_open,
				       strtol(argv[i + 1], NULL, 10), 0);
		p[i].events = POLLIN;
		if (p[i].fd < 0)
			die(argv[i + 1]);
	}
	tell("ready");
	while (left && poll(p, (nfds_t)(argc - 1), -1) > 0) {
		const long long now = now_ns();

		for (int i = 0; i < argc - 1; i++) {
			if (p[i].fd < 0 || !p[i].revents)
				continue;
			snprintf(line, sizeof(line), "%s %lld", argv[i + 1],
				 now);
			tell(line);
			close(p[i].fd);
			p[i].fd = -1;
			left--;
		}
	}
	return 0;
}
