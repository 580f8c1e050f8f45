/* SPDX-License-Identifier: MIT */
/*
 * The keeper's parts, each of which calls those after it only:
 *
 *	main.c		sleeps, and passes on what it wakes for
 *	standby.c	the other keeper, which takes over when this one ends
 *	survive.c	a lost lease stops its holders
 *	obey.c		what the shim's messages have done
 *	look.c		when to look at what
 *	settle.c	what has ended by a close
 *	watchdog.c	a lost lease stops its holders when no keeper runs
 *	carry.c		leases: renewed, and released
 *	losses.c	what was lost, for its history
 *	paused.c	who is stopped until a lease can be renewed
 *	mirror.c	what that one is told
 *	victims.c	who has a lease's lock
 *	records.c	is a record lock there?
 *	section.c	the redis sections
 *	file.c		watching a file
 *	locks.c		is a flock lock there, by the kernel's list (list.c)?
 *	shadow_copy.c	shadows, of files that cannot be locked themselves
 *	description.c	has anybody an open file description still?
 *	hear.c		the shim's socket
 *	errand.c	what may hang
 *
 * One thread does all this but for the waits of file.c and the errands.
 */
#ifndef DLK_KEEPER_H
#define DLK_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "keeper/protocol.h"
#include "lease/store.h"
#include "os/log.h"
#include "os/shadowdir.h"
#include "model/due.h"
#include "model/range.h"

/* --- errand.c: what may hang ---------------------------------------------- */

struct dlk_errand {
	struct dlk_errand *next;
	void (*run)(struct dlk_errand *e);  /* by a thread of its own */
	void (*done)(struct dlk_errand *e); /* then, by the main one */
};
bool dlk_errands_init(void);
/* A detached thread with a small stack; false: there is none to be had. */
bool dlk_small_thread(void *(*fn)(void *), void *arg);
void dlk_errand_send(struct dlk_errand *e);
/* close(2) writes back, or tells the server (FUSE_FLUSH). */
void dlk_errand_close(int fd);
/* The same, and then who waits for it hears the end of this connection. */
void dlk_errand_hang_up(int fd, int sock);
unsigned dlk_errands_open(void); /* how many are under way */
/* In a child, which has none of the threads; false: it has no bell. */
bool dlk_errands_begin_anew(void);
/* To be polled for input, and what to call then. */
int dlk_errands_bell(void);
void dlk_errands_back(void);
/* poll(2) of one descriptor: its revents, or 0; POLLNVAL if that failed. */
short dlk_polled(int fd, short events, int ms);

/* --- locks.c: what /proc/locks says --------------------------------------- */

/* A guarded lock, as the kernel lists it. */
struct dlk_guard {
	int mode;     /* LOCK_EX, LOCK_SH; 0: it could not be read */
	uint64_t pid; /* of its taker; 0: hidden */
	uint64_t file;
	struct dlk_taker *taker; /* while he lives; not in the first pid
				    namespace, which shows the dead as well */
	/* While it was there our wait was seen to hang on another's lock; or
	 * on this one, though it had looked for the first one since then. */
	bool was_behind, was_first;
};

enum dlk_verdict {
	DLK_UNKNOWN, /* and so it must be taken for there */
	DLK_THERE,
	DLK_SOME_GONE,  /* of n_same alike, which the list cannot tell apart */
	DLK_SHARED_NOW, /* if it is there: others have shared ones */
	DLK_GONE_NOW,
};

/* By a descriptor of the lock's own description. */
void dlk_guard_begin(struct dlk_guard *g, int fd);
void dlk_guard_end(struct dlk_guard *g);
/* The descriptor that tells whether its taker lives, or -1; and a copy of a
 * guard, of another process, with that, which is its own then. */
int dlk_guard_taker(const struct dlk_guard *g);
void dlk_guard_adopt(struct dlk_guard *g, int taker_fd);
/* Could its end be seen in the list, as things are? */
bool dlk_guard_can_tell(const struct dlk_guard *g);
bool dlk_guard_same(const struct dlk_guard *a, const struct dlk_guard *b);
/* Read the list; false if it cannot be had, or changes too fast. */
bool dlk_locks_look(void);
/*
 * By the list that was read last; n_same leases have the same guard, and it is
 * `older` than our wait for that file.
 */
enum dlk_verdict dlk_guard_judge(struct dlk_guard *g, unsigned n_same,
				 bool older);

/* --- file.c: watching a file ---------------------------------------------- */

/* Leases (carry.c). */
LIST_HEAD(dlk_kept_list, dlk_kept);

