/* SPDX-License-Identifier: MIT */
/*
 * A part of the build: print a C header with each script
 *
 *	DLK_LUA_name	its text
 *	DLK_SHA_name	the SHA-1 of that: the name that EVALSHA calls it by
 *			(Redis: EVALSHA)
 *	DLK_MID_name	how far SHA-1 has come behind its whole blocks, for
 *			who calls it by a name of its own (script.h)
 *
 * A line "--include FILE" stands for the text of FILE, beside the script, and
 * what that includes, where it stands first.
 */
#include <err.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/sha1.h"

enum { TEXT_MAX = 256 * 1024, FILES_MAX = 16 };

static char text[TEXT_MAX];
static size_t len;
static char seen[FILES_MAX][512];
static unsigned n_seen;

static bool is_new(const char *name)
{
	for (unsigned i = 0; i < n_seen; i++)
		if (strcmp(seen[i], name) == 0)
			return false;
	if (n_seen == FILES_MAX)
		errx(1, "%s: more than %d files", name, FILES_MAX);
	snprintf(seen[n_seen++], sizeof(seen[0]), "%s", name);
	return true;
}

static void take(const char *dir, const char *name)
{
	static const char word[] = "--include ";
	char path[512], line[1024];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (!is_new(path))
		return;
	f = fopen(path, "r");
	if (!f)
		err(1, "%s", path);
	while (fgets(line, sizeof(line), f)) {
		size_t n = strlen(line);

		if (strncmp(line, word, sizeof(word) - 1) == 0) {
			line[n - 1] = '\0';
			take(dir, line + sizeof(word) - 1);
			continue;
		}
		if (len + n >= TEXT_MAX)
			errx(1, "%s: too long", path);
		memcpy(text + len, line, n + 1);
		len += n;
	}
	fclose(f);
}

static void print_text(const char *name)
{
	printf("#define DLK_LUA_%s \\\n\t\"", name);
	for (const char *p = text; *p; p++) {
		if (*p == '\n' && p[1])
			printf("\\n\" \\\n\t\"");
		else if (*p == '\n')
			printf("\\n\"\n");
		else if (*p == '\\' || *p == '"')
			printf("\\%c", *p);
		else
			putchar(*p);
	}
}

static void print_names(const char *name)
{
	struct dlk_sha1 s;
	char hex[DLK_SHA1_LEN + 1];
	size_t whole = len / DLK_SHA1_BLOCK * DLK_SHA1_BLOCK;

	dlk_sha1_init(&s);
	dlk_sha1_add(&s, text, whole);
	printf("#define DLK_MID_%s { 0x%xu, 0x%xu, 0x%xu, 0x%xu, 0x%xu }\n",
	       name, s.h[0], s.h[1], s.h[2], s.h[3], s.h[4]);
	dlk_sha1_add(&s, text + whole, len - whole);
	dlk_sha1_hex(&s, hex);
	printf("#define DLK_SHA_%s \"%s\"\n", name, hex);
}

int main(int argc, char **argv)
{
	puts("/* Generated from shim/lease/scripts/; do not edit. */");
	for (int i = 1; i < argc; i++) {
		char *dir = strdup(argv[i]), *base = strdup(argv[i]);
		char *name = basename(base);

		len = n_seen = 0;
		take(dirname(dir), name);
		*strrchr(name, '.') = '\0';
		print_names(name);
		print_text(name);
		free(dir);
		free(base);
	}
	return 0;
}
