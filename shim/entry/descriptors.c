/* SPDX-License-Identifier: MIT */
/*
 * Calls that take a descriptor away.  They are hints that make the end of a
 * lock prompt; the truth is the kernel's (DESIGN L4).  Our own descriptors
 * are none of the program's: EBADF, as for any number that it did not open.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "entry/export.h"
#include "entry/real.h"
#include "lock/state.h"

static bool own(int fd)
{
	return dlk_own_is(fd) && dlk_alive();
}

static void closing(int fd)
{
	if (atomic_load(&dlk.n_held) && dlk_alive())
		dlk_closing(fd);
}

DLK_EXPORT int close(int fd)
{
	if (own(fd)) {
		errno = EBADF;
		return -1;
	}
	closing(fd);
	return real.close(fd);
}

/* What is buffered must be in the file before the next holder reads it. */
DLK_EXPORT int fclose(FILE *fp)
{
	if (!real.fclose)
		dlk_resolve_real();
	if (atomic_load(&dlk.n_held) && fp && fileno(fp) >= 0 && dlk_alive()) {
		int saved = errno;

		fflush(fp);
		errno = saved;
		dlk_closing(fileno(fp));
	}
	return real.fclose(fp);
}

/* dup2 onto a descriptor closes it, unless dup2 fails or the two are one. */
static void replacing(int from, int to)
{
	struct dlk_file file;

	if (from != to && atomic_load(&dlk.n_held) &&
	    dlk_kernel_file(from, &file) == 0)
		closing(to);
}

/* From here on a description may have two descriptors (see lease_of). */
DLK_EXPORT int dup(int fd)
{
	atomic_store(&dlk.dups, true);
	return real.dup(fd);
}

DLK_EXPORT int dup2(int from, int to)
{
	atomic_store(&dlk.dups, true);
	replacing(from, to);
	return real.dup2(from, to);
}

DLK_EXPORT int dup3(int from, int to, int flags)
{
	atomic_store(&dlk.dups, true);
	if ((flags & ~O_CLOEXEC) == 0)
		replacing(from, to);
	return real.dup3(from, to, flags);
}

/* Close [first, last], but for what is ours. */
static int close_span(unsigned first, unsigned last, int flags)
{
	enum { HIGHEST = 4096 };	/* ours are below */
	unsigned from = first;

	for (unsigned fd = first; fd <= last && fd < HIGHEST; fd++) {
		if (!own((int)fd))
			continue;
		if (fd > from && real.close_range(from, fd - 1, flags) < 0)
			return -1;
		from = fd + 1;
	}
	return from <= last ? real.close_range(from, last, flags) : 0;
}

/* (any thread) The leases with a descriptor in the range, one after another. */
static void closing_span(unsigned first, unsigned last)
{
	for (int from = first > INT_MAX ? INT_MAX : (int)first; from < INT_MAX;) {
		int fd = dlk_held_next_fd(from);

		if (fd < 0 || (unsigned)fd > last)
			return;
		closing(fd);
		from = fd + 1;
	}
}

static int range(unsigned first, unsigned last, int flags)
{
	if (!real.close_range)
		dlk_resolve_real();
	if (!dlk_alive() || first > last || flags)
		return real.close_range(first, last, flags);
	if (atomic_load(&dlk.n_held))
		closing_span(first, last);
	return close_span(first, last, flags);
}

DLK_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	return range(first, last, flags);
}

DLK_EXPORT void closefrom(int lowest)
{
	if (!real.closefrom)
		dlk_resolve_real();
	if (!dlk_alive() || range(lowest < 0 ? 0 : (unsigned)lowest, ~0U, 0) < 0)
		real.closefrom(lowest);
}

/* A received descriptor may be of a description that others share. */
DLK_EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t n = real.recvmsg(fd, msg, flags);

	if (n < 0 || !dlk.on || msg->msg_controllen == 0)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			atomic_store(&dlk.shares, true);
	return n;
}