/* The main thread's, until `tid`; outside of file.c only `leases` is written. */
struct dlk_watch {
	LIST_ENTRY(dlk_watch) next; /* in its bucket */
	LIST_ENTRY(dlk_watch) by_wd, in_stirred, in_threaded;
	struct dlk_kept_list leases; /* the callers' */
	uint64_t dev, node;
	int fd; /* -1: shut */
	int wd; /* inotify's; <= 0: none */
	unsigned refs;
	bool stirred;
	bool records;  /* of record locks: flock(2) is never asked */
	bool remote;   /* its file system may hang */
	bool opening;  /* in the background yet */
	bool unasked;  /* for it is not known whether its server answers */
	unsigned lent; /* the shim's descriptors that are not closed again */
	bool has_thread;
	_Atomic pid_t tid;     /* the thread's, once it runs */
	pthread_mutex_t mutex; /* guards what is below */
	pthread_cond_t go;
	uint64_t free_at_ns, since_ns; /* it waits */
	bool waiting, end;
};

/* Descriptors to poll for POLLIN, then to read by their functions. */
struct dlk_bells {
	int ended;  /* a wait in the kernel is over: dlk_watch_ended() */
	int closed; /* a description was closed: dlk_watch_closed(); -1: never
		       told */
};
const struct dlk_bells *dlk_watch_bells(void);
bool dlk_watch_init(void);

/*
 * Watch for the end of a lock on the file behind `fd`: the keeper opens a
 * description of its own.  A file already watched is found again.  NULL with
 * errno set: there is no memory, it is another file (ESTALE), or it cannot be
 * opened and `open_only`.  The caller has one reference.
 */
struct dlk_watch_what {
	/* fd's file, and whose lock; remote: opening may hang, so it is done in
	 * the background, and fd is the watch's to close. */
	const struct dlk_keep_add *add;
	bool open_only;
	/* Then, when that is done: 0, or why it could not be opened. */
	void (*opened)(struct dlk_watch *w, uint32_t number, int err);
};
struct dlk_watch *dlk_watch_get(int fd, const struct dlk_watch_what *what);
/* The last reference gone, it ends. */
void dlk_watch_unref(struct dlk_watch *w);

/* Does that thread sleep, so that the lock is there?  1, 0; -1: no telling. */
int dlk_watch_is_blocked(struct dlk_watch *w);
/* Not even to be asked: only the kernel's list tells. */
bool dlk_watch_is_shut(const struct dlk_watch *w);
/* Tell when a description of the file is closed; `fd` as above. */
void dlk_watch_listen(struct dlk_watch *w, int fd);
/* Its lock may have ended lately: a description was closed, or left. */
void dlk_watch_stir(struct dlk_watch *w);
unsigned dlk_watch_stirs(void); /* how many times that was so, of any */
void dlk_watch_calm(void);      /* all of them */
/* Those, the one after `after` (NULL: the first). */
struct dlk_watch *dlk_watch_stirred(const struct dlk_watch *after);

/*
 * Each with a thread whose lock has been free: `ended`; those that no lease
 * depends on end once their waits are over.
 */
void dlk_watch_ended(void (*ended)(struct dlk_watch *w));
void dlk_watch_closed(void);
/* Without a wait in the kernel: ask it.  True: nobody has the lock. */
bool dlk_watch_probe(struct dlk_watch *w);

/*
 * Would its file server answer?  Before each question to w->fd; if it is not known
 * that is found out in the background, and w is among those that are asked then.
 */
bool dlk_watch_answers(struct dlk_watch *w);
void dlk_watch_answered(void (*ask)(struct dlk_watch *w));
/* (each round) From here on it may have died again. */
void dlk_watch_answers_are_old(void);

/*
 * The last moment (CLOCK_BOOTTIME ns) at which nobody held the lock, for the
 * keeper itself did; 0: none yet.
 */
uint64_t dlk_watch_free_at(struct dlk_watch *w);

/* After a lock has ended, with leases left: wait for the next end. */
void dlk_watch_again(struct dlk_watch *w);
/* Does it wait, and has it begun to after that (CLOCK_BOOTTIME ns)? */
bool dlk_watch_waits_since(struct dlk_watch *w, uint64_t ns);

/*
 * In a child that stands by, where none of the threads is: nothing waits, and
 * nothing is read, until it wakes.  False: it has no bell.
 */
bool dlk_watch_stand_by(void);
void dlk_watch_wake(void);
/* (in the parent) No thread is amidst its end: a child can be made. */
bool dlk_watch_is_quiet(void);
/*
 * A watch as the other keeper has it, by its descriptors (-1: none), which are
 * ours then.  NULL: no memory.  The caller has one reference.
 */
