/* SPDX-License-Identifier: MIT */
/* A file that the configuration is in, or names. */
#ifndef DLK_READ_FILE_H
#define DLK_READ_FILE_H

#include <sys/types.h>

struct stat;

/* A regular file of at most max - 1 bytes, whole; -errno, -EFBIG. */
ssize_t dlk_read_file(const char *path, char *buf, size_t max, struct stat *st);

#endif
