/* SPDX-License-Identifier: MIT */
/*
 * A file whose one line is a password.  No message has any of it, and what was
 * read on the way to `secret` is wiped.
 */
#ifndef DLK_SECRET_H
#define DLK_SECRET_H

#include <stddef.h>
#include <sys/types.h>

enum { DLK_SECRET_SIZE = 512 };

/*
 * The line, without its newline, at `secret`; 0, or -errno: "" is there, and
 * `why` says what is wrong with the file ("is empty").  *mode is that of one
 * that could be read, else 0.
 */
int dlk_secret_read(const char *file, char secret[DLK_SECRET_SIZE],
		    mode_t *mode, char *why, size_t size);

/*
 * What others may do with a file of this mode: "read by everybody"; NULL:
 * nothing.  (A group may read it: that is how several users have it.)
 */
const char *dlk_secret_exposed(mode_t mode);

#endif