struct dlk_watch_given {
	int fd, bell, wd;
	bool has_thread;
};
struct dlk_watch *dlk_watch_adopt(const struct dlk_keep_add *add,
				  const struct dlk_watch_given *given);
/* The same for one that we have, and what was opened since. */
void dlk_watch_complete(struct dlk_watch *w,
			const struct dlk_watch_given *given);

/* --- section.c: the redis sections ----------------------------------------- */

struct dlk_section {
	uint32_t number; /* START's */
	struct dlk_store *store;
	struct dlk_dues due;                                 /* its leases */
	char why[sizeof(((struct dlk_attempt *)NULL)->why)]; /* the last one
								failed */
};

/*
 * Once: the only servers to be connected to.  `interrupt` is called while they
 * are waited for, `restarted` as store.h has it.
 */
bool dlk_sections_begin(const struct dlk_keep_server *servers, unsigned n,
			bool (*interrupt)(void *arg),
			void (*restarted)(const struct dlk_store *s));
/* The i-th; NULL: there are no more. */
struct dlk_section *dlk_section(unsigned i);
/* So many descriptors its connections need, but for a cluster's further nodes. */
unsigned dlk_section_descriptors(const struct dlk_section *s);
/*
 * A question to it.  None is waited for past the next mark of a lease, whose
 * holders are perhaps to be stopped then (DESIGN L6).
 */
struct dlk_attempt dlk_section_attempt(const struct dlk_section *s);
/* The same of a renewal, which is patient (dlk_store_patience_ms()). */
struct dlk_attempt dlk_section_renewal(const struct dlk_section *s);
void dlk_sections_until(uint64_t mark_ns);
/* When the first lease is due, but for those of one section, or NULL. */
uint64_t dlk_sections_due_ns(const struct dlk_section *but);
/* A line of the log begins: "the lease KEY at redis SERVER". */
struct dlk_kept;
void dlk_kept_line(struct dlk_line *l, enum dlk_level level,
		   const struct dlk_kept *k);
/* "1455 ms": for how long nobody has renewed it. */
void dlk_kept_put_unrenewed(struct dlk_text *t, const struct dlk_kept *k);

/* --- records.c ------------------------------------------------------------ */

/*
 * Is a lease's record lock there?  By its process, if that has ended, and by
 * what the kernel says to our own description of the ranges that the server
 * has.  What is there in part is given back but for that.
 */
enum dlk_verdict dlk_records_judge(struct dlk_kept *k);
/* Is it for us to do, if its file server answers? */
bool dlk_records_may_put_back(const struct dlk_kept *k);
/*
 * The server does not know them any more: put them back, if it was restarted
 * just now and the process's shim is gone.  r->result: 0, DLK_GONE, DLK_LOST,
 * -errno (r->until_ns is set); -EAGAIN if it is not for us to do, or there is
 * no telling.
 */
void dlk_records_put_back(const struct dlk_kept *k, struct dlk_renewal *r);

/* --- shadow_copy.c: shadows ---------------------------------------------- */

struct dlk_shadow_copy;

/*
 * Hold a copy of the shadow fds[0] for as long as anybody has the description
 * of the program's descriptor fds[1], and give it to those who have that and
 * ask, by a socket in the directory fds[2] (-1: none).  All stay the caller's.
 * NULL with errno set (EOPNOTSUPP: there is no way to see that end).
 */
struct dlk_shadow_copy *dlk_shadow_copy_get(const int fds[3]);
void dlk_shadow_copy_put(struct dlk_shadow_copy *s); /* NULL is none */
/*
 * One more descriptor of the program's description is ours, to be closed in the
 * background; and it is closed: true if the description has ended.
 */
void dlk_shadow_copy_lent(struct dlk_shadow_copy *s);
bool dlk_shadow_copy_is_lent(const struct dlk_shadow_copy *s);
bool dlk_shadow_copy_given_back(struct dlk_shadow_copy *s);
/* Is the copy locked?  No telling is yes. */
bool dlk_shadow_copy_is_locked(const struct dlk_shadow_copy *s);

/*
 * What another process needs to have the same copy; its descriptors stay ours.
 * There, it is made of them, which are its own then.
 */
enum { DLK_SHADOW_FDS = 6 };
struct dlk_shadow_plan {
	int slot;  /* in an epoll set; < 0: there is no copy */
	int watch; /* of inotify, or -1 */
	char name[DLK_SHADOW_NAME_MAX + 1]; /* the shadow's */
	char sock_name[DLK_SHADOW_NAME_MAX + 20];
};
void dlk_shadow_copy_plan(const struct dlk_shadow_copy *s,
			  struct dlk_shadow_plan *plan,
			  int fds[DLK_SHADOW_FDS]);
