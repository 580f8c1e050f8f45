/* SPDX-License-Identifier: MIT */
/*
 * What this process holds, in one hidden struct (STYLE 12).
 *
 * Locking.  One mutex, `dlk.mutex`, guards every field marked (m).  It is
 * taken with all signals blocked (dlk_enter), for a few instructions, and
 * never across a system call that can sleep; so there is no lock order.
 * Fields marked (1) are written before main() and read-only after.
 * A connection belongs to the thread that marked it busy.
 *
 */
#ifndef DLK_STATE_H
#define DLK_STATE_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "config/config.h"
#include "redis/pool.h"
#include "redis/subscription.h"
#include "lease/lease.h"
#include "lease/queue.h"
#include "hold/hold.h"
#include "os/sys.h"

enum { DLK_CHAINS = 1024 };

struct dlk_state {
	/* (1) */
	bool on; /* there are rules, or a broken config */
	struct dlk_config *config;
	struct dlk_error broken; /* why there is no config; "" if fine */
	char keeper_path[512];
	uint64_t open_at_start[4]; /* descriptors 0..255 at our start */

	pthread_mutex_t mutex;
	struct dlk_held *held;               /* (m) all but the free */
	struct dlk_held *chains[DLK_CHAINS]; /* (m) the same, by file */
	struct dlk_held *spare;              /* (m) small free objects */
	bool thread_runs;                    /* (m) */
	pid_t thread_tid;                    /* (m) until it is surely gone */
	uint64_t thread_ended_ns;            /* (m) */
	uint64_t thread_wakes_ns;            /* (m) when it looks next */
	sigset_t thread_mask;                /* (m) of who started it */

	/* Lock-free. */
	_Atomic unsigned n_held;      /* for the hooks' fast path */
	_Atomic unsigned n_owed;      /* RELEASING */
	_Atomic unsigned n_shadows;   /* in the table of shadow.c */
	_Atomic bool shares;          /* made a child or received descriptors */
	_Atomic bool dups;            /* duplicated a descriptor */
	_Atomic bool ending;          /* no hook may come any more */
	_Atomic int last_words;       /* SYS_exit's, of a thread; + 1 */
	_Atomic bool tables;          /* threads with tables of their own */
	_Atomic bool away;            /* in another network namespace */
	_Atomic unsigned thread_bell; /* futex */
	_Atomic unsigned paused;      /* who want no thread; set with (m) */
	_Atomic bool thread_missed;   /* wanted where none may be started */
	_Atomic bool main_ends;       /* by pthread_exit(3) */
};

extern struct dlk_state dlk;

#include "os/signals.h"

/* --- table.c -------------------------------------------------------------- */

/* Memory for a set of ranges, page-wise. */
int dlk_ranges_grow(struct dlk_ranges *set, size_t n);
void dlk_ranges_free(struct dlk_ranges *set);
/* A free hold with copies of key and token; -ENOMEM is NULL. */
struct dlk_held *dlk_held_new(const struct dlk_lease *lease);
/* One that was not installed: its memory. */
void dlk_held_free(struct dlk_held *h);
/* (mutex held) For hold.c: into the table; out of it, and freed. */
void dlk_table_add(struct dlk_held *h);
void dlk_table_remove(struct dlk_held *h);
/*
 * (mutex held) One of a file that is held, after `from` (NULL: the first), or
 * NULL: of flock locks, or of record locks.
 */
struct dlk_held *dlk_held_find(const struct dlk_file *file,
			       const struct dlk_held *from);
struct dlk_held *dlk_held_find_records(const struct dlk_file *file,
				       const struct dlk_held *from);
/* The lowest descriptor >= from that one that is held is known by, or -1. */
int dlk_held_next_fd(int from);

/* --- owner.c -------------------------------------------------------------- */

