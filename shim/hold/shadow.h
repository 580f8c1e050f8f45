/* SPDX-License-Identifier: MIT */
/* Shadows; see shadow.c. */
#ifndef DLK_SHADOW_H
#define DLK_SHADOW_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/config.h"

struct dlk_shadow_why;

/* The shadow that fd's description has in this process, or -1. */
int dlk_shadow_of(int fd);
/*
 * One that is locked, of a keeper that has it.  -ENOENT: none has; -EAGAIN: one
 * that may have it has not answered within a second; -ENOSYS: it cannot tell
 * (kcmp(2)); -EBADF: fd was taken away meanwhile; or another error.
 */
int dlk_shadow_ask(int fd);
/* Ours, dlk_shadow_of(); or if that is not locked, and one of a sharer's may be,
 * rather his; or as dlk_shadow_ask(). */
int dlk_shadow_locked(int fd);
/*
 * The same, but a new one rather than none, unless it is to be sure that there is no
 * other; -EAGAIN: one that may have it has not answered; -EBADF, or -errno and why.
 */
int dlk_shadow_get(int fd, bool sure, struct dlk_shadow_why *why);
/* Is this shadow fd's still, and its file not removed before it was locked? */
bool dlk_shadow_is_current(int shadow, int fd);
/* The program's descriptor of a shadow, or -1. */
int dlk_shadow_program(int shadow);
/*
 * Use it, which stays the shadow's meanwhile: what `use` returns, or -EBADF.  It
 * MUST call nothing of this file.
 */
int dlk_shadow_lend(int shadow, int (*use)(int fd, void *arg), void *arg);
/*
 * fd is to be closed, with all others of [first, last]: true if another
 * descriptor of its description stays.
 */
bool dlk_shadow_moves(int fd, unsigned first, unsigned last);
void dlk_shadow_drop(int fd);
/* Close it, if the program closed its description behind our back. */
void dlk_shadow_look(int shadow);
/* These are about to be taken away: what is searched for one is not its next one's. */
void dlk_shadow_taken(unsigned first, unsigned last);
/* The lowest descriptor >= from of the program's that has one, or -1. */
int dlk_shadow_next_fd(int from);
/* The program is about to put another file in the place of our descriptor. */
void dlk_shadow_step_aside(int shadow);
/* May a process of this host have locked a shadow of fd's file? */
bool dlk_shadow_perhaps(int fd);
/* Must files of this device, under this rule, be locked by a shadow? */
bool dlk_shadow_wanted(const struct dlk_rule *rule, dev_t dev);
/* That they must was seen just now; true the first time on this host. */
bool dlk_shadow_note(dev_t dev);
/* In a child of fork: is an own descriptor one of its shadows? */
bool dlk_shadow_is_own(int fd);
/* Are there any, or is one searched for? */
bool dlk_shadow_any(void);
/* In a child: it goes on with its copy of them. */
void dlk_shadow_forked(void);

#endif