struct dlk_shadow_copy *dlk_shadow_copy_adopt(
	const struct dlk_shadow_plan *plan, const int fds[DLK_SHADOW_FDS]);
/* Has that process's descriptor the program's description? */
bool dlk_shadow_copy_is(const struct dlk_shadow_copy *s, pid_t pid, int fd);
/* In a child that stands by: they are left alone, until it wakes. */
void dlk_shadow_copies_stand_by(void);
void dlk_shadow_copies_wake(void);

/* To be polled for input, and what to call then; -1: there are none. */
int dlk_shadow_copies_bell(void);
/* True if a description has ended. */
bool dlk_shadow_copies_look(void);

/* --- carry.c: leases ------------------------------------------------------ */

enum dlk_kept_state {
	DLK_KEPT,
	DLK_FLUSHING, /* over; what is dirty goes first (L10), by an errand */
	DLK_OWED_BACK,
	/* Nothing finds it any more, but who works on it: */
	DLK_ENDING, /* that errand, too */
	DLK_DROPPED,
};

/* Who may have its lock? */
enum dlk_kept_by {
	DLK_BY_PROCESS, /* and others */
	DLK_LEFT,       /* the process has no descriptor of it any more */
	DLK_BY_OTHERS,  /* left, and there after all was closed */
};

/* What was done to those who have its lock, for it was not renewed in time? */
enum dlk_kept_holders {
	DLK_HOLDERS_RUN,    /* nothing */
	DLK_HOLDERS_PAUSED, /* they are stopped until it can be renewed */
	DLK_HOLDERS_KILLED,
};

/* A process that has an OFD lock of its own on the file, by this descriptor. */
struct dlk_apart {
	pid_t pid;
	int fd;
	uint64_t start; /* of the process */
	unsigned look;  /* it was told by that one */
};

/* A lease that the keeper carries. */
struct dlk_kept {
	struct dlk_due due; /* to renew, or to release; first: carry.c casts */
	LIST_ENTRY(dlk_kept)
	next;                        /* in dlk_carried; of one that was dropped
					it leads on */
	LIST_ENTRY(dlk_kept) beside; /* of the same watch; the same */
	LIST_ENTRY(dlk_kept) left;   /* in dlk_carried_left, if it is LEFT */
	LIST_ENTRY(dlk_kept) chain;  /* by number; of the dropped */
	uint32_t number;             /* of its ADD */
	enum dlk_kept_state state;
	enum dlk_kept_by by;
	enum dlk_kept_holders holders;
	struct dlk_watch *watch;
	struct dlk_shadow_copy *shadow; /* NULL: the file itself is locked */
	struct dlk_guard guard;
	struct dlk_lease lease;
	struct dlk_section *section;
	uint64_t deadline_ns; /* of the latest renewal, ours or the shim's;
				 owed: when the server has forgotten it */
	uint64_t answer_ns;   /* when its ADD is answered at the latest; 0: it
				 is (standing by, no more is known) */
	bool failing;         /* it was not renewed when asked for last */
	bool doubted;         /* then it seemed to be lost: if it does once
				 more, it is */
	bool robbed;          /* it is, to another or nobody knows to whom: its
				 holders are to be killed */
	bool ready;  /* its process wants to be stopped by us (READY) */
	bool unseen; /* not put back, for its file server was not asked */
	bool reads;  /* others read by now, so it is put back as a
				 reader's */
	uint64_t looked_for_ns; /* its deadline when its holders were looked
				   for, to know how long that takes */
	uint64_t due_by_ns;     /* its deadline when its mark had come */
	uint32_t silent;  /* so often we have renewed it since its process said
			    that it had */
	bool untimed;     /* its process has no timer that would kill it, by its
			    own word (L6) */
	uint32_t full_ms; /* the ttl before the process cut it; 0: it has not */

	/* Records: what the server had of it at listed_ns (0: not known). */
	struct dlk_ranges ranges;
	uint64_t seq, listed_ns;
	uint64_t seen_seq; /* the greatest that was listed */

	/* Of an OFD lock: who was told apart from it by the last look at which its taker
	 * lived (victims.c), since it was renewed: until deadline_ns is another.  And
	 * whom a later one has found to have it from one of those. */
	struct {
		struct dlk_apart *v;
		size_t n, room;
		uint64_t deadline_ns;
	} apart;

