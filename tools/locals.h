/* SPDX-License-Identifier: MIT */
/*
 * Who has a file's locks in the kernel of this host, whether dlock is loaded
 * there or not: /proc/locks, and of who took a lock and has ended, those that
 * have its description (/proc/PID/fdinfo).
 *
 * What cannot be seen from here is not there: processes of pid namespaces that
 * ours does not contain, and of other users more than their number.
 */
#ifndef DLK_TOOLS_LOCALS_H
#define DLK_TOOLS_LOCALS_H

#include "model/fdinfo.h"
#include "tools/scan.h"
#include "tools/subject.h"

enum local_library {
	LIBRARY_UNKNOWN, /* we may not look */
	LIBRARY_NONE,
	LIBRARY_LOADED,
	LIBRARY_KEEPER, /* it has none, and is ours */
};

struct local {
	struct dlk_lock_line line;
	bool shadow;  /* of the file that stands for it */
	bool ended;   /* who took it has; `pid` is one who has it now */
	unsigned pid; /* 0: not known */
	char command[32];
	enum local_library library;
};

struct locals {
	struct local *locks;
	size_t n, room;
	bool unseen; /* the file cannot be looked at */
};

void locals_find(const struct subject *s, struct locals *l);
void locals_free(struct locals *l);

#endif