/* May another process, or one that we made, have fd's description too? */
bool dlk_shared(int fd);
/* The lease that fd's own description holds by flock(2), pinned, or NULL. */
struct dlk_held *dlk_flock_owner(int fd);
/* That of record locks, of fd's owner: pinned, or NULL. */
struct dlk_held *dlk_record_owner(const struct dlk_file *file,
				  enum dlk_kind kind, int fd);
/* (mutex held) Is h that of fd's owner? */
bool dlk_record_is_owner(const struct dlk_held *h, enum dlk_kind kind, int fd);

/* --- release.c ------------------------------------------------------------ */

/* Send the release of h (RELEASING) if a connection is open; never waits. */
void dlk_release_send(struct dlk_held *h);
/*
 * (gate) The same of an owner's list, which is weaker now within the window
 * (NULL: anywhere).
 */
void dlk_list_send(struct dlk_held *h, const struct dlk_range *window);
/*
 * What is due for h (pinned): send again, or read the answer; for the thread.
 * It ends early when `interrupt` (or NULL) says so.
 */
void dlk_outbox_work(struct dlk_held *h, uint64_t deadline_ns,
		     bool (*interrupt)(void *));
/* A pinned lease is given back, unless another thread was quicker. */
void dlk_give_back(struct dlk_held *h);
/* Whatever Redis may have under this token: see that it goes away. */
void dlk_release_token(const struct dlk_rule *rule,
		       const struct dlk_lease *lease);
/* At exit: wait for outstanding acknowledgements, for at most `ms`. */
void dlk_release_flush(unsigned ms);

/* --- identity.c ----------------------------------------------------------- */

/*
 * The token of a lease on the file behind fd, granted at since_ns, with a path
 * unless it is NULL; of one that the process owns, not a description, it
 * begins with the process's digits.
 */
ssize_t dlk_identity_token(int fd, const struct dlk_file *file,
			   const char *path, uint64_t since_ns,
			   bool process_owns, char *buf, size_t size);
/* Those digits (lease/waits.h), and a NUL. */
void dlk_identity_process(char digits[17]);
/* A moment as tokens have it, whatever the time namespace. */
uint64_t dlk_identity_since(uint64_t now_ns);
void dlk_identity_forget(void); /* in a child: pid and command anew */

/* --- proc.c --------------------------------------------------------------- */

/* The lock of fd's own description: LOCK_EX, LOCK_SH, LOCK_UN; -errno. */
int dlk_kernel_flock_mode(int fd);
/* Was it taken by another process, which has the description too? */
bool dlk_kernel_taken_by_other(int fd);
/*
 * A descriptor of this process, accepted by the caller, whose description has
 * a flock lock of this mode on the file (NULL: any); -1 for none, -2 if there
 * is no telling (no /proc, no descriptor left to look with).
 */
enum { DLK_ANY_MODE = -1 };
typedef bool dlk_accept_fn(void *arg, int fd);
int dlk_kernel_find(const struct dlk_file *file, int mode,
		    dlk_accept_fn *accept, void *arg);
/* One open file description?  1 yes, 0 no, -errno: the kernel will not say. */
int dlk_kernel_same(int fd1, int fd2);
/* The path of fd (" (deleted)" stripped), its length, or -errno. */
ssize_t dlk_kernel_path(int fd, char *path, size_t size);
/* Has that process our library?  No, if it may not be looked at. */
bool dlk_kernel_is_preloaded(pid_t pid);
int dlk_kernel_file(int fd, struct dlk_file *file);
/* Is it that file?  Never waits for a file server. */
bool dlk_kernel_is_file(int fd, const struct dlk_file *file);
/*
 * The record locks of a kind that this process took by fd's description, in
 * the order of bytes: one after another to `take`.  0, or -errno.
 */
typedef void dlk_take_fn(void *arg, const struct dlk_range *range);
int dlk_kernel_records(int fd, enum dlk_kind kind, dlk_take_fn *take,
		       void *arg);
/* All POSIX locks of this process on the file, in no order, some twice. */
int dlk_kernel_own_records(const struct dlk_file *file, dlk_take_fn *take,
			   void *arg);