	/* As it came, with the ttl and the deadline of then (those of now are
	 * lease.ttl_ms, deadline_ns); but `remote` is its watch's.  Its bytes
	 * follow. */
	struct dlk_keep_add add;
};

extern struct dlk_kept_list dlk_carried, dlk_carried_left;
/* One more with each whose marks may come earlier than those of others. */
extern unsigned dlk_carried_news;
/* One more with each mark that has moved, or is none any more. */
extern unsigned dlk_carried_moves;

/*
 * Once: the only servers to be connected to.  While they are waited for, `hear`
 * is called; leases may be dropped by it.
 */
bool dlk_carry_begin(const struct dlk_keep_server *servers, unsigned n,
		     void (*hear)(void));
/*
 * A lease to carry on; 0, -errno, or 1: it is answered later.  Descriptors as
 * protocol.h has them, -1 for none; they stay the caller's, but for those that
 * are -1 afterwards.
 */
int dlk_carry(const struct dlk_keep_add *m, int *fds);
/* By the number of its ADD; NULL. */
struct dlk_kept *dlk_carried_find(uint32_t number);
/* The other one that is carried by the same token; or NULL. */
struct dlk_kept *dlk_carried_twin(const struct dlk_kept *k);
/*
 * It is out of the list at once, and freed by _bury: messages come while Redis
 * is waited for, so whoever has it in hand must look at its state again.
 */
void dlk_carry_drop(struct dlk_kept *k);
/* The process has it no more, by its own word. */
void dlk_carry_given_up(struct dlk_kept *k);
bool dlk_carry_bury(void); /* (nothing in hand) Are none left? */
/* The process has renewed it, until then, and has a timer or not. */
void dlk_carry_renewed(struct dlk_kept *k, uint64_t deadline_ns, bool timed);
/* Its holders are stopped by its stop mark, and are not yet (survive.c). */
bool dlk_carry_has_marks(const struct dlk_kept *k);
/* What of it may be put back can be seen now (dlk_records_put_back()). */
void dlk_carry_is_seen(struct dlk_kept *k);
/* The only writer of that: it has other marks from here on, or none. */
void dlk_carry_holders(struct dlk_kept *k, enum dlk_kept_holders holders);
/* Who may have its lock from here on. */
void dlk_carry_by(struct dlk_kept *k, enum dlk_kept_by by);
/* Its lock has ended: release it. */
void dlk_carry_owe(struct dlk_kept *k);
/* So have all of a file that were granted before the moment it was free at. */
void dlk_carry_owe_freed(struct dlk_watch *w);
/* What the shim says, if it does, and whether the standby wonders if we live; leases
 * may be dropped by it. */
void dlk_carry_hear(void);
/* What is due; false for nothing. */
bool dlk_carry_some(uint64_t now_ns);
/* Of the connections that are polled (dlk_stores_watch()) some have been closed
 * from there: the server may have been restarted. */
struct pollfd;
void dlk_carry_heed(const struct pollfd *p, unsigned n);
/* When there is something to do again. */
uint64_t dlk_carry_due_ns(void);
/* Its end cannot be seen any more. */
void dlk_carry_lapse(struct dlk_kept *k);
/* The shim is told until when all is held. */
void dlk_carry_tell_held(void);
/* Those who are stopped (paused.c), when it is time. */
void dlk_carry_look_at_paused(uint64_t now_ns);
/* A shim that had been mute has ended. */
void dlk_carry_mute_ended(void);
/*
 * The process is about to end, and cuts the ttl; it is gone and we are there,
 * so it was no container that ended.
 */
void dlk_carry_cut(struct dlk_kept *k, uint32_t ttl_ms);
void dlk_carry_uncut(struct dlk_kept *k);

/*
 * In a child that stands by, what its parent says of leases: a new one, of what
 * it has (NULL: no memory), and what has become of one.
 */
struct dlk_mirror_state;
struct dlk_kept *dlk_carry_adopt(const struct dlk_keep_add *m,
				 struct dlk_watch *w, struct dlk_guard *g,
				 struct dlk_shadow_copy *s);
void dlk_carry_follow(struct dlk_kept *k, const struct dlk_mirror_state *s);
/* It has ended: all leases are ours from here on, and are seen to at once. */
void dlk_carry_wake(void);
/* When the first lease is overdue, by what is known of it here. */
uint64_t dlk_carry_overdue_ns(uint32_t *ttl_ms);

/* --- victims.c: who has a lease's lock ------------------------------------ */

/* By no descriptor that is seen: its parent has the lock; it has taken it itself, by
 * its shim's word, and could not be looked into. */
enum { DLK_VICTIM_BY_PARENT = -1, DLK_VICTIM_BY_WORD = -2 };

