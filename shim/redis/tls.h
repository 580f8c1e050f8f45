/* SPDX-License-Identifier: MIT */
/*
 * TLS, without OpenSSL in the guest: that would cost a program 4.5 MB and 40
 * ms, run exit handlers of its own and allocate on lock paths (DESIGN L7).  So
 * dlock-tls, a process of ours for each server (tls/protocol.h), speaks it, and
 * plain bytes with us over a socket pair.
 *
 * And AUTH, without a password in the guest (credentials = "helper"): the same
 * process reads it, and sends AUTH before anything of ours.  The answer to that
 * is the first that comes.
 *
 * Thread-safe; signals are blocked (dlk_enter).
 */
#ifndef DLK_REDIS_TLS_H
#define DLK_REDIS_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "os/sys.h"
#include "redis/resolve.h"

/*
 * Where it lies: `beside` names a file in the same directory, or is NULL: the
 * one that is installed.  Once, before anything else.
 */
void dlk_tls_begin(const char *beside);
/* The same for a program of ours: beside that. */
void dlk_tls_begin_beside_program(void);

/* Whether dlock-tls is who connects. */
static inline bool dlk_tls_connects(const struct dlk_endpoint *ep)
{
	return ep->scheme == DLK_TLS || ep->password_file[0];
}

/*
 * A connection to `ep` is asked for, in *own, and not waited for: 0, or -errno and
 * `why`.
 */
int dlk_tls_start(const struct dlk_endpoint *ep, struct dlk_own *own, char *why,
		  size_t size);
/*
 * What came of it: 0, it is there; -EINPROGRESS, nothing yet, and again when *own
 * can be read.  Else *own is closed, and `why` set: -EACCES: what it shows, or we,
 * is not to be trusted; -ENOKEY: a file of ours (the password's, a certificate's,
 * its key's) cannot be used; -errno.
 */
int dlk_tls_started(const struct dlk_endpoint *ep, struct dlk_own *own,
		    char *why, size_t size);

/*
 * No connection, but when the certificate that the server shows ends,
 * and that of cert_file (seconds since 1970; 0: there is none).
 */
int dlk_tls_examine(const struct dlk_endpoint *ep,
		    const struct dlk_patience *wait, int64_t *server_ends,
		    int64_t *own_ends, char *why, size_t size);

/* In a child of fork(2): the parent's are not ours. */
void dlk_tls_forget(void);

#endif
