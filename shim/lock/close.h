/* SPDX-License-Identifier: MIT */
/* A descriptor is about to be closed; see close.c. */
#ifndef DLK_CLOSE_H
#define DLK_CLOSE_H

/*
 * close(2) is about to take fd away, with all others of [first, last], and with
 * it record locks: what becomes of its leases, where there are any, or shadows.
 * Returned: 0, or the errno of what could not be written back (revalidate.h).
 */
int dlk_closing(int fd, unsigned first, unsigned last);
/*
 * They are about to be closed in this thread's table alone, and others have them:
 * no lock ends.
 */
void dlk_leaving_span(unsigned first, unsigned last);
/* All of [first, last] are about to be closed: the files of any of them. */
void dlk_record_closing_span(unsigned first, unsigned last);

#endif