struct dlk_victim {
	pid_t pid;
	pid_t task;         /* the same, or of one of its threads that lives */
	int fd;             /* pidfd; or -1: it was signalled, and let go */
	struct dlk_kept *k; /* one of the leases that it is a victim of */
	pid_t session, parent;
	uint64_t start;   /* as proc_pid_stat(5) has it: no other process's */
	char state;       /* when it was seen, as proc_pid_stat(5) has it */
	bool ends;        /* it was in exit(2) then */
	int by;           /* the descriptor that it has it by, or as above */
	int err;          /* it could not be signalled: errno */
	int shut;         /* it could not be looked into: errno; or 0 */
	bool was_stopped; /* by somebody else, before */
	bool leads;       /* its children are victims, whatever they have */
	char command[16];

	/* (paused.c) */
	int lock;          /* of it, while we have it stopped; or -1 */
	bool seen_stopped; /* by us, or anybody */
	bool ran_again;    /* since that */
	bool killed;

	int pipe; /* (watchdog.c) by whose end it is killed; or -1 */
};
/* Zeroed, it is empty. */
struct dlk_victims {
	struct dlk_victim *v;
	size_t n, room;
	size_t most; /* so many, at most; 0: any number */
	/* A look goes on until then, and, once the second has come, until the shim
	 * says something; 0: until its end. */
	uint64_t until_ns, heed_ns;
	/* Of the last look: how long it took, of which we ran, and why somebody
	 * could not be looked at (EMFILE, ENFILE, ENOMEM, ETIME; 0). */
	uint64_t took_ns, cpu_ns;
	int err;
};
/* Called each few ms amidst a look. */
void dlk_victims_meanwhile(void (*fn)(void));
/* Of this thread's own: a busy machine must not make it look less. */
uint64_t dlk_cpu_ns(void);
/* So that a look needs no other descriptors but for who is found. */
void dlk_victims_reserve(void);
/* Could so many more be opened, 16 at most?  How many could?  (0: no telling.) */
bool dlk_descriptors_are_left(unsigned n);
size_t dlk_descriptors_left(void);
/* Of a list's err: why not all could be looked at. */
const char *dlk_victims_why(int err);
/* Is one of them, from this one on, taken for a holder by his shim's word? */
bool dlk_victims_are_guessed(const struct dlk_victims *list, size_t from);
/*
 * Behind `what`, who could not be looked into by the last look at all processes, is
 * no victim, and has an id of ours (the descriptor may have come to him); nothing
 * if there are none.
 */
bool dlk_victims_put_shut(struct dlk_text *t, const char *what);
/*
 * All who have these leases' locks: those who are new are added; how many.  And from
 * the locks of those `beside`, others' are told: once their taker is dead nobody can.
 */
size_t dlk_victims_find(struct dlk_victims *list,
			struct dlk_kept *const *leases, size_t n,
			struct dlk_kept *const *beside, size_t n_beside);
/* By whose descriptors an OFD lock is told from others; 0: by nobody's, or it is none. */
pid_t dlk_victims_ofd_taker(const struct dlk_kept *k);
/*
 * By the last look at all processes, once more: those for whom there was no
 * descriptor, though who started them be killed and let go.
 */
size_t dlk_victims_find_rest(struct dlk_victims *list);
/* Did that look lack nothing, but for who was found, and perhaps time?  Was it that? */
bool dlk_victims_lacked_nothing(void);
bool dlk_victims_were_cut(void);
/*
 * The same for what they have started since: much quicker than a look at all
 * processes.  And, when they were killed, for what had no parent by then.
 */
size_t dlk_victims_find_children(struct dlk_victims *list);
size_t dlk_victims_find_orphans(struct dlk_victims *list);
/* Their children, long after the look, when the leases are perhaps others. */
size_t dlk_victims_find_born(struct dlk_victims *list,
			     struct dlk_kept *const *leases, size_t n);
/*
 * Who is one of a lease that is not about any more is taken out, without a look at
 * him: before that lease is freed.  False: one who lives was taken out, or a taker
 * has ended, so there may be others to look for.
 */
bool dlk_victims_leave(struct dlk_victims *list,
		       bool (*is_about)(const struct dlk_kept *k));
/*
 * Who has none of them any more is taken out, and what the others have started since
 * comes in.  False: as above.
 */
bool dlk_victims_refresh(struct dlk_victims *list,
			 struct dlk_kept *const *leases, size_t n);
/*
 * Their takers, those of their parents who have the descriptor as well, and all
 * whom any of these has started: it costs no look at all processes.  False: a
 * taker has it no more, so that others may have it.
 */
