/* SPDX-License-Identifier: MIT */
/*
 * Set-user-ID root, it becomes root altogether, as sudo(8) does: who started it may
 * not send it a signal any more (kill(2)).  Says "runs PID"; then a line of input is
 * the status that it ends with.
 */
#include "tests/lib/helper.h"

int main(void)
{
	char line[16] = "";

	if (setresuid(0, 0, 0))
		die("setresuid");
	printf("runs %d\n", (int)getpid());
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	return (int)strtol(line, NULL, 10);
}
