/* SPDX-License-Identifier: MIT */
/* This host; see boot.h. */
#include "tools/boot.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

void boot_host(const char *host_id, char word[DLK_WORD_MAX])
{
	char boot[BOOT_ID + 1], id[DLK_WORD_MAX - 40] = "";

	boot_id(boot);
	if (host_id[0])
		dlk_word(id, sizeof(id), host_id, strlen(host_id));
	snprintf(word, DLK_WORD_MAX, "%s%s%s", boot, host_id[0] ? ":" : "", id);
}

void boot_hostname(char word[DLK_WORD_MAX])
{
	char name[256] = "";

	gethostname(name, sizeof(name) - 1);
	dlk_word(word, DLK_WORD_MAX, name, strlen(name));
}
