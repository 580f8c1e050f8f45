/* SPDX-License-Identifier: MIT */
/* This host; see boot.h. */
#include "tools/boot.h"

#include <string.h>
#include <unistd.h>

#include "os/sys.h"

/* The boot id is as the kernel tells it, without its dashes. */
void boot_host(const char *host_id, char word[DLK_WORD_MAX])
{
	char text[64];
	ssize_t n = dlk_slurp("/proc/sys/kernel/random/boot_id", text,
			      sizeof(text));
	size_t at = 0;

	for (ssize_t i = 0; i < n && at < BOOT_ID; i++)
		if (text[i] != '-' && text[i] != '\n')
			word[at++] = text[i];
	word[at] = '\0';
	if (!host_id[0])
		return;
	/* As identity.c has it. */
	if (!at) {
		strcpy(word, "unknown");
		at = strlen(word);
	}
	word[at++] = ':';
	dlk_word(word + at, DLK_WORD_MAX - 40, host_id, strlen(host_id));
}

void boot_hostname(char word[DLK_WORD_MAX])
{
	char name[256] = "";

	gethostname(name, sizeof(name) - 1);
	dlk_word(word, DLK_WORD_MAX, name, strlen(name));
}
