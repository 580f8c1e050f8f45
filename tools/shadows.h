/* SPDX-License-Identifier: MIT */
/* Where the shadows of this host's users are (os/shadowdir.h). */
#ifndef DLK_TOOLS_SHADOWS_H
#define DLK_TOOLS_SHADOWS_H

#include <sys/types.h>

/* One user's directory, on that device.  0: on to the next one. */
typedef int shadows_fn(void *arg, const char *dir, dev_t dev);

/*
 * Each of them, until one of the answers is not 0: that.  -1: there may be
 * others that cannot be looked for.
 */
int shadows_each(const char *state_dir, shadows_fn *fn, void *arg);

#endif
