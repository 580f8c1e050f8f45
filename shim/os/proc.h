/* SPDX-License-Identifier: MIT */
/* What the kernel says of files and locks; see proc.c. */
#ifndef DLK_PROC_H
#define DLK_PROC_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/range.h"

/* A file, as DESIGN L3 knows it. */
struct dlk_file {
	dev_t dev;
	ino_t ino;       /* FUSE's server may change it (file_id.h) */
	uint64_t handle; /* a hash of the file handle, on FUSE; else 0 */
};

/* The kernel's own number of it, of a device. */
static inline uint64_t dlk_node(const struct dlk_file *file)
{
	return file->handle ? file->handle : file->ino;
}

/* Whose lock it is, as the kernel has it (DESIGN L2). */
enum dlk_kind {
	DLK_FLOCK, /* the description's, flock(2) */
	DLK_POSIX, /* the process's, fcntl(2) F_SETLK */
	DLK_OFD,   /* the description's, fcntl(2) F_OFD_SETLK */
};

/* The flock lock of fd's own description: 1; 0: it has none; -errno. */
struct dlk_lock_line;
int dlk_kernel_flock(int fd, struct dlk_lock_line *l);
/* Its mode: LOCK_EX, LOCK_SH, LOCK_UN; -errno. */
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
/* Is fd that of another process, by the same number, as a child's is of its parent's?
 * False, too, if the kernel will not say. */
bool dlk_kernel_shares(pid_t pid, int fd);
/*
 * The path of fd (" (deleted)" stripped), its length, or -errno; -ENOENT, too, if
 * the kernel knows none.
 */
ssize_t dlk_kernel_path(int fd, char *path, size_t size);
/* Has that process our library?  No, if it may not be looked at. */
bool dlk_kernel_is_preloaded(pid_t pid);
int dlk_kernel_file(int fd, struct dlk_file *file);
/* Is it that file?  Never waits for a file server. */
bool dlk_kernel_is_file(int fd, const struct dlk_file *file);
/*
 * The record locks of a kind that this process took by fd's description, in
 * the order of bytes: one after another to `take`, until that fails.  0, or
 * -errno: these are not all.
 */
typedef int dlk_take_fn(void *arg, const struct dlk_range *range);
int dlk_kernel_records(int fd, enum dlk_kind kind, dlk_take_fn *take,
		       void *arg);
/* All POSIX locks of this process on the file, in no order, some twice. */
int dlk_kernel_own_records(const struct dlk_file *file, dlk_take_fn *take,
			   void *arg);
/* Are there any?  1, 0, or -errno. */
int dlk_kernel_has_records(int fd, enum dlk_kind kind);
/* To be called for each range: a set gets it. */
int dlk_kernel_collect(void *arg, const struct dlk_range *range);
/* A descriptor by O_PATH locks nothing, and its close ends nothing. */
bool dlk_kernel_is_path_only(int fd);
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
/* Is it one of the processes that see to leases, or to their connections, by its
 * command's name (proc_pid_comm(5))? */
bool dlk_kernel_is_keeper(const char *comm);
/* Of these, which is a process?  ENDED, KEEPER, OTHER. */
enum dlk_holder dlk_holder_of(uint64_t pid);
/*
 * Beside one lock of mode `own`, which fd's own description has (LOCK_UN: none).
 * `pid`, unless NULL: whose it is, 0 if that is not known.
 */
enum dlk_holder dlk_kernel_holder(int fd, const struct dlk_file *file, int own,
				  pid_t *pid);
/*
 * Does /proc show our own pid namespace, and so the numbers by which we know
 * others (pid_namespaces(7))?  1, 0; -1: that cannot be read now.
 */
int dlk_kernel_shows_our_pids(void);
/*
 * Of a child or a parent of ours, whose number is its own: KILLED lacks but a core
 * to end, and may be amidst a last system call; DEAD, its first thread does
 * nothing more.  Its other threads may have yet to end, and its files are open
 * until they have.  LIVES, too, if that cannot be known.
 */
enum dlk_death { DLK_LIVES, DLK_KILLED, DLK_DEAD };
enum dlk_death dlk_kernel_death(pid_t pid);
/* The next number in a directory of /proc (NULL is empty); false: there is none. */
bool dlk_next_number(DIR *dir, uint64_t *n);
/*
 * In a text of proc_pid_stat(5), the field of this number there: 3, the state,
 * or one behind it; "" if it is not there.
 */
const char *dlk_stat_field(const char *stat, unsigned field);
/* What a task does, by such a file of its: 'R', 'Z', ...; '\0' if that cannot be
 * read. */
char dlk_kernel_task_state(const char *path);
/* Does this process wait for a record lock there?  1, 0; -1: no telling. */
int dlk_kernel_waits(int fd, const struct dlk_file *file);

#endif