/* To be called for each range: a bool becomes true; a set gets it. */
void dlk_kernel_note_any(void *arg, const struct dlk_range *range);
void dlk_kernel_collect(void *arg, const struct dlk_range *range);
/* A descriptor by O_PATH locks nothing, and its close ends nothing. */
bool dlk_kernel_is_path_only(int fd);
bool dlk_kernel_is_fuse(int fd, const struct dlk_file *file);
bool dlk_same_file(const struct dlk_file *a, const struct dlk_file *b);
/*
 * Who has the file's flock lock, by /proc/locks?  Of several, the one named
 * last here.
 */
enum dlk_holder {
	DLK_NOBODY,  /* to be seen: he just let go, or is in another pid
			namespace (proc_locks(5)), where it may be a keeper */
	DLK_KEEPER,  /* who takes it for an instant when the lock it guards has
			ended (DESIGN L4) */
	DLK_ENDED,   /* who took it has ended; it is another's, or a keeper was
			just in the way */
	DLK_OTHER,   /* a young one, or somebody who is only asking Redis */
	DLK_GUARDED, /* one whose end a keeper waits for */
};
/* `pid`, unless NULL: whose it is, 0 if that is not known. */
enum dlk_holder dlk_kernel_holder(int fd, const struct dlk_file *file,
				  pid_t *pid);
/* Does this process wait for a record lock there?  1, 0; -1: no telling. */
int dlk_kernel_waits(int fd, const struct dlk_file *file);

/* --- revalidate.c --------------------------------------------------------- */

/* Does the file's system keep a cache that another host's writes bypass? */
bool dlk_coherence_needed(const struct dlk_rule *rule, int fd,
			  const struct dlk_file *file);
/* After a grant: read anew.  Before a release: hand over what is dirty. */
void dlk_coherence_refresh(int fd);
/* After the grant of these bytes: names that depend on them; `work` is space
   for a path. */
void dlk_coherence_names(int fd, const struct dlk_range *locked, char *work,
			 size_t size);
void dlk_coherence_flush(int fd);

/* --- liveness.c ----------------------------------------------------------- */

/*
 * Is the kernel's lock of a pinned lease still there?  1, 0, or -1: there is
 * no telling, and so it must be taken for there.
 */
int dlk_lock_is_there(struct dlk_held *h);
/* It is not: the lease goes too. */
void dlk_lock_ended(struct dlk_held *h);
/*
 * (gate) Of record locks: take off what the kernel does not show.  The same
 * answers; what is gone is given back.
 */
int dlk_record_compare(struct dlk_held *h);

/* --- renewer.c ------------------------------------------------------------ */

/* Before the first lease, once: 0, or -ENOMEM. */
int dlk_renewer_begin(void);

/* --- thread.c (mutex not held) -------------------------------------------- */

/* What it runs. */
void dlk_thread_set(void *(*run)(void *unused));
/*
 * Have the thread look no later than at_ns.  False: there is none, and none
 * may be started now; the keeper must do it, or a later call.
 */
bool dlk_thread_need(uint64_t at_ns);
/* A lock call: start it if an earlier one could not. */
void dlk_thread_catch_up(void);
/* Is it there?  Is it there, or will it be when a pause ends? */
bool dlk_thread_here(void);
bool dlk_thread_comes(void);
/* Between the two no thread of ours exists, in the kernel either; they nest. */
void dlk_thread_pause(void);
void dlk_thread_resume(void);
bool dlk_thread_is_paused(void *unused);

/* The thread's own: it is there; who is left; it is the last of them. */
enum dlk_company { DLK_OTHERS, DLK_MAIN_ENDS, DLK_ALONE };
void dlk_thread_begin(void);
bool dlk_in_thread(void); /* Is the caller that thread? */
enum dlk_company dlk_thread_company(void);
void dlk_thread_last(void);
/* The main thread is about to end by itself. */
void dlk_thread_main_ends(void);
/* Is the caller the last one but that thread, and the dead main one? */
bool dlk_thread_is_last_other(void);
/* What a thread said at its end: if ours is the last, it repeats that. */
void dlk_thread_last_words(int code);

