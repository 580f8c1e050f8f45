/* SPDX-License-Identifier: MIT */
/* What the version script lists must also be visible to it. */
#ifndef DLK_EXPORT_H
#define DLK_EXPORT_H

#define DLK_EXPORT __attribute__((visibility("default")))

/*
 * A function's name for the linker.  With offsets of 64 bits libc's headers
 * give fcntl, lockf and freopen the names of others (fcntl64), definitions too.
 */
#define DLK_NAMED(name) __asm__(#name)

#endif
