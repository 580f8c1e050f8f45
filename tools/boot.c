/* SPDX-License-Identifier: MIT */
/* The boot id; see boot.h. */
#include "tools/boot.h"

#include <stddef.h>
#include <sys/types.h>

#include "os/sys.h"

/* As the kernel tells it, without its dashes. */
void boot_id(char boot[BOOT_ID + 1])
{
	char text[64];
	ssize_t n = dlk_slurp("/proc/sys/kernel/random/boot_id", text,
			      sizeof(text));
	size_t at = 0;

	for (ssize_t i = 0; i < n && at < BOOT_ID; i++)
		if (text[i] != '-' && text[i] != '\n')
			boot[at++] = text[i];
	boot[at] = '\0';
}
