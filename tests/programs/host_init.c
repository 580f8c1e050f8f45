/* SPDX-License-Identifier: MIT */
/*
 * Process 1 of a host of the rig: says "up", reaps orphans, and lives until
 * it is killed; the kernel then kills every process of the host with it
 * (pid_namespaces(7)), as a power cut would.
 */
#include <signal.h>
#include <unistd.h>

int main(void)
{
	/* Children of ours that end leave no zombie: wait(2), NOTES. */
	signal(SIGCHLD, SIG_IGN);
	if (write(STDOUT_FILENO, "up\n", 3) != 3)
		return 1;
	close(STDOUT_FILENO);
	for (;;)
		pause();
}
