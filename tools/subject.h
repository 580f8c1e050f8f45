/* SPDX-License-Identifier: MIT */
/*
 * A path that a verb is about: the rule that holds for it, and its key.
 *
 * The path is what the shim would see, the kernel's name of the file
 * (/proc/self/fd), so symbolic links are resolved first; the file need not
 * exist, but for a key by inode.  No server is asked.
 */
#ifndef DLK_TOOLS_SUBJECT_H
#define DLK_TOOLS_SUBJECT_H

#include "config/config.h"
#include "os/file_id.h"

/* What the key of record locks has behind that of flock. */
#define RECORD_SUFFIX "%rec"

struct subject {
	const struct dlk_config *config;
	const char *given;
	char path[DLK_PATH_MAX];
	char spelled[DLK_PATH_MAX];  /* as the rule has it */
	const struct dlk_rule *rule; /* NULL: not managed */
	char key[DLK_KEY_MAX + 1];
	ssize_t key_len; /* negative: no key, or too long a one */
	char no_inode[DLK_INODE_WHY_MAX]; /* why %i is nothing; or "" */
};

/* 0, or DLK_EXIT_NOTHING after a message. */
int subject_find(const struct dlk_config *config, const char *given,
		 struct subject *s);

/* The same; DLK_EXIT_NOTHING also if no rule manages it, or it has no key. */
int subject_find_managed(const struct dlk_config *config, const char *given,
			 struct subject *s);

/*
 * The key, with what the family adds; false: there is none, or it is longer than
 * the shim takes.  And the same if it is to be looked for at that server.
 */
enum { SUBJECT_KEY_MAX = DLK_KEY_MAX + sizeof(RECORD_SUFFIX) };
bool subject_key(const struct subject *s, const char *suffix,
		 char key[SUBJECT_KEY_MAX]);
bool subject_key_at(const struct subject *s, const char *suffix,
		    const struct dlk_endpoint *ep, char key[SUBJECT_KEY_MAX]);

#endif
