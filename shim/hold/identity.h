/* SPDX-License-Identifier: MIT */
/* Who we are, as it stands in a token; see identity.c. */
#ifndef DLK_IDENTITY_H
#define DLK_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "os/proc.h"

/*
 * The token of a lease on the file behind fd, granted at since_ns, with a path
 * unless it is NULL; of one that the process owns, not a description, it
 * begins with the process's digits.  -EMFILE, -ENFILE, -ENOMEM: this host cannot be
 * read just now; -EREMOTEIO: nothing tells it from others.
 */
ssize_t dlk_identity_token(int fd, const struct dlk_file *file,
			   const char *path, uint64_t since_ns,
			   bool process_owns, char *buf, size_t size);
/* Those digits (lease/waits.h), and a NUL. */
void dlk_identity_process(char digits[17]);
/* A moment as tokens have it, whatever the time namespace. */
uint64_t dlk_identity_since(uint64_t now_ns);
void dlk_identity_forget(void); /* in a child: pid and command anew */

#endif
