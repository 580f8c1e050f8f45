/* SPDX-License-Identifier: MIT */
/*
 * Calls that take a descriptor away.  They are hints that make the end of a
 * lock prompt; the truth is the kernel's (DESIGN L4).  Our own descriptors
 * are none of the program's: EBADF, as for any number that it did not open.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "entry/export.h"
#include "entry/hints.h"
#include "entry/lifecycle.h"
#include "entry/start.h"
#include "os/proc.h"
#include "os/real.h"
#include "os/signals.h"
#include "os/sys.h"
#include "hold/delegation.h"
#include "hold/handover.h"
#include "hold/keeper_client.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/self.h"
#include "hold/shadow.h"
#include "lock/close.h"
#include "lock/follow.h"

static bool own(int fd)
{
	return dlk_own_is(fd) && dlk_alive();
}

/* A child of fork has its parent's shadows, and none of its leases. */
static bool holds(void)
{
	return dlk_any_held() || dlk_shadow_any();
}

/* Who waits with one of these is told. */
static void tell_waiters(unsigned first, unsigned last)
{
	if (dlk_follow_concerned(first, last) && dlk_alive())
		dlk_follow_closing(first, last);
	if (dlk_shadow_any() && dlk_alive())
		dlk_shadow_taken(first, last);
}

/* 0, or the errno of what could not be written back under its lock. */
static int closing(int fd)
{
	if (fd >= 0)
		tell_waiters((unsigned)fd, (unsigned)fd);
	if (holds() && dlk_alive())
		return dlk_closing(fd, (unsigned)fd, (unsigned)fd);
	return 0;
}

void dlk_entry_closed(void)
{
	const unsigned char left = dlk_closed_how;

	if (!left || !dlk_alive())
		return;
	dlk_closed_how = 0;
	if (left == DLK_CLOSED_OURS && !dlk_keeper_is_starting())
		return;
	DLK_INSIDE(call);
	dlk_delegation_closed(left == DLK_CLOSED_LEFT);
}

/* What is lost is what the call would say if it had written that itself. */
static int closed(int r, int lost)
{
	if (lost && r == 0) {
		errno = lost;
		r = -1;
	}
	dlk_entry_closed();
	return r;
}

/* Is there what a close may end: a lease, or another thread's wait? */
static bool matters(void)
{
	return holds() || dlk_follow_any();
}

/*
 * Nor is the thread cancelled between the two, for the kernel's lock would outlive
 * the lease that was given up, and who waits be told of a close that never came.
 */
static int close_whole(int fd, int (*next)(int fd))
{
	int cancel, lost, r;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	lost = closing(fd);
	r = closed(next(fd), lost);
	dlk_cancel_state(cancel);
	return r;
}

int dlk_entry_close(int fd, int (*next)(int fd))
{
	int lost;

	if (own(fd)) {
		errno = EBADF;
		return -1;
	}
	if (matters())
		return close_whole(fd, next);
	lost = closing(fd);
	return closed(next(fd), lost);
}

/* close(2) is a cancellation point, and acts on one before it closes anything. */
static int cancellable_close(int fd, int (*next)(int fd))
{
	if (matters())
		pthread_testcancel();
	return dlk_entry_close(fd, next);
}

int __close(int fd);

#define DLK_CLOSE(name)                                                        \
	DLK_EXPORT int name(int fd)                                            \
	{                                                                      \
		return cancellable_close(fd, real.name);                       \
	}

DLK_CLOSE(close)
DLK_CLOSE(__close)

/* --- streams and directories ---------------------------------------------- */

/*
 * What is buffered must be in the file before the next holder reads it.  (To flush
 * a stream that is read moves its description's offset, which fclose(3) does not.)
 * Returned: 0, or the errno of what is lost, of which the stream knows no more.
 */
static int closing_stream(FILE *fp)
{
	int saved = errno, fd, flushed = 0, lost = 0;

	if (!matters() || !fp)
		return 0;
	fd = fileno(fp);
	if (fd >= 0 && dlk_alive()) {
		if (__fpending(fp) > 0 && fflush(fp))
			flushed = errno;
		lost = closing(fd);
		lost = flushed ? flushed : lost;
	}
	errno = lost ? lost : saved;
	return lost;
}

/* A call that takes a descriptor away, between two words of ours. */
#define DLK_TAKES_AWAY(hint, result, name, parameters, call)                   \
	DLK_EXPORT result name parameters                                      \
	{                                                                      \
		result r;                                                      \
                                                                               \
		hint;                                                          \
		r = call;                                                      \
		dlk_entry_closed();                                            \
		return r;                                                      \
	}

/* glibc's pclose() and endmntent() close any stream, as fclose() does. */
#define DLK_FCLOSE(name)                                                       \
	DLK_EXPORT int name(FILE *fp)                                          \
	{                                                                      \
		const int lost = closing_stream(fp);                           \
                                                                               \
		return closed(DLK_REAL(name)(fp), lost);                       \
	}