bool dlk_victims_find_family(struct dlk_victims *list,
			     struct dlk_kept *const *leases, size_t n);
/* Is it among the first `n`?  Is it one that was killed, and let go? */
bool dlk_victims_has(const struct dlk_victims *list, size_t n, pid_t pid);
bool dlk_victims_has_let_go(const struct dlk_victims *list, pid_t pid);
/* (watchdog.c) It is killed by no pipe's end any more, whoever has a copy. */
void dlk_victim_unwatch(struct dlk_victim *v);
/* To those from this one on, but for those who were let go. */
void dlk_victims_signal(struct dlk_victims *list, size_t from, int sig);
/* They were killed: their descriptors are for others.  They stay in the list. */
void dlk_victims_let_go(struct dlk_victims *list);
/* Has it ended?  Does it, until then? */
bool dlk_victim_has_ended(const struct dlk_victim *v);
bool dlk_victim_ends(const struct dlk_victim *v, uint64_t late_ns);
/* "PID (COMMAND)" */
void dlk_victim_put(struct dlk_text *t, const struct dlk_victim *v);
/*
 * The same of those of a lease who are one, the first dozen, and why they could
 * not be signalled, behind `what`; nothing if there are none.
 */
void dlk_victims_put(struct dlk_text *t, const struct dlk_victims *list,
		     const struct dlk_kept *k,
		     bool (*is_one)(const struct dlk_victim *v),
		     const char *what);
/* proc_pid_stat(5): its state, '\0' if it has ended. */
char dlk_victim_state(const struct dlk_victim *v);
/* Those from this one on. */
void dlk_victims_free(struct dlk_victims *list, size_t from);

/* --- paused.c: who is stopped until a lease can be renewed ----------------- */

extern struct dlk_victims dlk_paused;
/* Those from this one on, and what they start meanwhile. */
void dlk_paused_stop(size_t from);
/* (standing by) The keeper is about to stop him; his descriptors are ours. */
void dlk_paused_adopt(const struct dlk_victim *v);
/* All go on, but for those whom somebody else has stopped; none is left. */
void dlk_paused_go_on(void);
void dlk_paused_kill(void);
/* One of them, that runs beside the next owner, or may: it is said why. */
void dlk_paused_kill_one(struct dlk_victim *v, const char *why);
/* This lease has ended, unrenewed, and perhaps not by who held it. */
void dlk_paused_lock_ended(const struct dlk_kept *k);
/* Does one run all the same?  (It is for these leases that they are stopped.) */
void dlk_paused_look(uint64_t now_ns, struct dlk_kept *const *leases, size_t n);
uint64_t dlk_paused_due_ns(void);

/* --- mirror.c: what the other keeper is told ------------------------------ */

/* What the shim is owed. */
struct dlk_owed {
	uint32_t answered; /* the number of the last message that was */
	int32_t status;    /* by this */
	uint32_t settling; /* CLOSED, and not settled; 0: nobody waits */
	uint32_t stays;
};

void dlk_mirror_use(int fd); /* that one's socket, ours then; -1: none */
int dlk_mirror_fd(void);     /* to be polled for input, then to be heard */
void dlk_mirror_hear(void);
bool dlk_mirror_works(void); /* else it has ended, or is to be */
void dlk_mirror_lease(const struct dlk_kept *k);
/* Said with the next _flush; and what the shim is owed, to be changed. */
void dlk_mirror_state(const struct dlk_kept *k);
struct dlk_owed *dlk_mirror_owed(void);
void dlk_mirror_paused(const struct dlk_victim *v);
void dlk_mirror_go_on(void); /* none is stopped any more */
void dlk_mirror_flush(void);
void dlk_mirror_end(void); /* there is nothing left to do */

/* --- settle.c: what has ended by a close ---------------------------------- */

/* The shim has closed what it has left, says its message of this number. */
void dlk_settle_begin(uint32_t seq);
/* All that was stirred by then has been looked at. */
void dlk_settle_looked(uint64_t began_ns);
/* Answer, if it is time: each round, and (asking) while a server is asked. */
void dlk_settle(bool asking);
uint64_t dlk_settle_due_ns(void);

/* --- watchdog.c: a lost lease stops its holders when no keeper runs -------- */

