/* SPDX-License-Identifier: MIT */
/*
 * An open file description that we have a copy of, and of which we have to know
 * whether anybody else has it still; see description.c.
 */
#ifndef DLK_DESCRIPTION_H
#define DLK_DESCRIPTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

enum { DLK_KNOWN_HOLDERS = 16 };

struct dlk_description {
	LIST_ENTRY(dlk_description) next;
	int fd; /* our own of it, or -1: there is none */
	struct dlk_has {
		pid_t pid; /* of a process, or a thread of one */
		int fd;
		bool is_socket;       /* by which it was sent to him, perhaps */
	} holders[DLK_KNOWN_HOLDERS]; /* some of them, by the last look */
	unsigned n_holders;
	bool sought;     /* by a look at all processes */
	uint64_t say_ns; /* that only what was sent holds it; 0: does not */
};

/* Have one of fd, which stays the caller's.  False: nobody is seen to have it. */
bool dlk_description_hold(struct dlk_description *d, int fd);
/* Another process has found that; fd, or -1, is ours from now on. */
void dlk_description_adopt(struct dlk_description *d, int fd);
void dlk_description_drop(struct dlk_description *d);
/* Has that process it by that number?  False with errno set, too: 0 for no. */
bool dlk_description_is(const struct dlk_description *d, pid_t pid, int fd);

/* Look who has it: of one, or (NULL) of all. */
void dlk_descriptions_look(const struct dlk_description *only);
/* By that look, which was the last one: may anybody have it? */
bool dlk_description_is_had(const struct dlk_description *d);

#endif