int _IO_fclose(FILE *fp);
int __endmntent(FILE *fp);
DLK_FCLOSE(fclose)
DLK_FCLOSE(_IO_fclose)
DLK_FCLOSE(pclose)
DLK_FCLOSE(endmntent)
DLK_FCLOSE(__endmntent)

/* Whether it can open the new file or not, it closes the old (freopen(3p)). */
#define DLK_FREOPEN(called, name)                                              \
	DLK_EXPORT FILE *called(const char *path, const char *mode, FILE *fp)  \
		DLK_NAMED(name);                                               \
	DLK_TAKES_AWAY(closing_stream(fp), FILE *, called,                     \
		       (const char *path, const char *mode, FILE *fp),         \
		       DLK_REAL(name)(path, mode, fp))

DLK_FREOPEN(dlk_called_freopen, freopen)
DLK_FREOPEN(dlk_called_freopen64, freopen64)

/* EINVAL for NULL is libc's to say, whatever its header declares. */
static void closing_directory(DIR *volatile dir)
{
	if (dir)
		closing(dirfd(dir));
}

DLK_TAKES_AWAY(closing_directory(dir), int, closedir, (DIR * dir),
	       DLK_REAL(closedir)(dir))

/* --- duplicates ----------------------------------------------------------- */

/* EBADF for the kernel, though it is open: the limit was lowered since (dup(2)). */
static bool beyond_limit(int fd)
{
	struct rlimit r;

	return getrlimit(RLIMIT_NOFILE, &r) == 0 && (rlim_t)fd >= r.rlim_cur;
}

/* dup2 onto a descriptor closes it, unless dup2 fails or the two are one. */
static void replacing(int from, int to)
{
	struct dlk_file file;

	if (from == to || !matters() || dlk_kernel_file(from, &file) < 0 ||
	    beyond_limit(to))
		return;
	if (own(to))
		dlk_shadow_step_aside(to);
	else
		closing(to);
}

/* From here on a description may have two descriptors (see dlk_flock_owner). */
void dlk_entry_dup(int from, int to)
{
	const int saved = errno;

	atomic_store(&dlk_self.dups, true);
	if (to >= 0)
		replacing(from, to);
	errno = saved;
}

DLK_EXPORT int dup(int fd)
{
	dlk_entry_dup(fd, -1);
	return real.dup(fd);
}

int __dup2(int from, int to);

#define DLK_DUP2(name)                                                         \
	DLK_TAKES_AWAY(dlk_entry_dup(from, to), int, name, (int from, int to), \
		       real.name(from, to))

DLK_DUP2(dup2)
DLK_DUP2(__dup2)

DLK_TAKES_AWAY(dlk_entry_dup(from, flags & ~O_CLOEXEC ? -1 : to), int, dup3,
	       (int from, int to, int flags), real.dup3(from, to, flags))

/* Close [first, last], but for what is ours. */
static int close_span(unsigned first, unsigned last, int flags)
{
	const int saved = errno;
	int r = 0;

	while (first <= last && first <= INT_MAX) {
		int fd = dlk_own_next((int)first);

		if (fd < 0 || (unsigned)fd > last)
			break;
		if ((unsigned)fd > first &&
		    real.close_range(first, (unsigned)fd - 1, flags) < 0)
			return -1;
		first = (unsigned)fd + 1;
	}
	if (first <= last)
		r = real.close_range(first, last, flags);
	if (r == 0)
		errno = saved;
	return r;
}

/* The leases with a descriptor in the range, one after another. */
static void closing_known(unsigned first, unsigned last)
{
	for (int from = first > INT_MAX ? INT_MAX : (int)first;
	     from < INT_MAX;) {
		int fd = dlk_hold_next_fd(from);
		int next = dlk_shadow_next_fd(from);

		if (fd < 0 || (next >= 0 && next < fd))
			fd = next;
		if (fd < 0 || (unsigned)fd > last)
			return;
		dlk_closing(fd, first, last);
		from = fd + 1;
	}
}

/*
 * Our thread would keep the old table, and in it open what is closed here: a
 * pipe's reader would see no end, and a lock have none.
 */
static int close_own_table(unsigned first, unsigned last, int flags)
{
	struct dlk_privileged p;
	int r;

	dlk_before_privileged(&p);
	r = close_span(first, last, flags);
	dlk_after_own_table();
	dlk_after_privileged(&p);
	return r;
}

/*
 * And those that a descriptor of their file ends, whichever took the lock.  But
 * what other threads have in a table that this one leaves stays open there.
 */
