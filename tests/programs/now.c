/* SPDX-License-Identifier: MIT */
/* Print CLOCK_BOOTTIME in nanoseconds. */
#include <stdio.h>
#include <time.h>

int main(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_BOOTTIME, &t))
		return 1;
	printf("%lld\n", t.tv_sec * 1000000000LL + t.tv_nsec);
	return 0;
}