/* --- shadow.c ------------------------------------------------------------- */

struct dlk_shadow_why;

/* The shadow that fd's description has in this process, or -1. */
int dlk_shadow_of(int fd);
/* One that is locked, of a keeper that has it, or -1. */
int dlk_shadow_ask(int fd);
/* The first; if it is not locked and may be by a sharer, rather the second. */
int dlk_shadow_locked(int fd);
/* The same, or a new one; -EBADF, or -errno and why. */
int dlk_shadow_get(int fd, struct dlk_shadow_why *why);
/* Is it fd's still, and not removed before it was locked? */
bool dlk_shadow_is_current(int shadow, int fd);
/* The program's descriptor of a shadow, or -1. */
int dlk_shadow_program(int shadow);
/* fd is to be closed: true if another descriptor of its description stays. */
bool dlk_shadow_moves(int fd);
void dlk_shadow_drop(int fd);
/* Close one whose description the program closed behind our back. */
void dlk_shadow_look(int shadow);
/* All of those. */
void dlk_shadow_sweep(void);
/* The same, for a hook. */
void dlk_shadow_closed(void);
/* The lowest descriptor >= from of the program's that has one, or -1. */
int dlk_shadow_next_fd(int from);
/* The program is about to put another file in the place of own descriptor. */
void dlk_shadow_step_aside(int shadow);
/* May a process of this host have locked a shadow of fd's file? */
bool dlk_shadow_perhaps(int fd);
/* Must files of this device, under this rule, be locked by a shadow? */
bool dlk_shadow_wanted(const struct dlk_rule *rule, dev_t dev);
/* They must, it was seen; true the first time on this host. */
bool dlk_shadow_note(dev_t dev);
/* In a child of fork: is an own descriptor one of its shadows? */
bool dlk_shadow_is_own(int fd);

/* --- flock.c -------------------------------------------------------------- */

enum { DLK_PASS = 100 };

/* flock(2) as called: 0, -errno, or DLK_PASS: not ours, ask the kernel. */
int dlk_flock(struct dlk_call *call, int fd, int op);
/* close(2) is about to take fd away: what becomes of its lease. */
void dlk_closing(int fd);

/* --- file_lock.c ---------------------------------------------------------- */

/*
 * Free on return: 0, or -EINTR if the call may be interrupted.  Before a
 * handler runs away(arg) is called, as in dlk_sleep_on().  NULL: nothing is let
 * in, for the kernel's lock is in hand.
 */
int dlk_gate_enter(struct dlk_call *call, const struct dlk_file *file,
		   dlk_away_fn *away, void *arg);
bool dlk_gate_try(const struct dlk_file *file);
void dlk_gate_leave(const struct dlk_file *file);
void dlk_gates_forget(void);

/* --- record.c ------------------------------------------------------------- */

/*
 * fcntl(2) with F_SETLK, F_SETLKW, F_GETLK or their OFD forms, as called, on
 * behalf of `name`: 0, -errno, or DLK_PASS: not ours, ask the kernel.
 */
int dlk_record(struct dlk_call *call, const char *name, int fd, int cmd,
	       struct flock64 *lock);
/* lockf(3), the same way. */
int dlk_lockf(struct dlk_call *call, int fd, int cmd, off64_t len);
/* close(2) is about to take fd away, and with it record locks. */
void dlk_record_closing(int fd);
/* All of [first, last] are about to be closed: the files of any of them. */
void dlk_record_closing_span(unsigned first, unsigned last);

/* --- container.c ---------------------------------------------------------- */

/* The process ends: in a container, what ends with it has a second left. */
void dlk_cut_short(void);

#endif