/* Each round, before what was dropped is freed. */
void dlk_watchdog(uint64_t now_ns);
void dlk_watchdog_mark(void); /* deadlines have moved, perhaps */
uint64_t dlk_watchdog_due_ns(void);
/* Nobody is watched for a moment: its descriptors are needed.  Or for longer. */
void dlk_watchdog_yield(void);
void dlk_watchdog_rest(void);
void dlk_watchdog_end(void);    /* there is nobody to be watched any more */
void dlk_watchdog_forget(void); /* in a child that stands by */
/* Children of the keeper, of any sort, that have ended, or will. */
extern unsigned dlk_unreaped;

/* --- look.c: when to look at what ----------------------------------------- */

/* At once, when a file was stirred. */
uint64_t dlk_look_due_ns(void);
void dlk_look(void);
/* At what file servers have kept us from looking at (dlk_watch_answers()). */
void dlk_look_at_answered(void);

/* --- obey.c: what the shim says ------------------------------------------- */

/* Its socket; the first message is there.  False: nobody of ours started us. */
bool dlk_obey_begin(int fd);
/* All that it has said; it may be its end. */
void dlk_obey(void);
/* A message of one who may: 0, -errno, or 1 for an answer that comes later. */
int dlk_obey_message(const struct dlk_keep *m, size_t n, int *fds);
/* For as long as it lives, without a lease too. */
bool dlk_shim_wants_us(void);
/* A keeper has taken over, and this is what the other one owed the shim. */
void dlk_obey_wake(const struct dlk_owed *owed);

/* --- losses.c: what was lost, for its history ------------------------------ */

void dlk_losses_note(const struct dlk_kept *k);
/*
 * What is due, if any is; nothing is carried if `idle`.  UINT64_MAX: nothing is
 * left to be recorded.
 */
void dlk_losses_record(uint64_t now_ns, bool idle);
uint64_t dlk_losses_due_ns(void);

/* --- survive.c: a lost lease stops its holders ---------------------------- */

/* Whatever is due by now (DESIGN L6). */
void dlk_survive(uint64_t now_ns);
/* Whoever is stopped goes on, if all for which he is was renewed. */
void dlk_survive_go_on(void);
/* When something is to be done; and when to wake, which is at the warning, too,
 * though no question to a server ends for that. */
uint64_t dlk_survive_due_ns(void);
uint64_t dlk_survive_wakes_ns(void);
/* We have slept, and were to be woken by then. */
void dlk_survive_awake(uint64_t until_ns);
/* The keeper has ended: whom it has stopped has timers of his own yet. */
void dlk_survive_wake(void);

/* --- standby.c: the other keeper ------------------------------------------ */

/*
 * See to it that there is one.  It returns in that one, too, when it has taken
 * over.
 */
void dlk_standby_keep(void);
uint64_t dlk_standby_due_ns(void); /* when to do so again */
void dlk_standby_end(void);        /* our work is done, and so is its */

/* --- hear.c: the shim's socket -------------------------------------------- */

typedef bool dlk_start_fn(const struct dlk_keep_server *servers, unsigned n);

/* The socket, whose first message is there: `start` gets the servers. */
bool dlk_hear_begin(int fd, dlk_start_fn *start);
/* Whoever began us has ended, or has given us up, before we could run. */
bool dlk_shim_has_left(void);

struct dlk_heard {
	ssize_t n; /* bytes of *m, which stays until the next one */
	const struct dlk_keep *m;
	struct ucred who;
	int fds[DLK_KEEP_FDS]; /* that came with it; -1: none */
	int err;               /* it is to be refused */
};

/*
 * A message, if there is one; then it is dealt with, by this status (> 0, and not
 * DISOBEYED: the answer comes later), and what is left of its descriptors closed.
 */
bool dlk_hear(struct dlk_heard *h);
void dlk_heard(struct dlk_heard *h, int status);
/* What came with it, to be heard once more. */
void dlk_heard_close(struct dlk_heard *h);
/* It has something to say: perhaps that a lease was given back. */
bool dlk_shim_speaks(void);
void dlk_shim_answer(uint32_t seq, int status);
/* Little of what it was told lies there unread. */
bool dlk_shim_reads(void);
/* All at this server, by ADD until `lease`, are held until then (HELD). */
void dlk_shim_tell_held(uint32_t lease, uint32_t section, uint64_t until_ns);

int dlk_shim_fd(void); /* -1: it is gone */
/* A pidfd, which lasts, of its process, if that has this number; -1. */
int dlk_shim_process(pid_t pid);
/* Does the process of that pidfd live?  1, 0; -1: there is none. */
int dlk_shim_process_lives(pid_t pid);
short dlk_shim_events(void); /* to poll it for */
bool dlk_shim_lives(void);
/*
 * It lives, and renews, and cannot say a word: its process has given up what we
 * may.
 */
bool dlk_shim_is_mute(void);

#endif