static void closing_span(unsigned first, unsigned last, int flags)
{
	if ((flags & CLOSE_RANGE_UNSHARE) && !dlk_has_own_table()) {
		if (dlk_any_held())
			dlk_leaving_span(first, last);
		return;
	}
	tell_waiters(first, last);
	if (holds())
		closing_known(first, last);
	if (dlk_any_held())
		dlk_record_closing_span(first, last);
}

int dlk_entry_close_range(unsigned first, unsigned last, int flags)
{
	const int known = CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC;
	int r;

	if (!real.close_range)
		dlk_resolve_real();
	if (!dlk_alive() || first > last || (flags & ~known))
		return real.close_range(first, last, flags);
	if (!(flags & CLOSE_RANGE_CLOEXEC)) {
		/* Refused (seccomp(2)) it closes nothing, and all stays. */
		if (real.close_range(~0U, ~0U, 0) < 0)
			return -1;
		closing_span(first, last, flags);
	}
	r = flags & CLOSE_RANGE_UNSHARE ? close_own_table(first, last, flags)
					: close_span(first, last, flags);
	dlk_entry_closed();
	return r;
}

DLK_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	return dlk_entry_close_range(first, last, flags);
}

DLK_EXPORT void closefrom(int lowest)
{
	const unsigned first = lowest < 0 ? 0 : (unsigned)lowest;

	if (!dlk_alive()) {
		DLK_REAL(closefrom)(lowest);
		return;
	}
	if (dlk_entry_close_range(first, ~0U, 0) == 0)
		return;
	/* It closes one after the other then, by calls that nobody sees. */
	closing_span(first, ~0U, 0);
	DLK_REAL(closefrom)(lowest);
	dlk_entry_closed();
}

/* --- descriptors that are passed ------------------------------------------ */

/*
 * One that came may be of a description that others share, or that this process has
 * already; one that went is shared from here on.
 */
void dlk_entry_passing(bool came)
{
	if (!dlk_self.on)
		return;
	atomic_store(&dlk_self.shares, true);
	if (came)
		atomic_store(&dlk_self.dups, true);
}

static void note_passing(const struct msghdr *msg, bool came)
{
	struct msghdr m = *msg;

	if (!dlk_self.on || !m.msg_control || m.msg_controllen == 0)
		return;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			dlk_entry_passing(came);
}

/* After the call: before it, the kernel has not said that msg can be read. */
#define DLK_MESSAGE(name, type, came)                                          \
	DLK_EXPORT ssize_t name(int fd, type *msg, int flags)                  \
	{                                                                      \
		ssize_t n = DLK_REAL(name)(fd, msg, flags);                    \
                                                                               \
		if (n >= 0)                                                    \
			note_passing(msg, came);                               \
		return n;                                                      \
	}

#define DLK_MESSAGES(name, parameters, arguments, came)                        \
	DLK_EXPORT int name parameters                                         \
	{                                                                      \
		int passed = DLK_REAL(name) arguments;                         \
                                                                               \
		for (int i = 0; i < passed; i++)                               \
			note_passing(&msgs[i].msg_hdr, came);                  \
		return passed;                                                 \
	}

#define DLK_RECVMMSG(name, time)                                               \
	DLK_MESSAGES(name,                                                     \
		     (int fd, struct mmsghdr *msgs, unsigned n, int flags,     \
		      time *timeout),                                          \
		     (fd, msgs, n, flags, timeout), true)

#define DLK_SENDMMSG(name)                                                     \
	DLK_MESSAGES(name,                                                     \
		     (int fd, struct mmsghdr *msgs, unsigned n, int flags),    \
		     (fd, msgs, n, flags), false)

DLK_MESSAGE(recvmsg, struct msghdr, true)
DLK_RECVMMSG(recvmmsg, struct timespec)
DLK_MESSAGE(sendmsg, const struct msghdr, false)
DLK_SENDMMSG(sendmmsg)
#ifdef __i386__
ssize_t __recvmsg64(int fd, struct msghdr *msg, int flags);
int __recvmmsg64(int fd, struct mmsghdr *msgs, unsigned n, int flags,
		 struct __timespec64 *timeout);
ssize_t __sendmsg64(int fd, const struct msghdr *msg, int flags);
int __sendmmsg64(int fd, struct mmsghdr *msgs, unsigned n, int flags);
DLK_MESSAGE(__recvmsg64, struct msghdr, true)
DLK_RECVMMSG(__recvmmsg64, struct __timespec64)
DLK_MESSAGE(__sendmsg64, const struct msghdr, false)
DLK_SENDMMSG(__sendmmsg64)
#endif

int pidfd_getfd(int pidfd, int fd, unsigned flags);

DLK_EXPORT int pidfd_getfd(int pidfd, int fd, unsigned flags)
{
	dlk_entry_passing(true);
	return DLK_REAL(pidfd_getfd)(pidfd, fd, flags);
}
