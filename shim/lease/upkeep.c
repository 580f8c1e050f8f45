/* SPDX-License-Identifier: MIT */
/* Renewals in one round trip; see renew.h. */
#include "lease/renew.h"

#include <errno.h>

#include "os/sys.h"

/* Queue those that are still to be asked; the moment before they leave. */
static int send_all(struct dlk_conn *c, uint64_t deadline_ns,
		    struct dlk_renewal *r, unsigned n, int which, bool text)
{
	uint64_t now = dlk_now_ns();
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++) {
		if (r[i].result != which)
			continue;
		r[i].asked_ns = now;
		err = dlk_lease_renew(c, r[i].lease, text);
		if (err == -ENOBUFS) {
			err = dlk_conn_flush(c, deadline_ns);
			if (!err)
				err = dlk_lease_renew(c, r[i].lease, text);
		}
	}
	return err ? err : dlk_conn_flush(c, deadline_ns);
}

static int round_trip(struct dlk_conn *c, uint64_t deadline_ns,
		      struct dlk_renewal *r, unsigned n, int which, bool text)
{
	int err = send_all(c, deadline_ns, r, n, which, text);

	/* What was queued before the failure must answer nothing later. */
	if (err)
		dlk_conn_close(c);
	for (unsigned i = 0; i < n; i++) {
		if (r[i].result != which)
			continue;
		if (err) {
			r[i].result = err;
			continue;
		}
		r[i].result = dlk_lease_renewed(c, deadline_ns, r[i].lease);
		if (r[i].result == 0)
			dlk_server_granted(dlk_conn_endpoint(c),
					   dlk_conn_server(c), r[i].asked_ns);
		if (!dlk_conn_is_open(c))
			err = r[i].result;
	}
	dlk_conn_reset(c);
	return err;
}

/* The keeper and the thread may both put a lease back: then look once more. */
static void restore(struct dlk_conn *c, uint64_t deadline_ns,
		    struct dlk_renewal *r)
{
	uint64_t asked = dlk_now_ns();

	if (asked >= r->deadline_ns)
		return;
	r->result = dlk_lease_restore(c, deadline_ns, r->lease);
	r->asked_ns = asked;
	r->restored = r->result == 0;
	if (r->result == DLK_LOST)
		round_trip(c, deadline_ns, r, 1, DLK_LOST, true);
	/* Confirmed in time, or else nobody knows what came in between. */
	if (r->result == 0 && dlk_now_ns() >= r->deadline_ns)
		r->result = DLK_GONE;
}

void dlk_renew_batch(struct dlk_conn *c, uint64_t deadline_ns,
		     struct dlk_renewal *r, unsigned n)
{
	enum { TO_ASK = 1000 };
	bool again = false;
	int err = dlk_conn_open(c, deadline_ns);

	for (unsigned i = 0; i < n; i++) {
		r[i].result = err ? err : TO_ASK;
		r[i].restored = false;
	}
	if (err)
		return;
	if (round_trip(c, deadline_ns, r, n, TO_ASK, false) < 0)
		return;
	for (unsigned i = 0; i < n; i++)
		again |= r[i].result == -ENOENT;
	if (again && round_trip(c, deadline_ns, r, n, -ENOENT, true) < 0)
		return;
	/* Of records the owner alone knows what to put back. */
	for (unsigned i = 0; i < n; i++)
		if (r[i].result == DLK_GONE && !r[i].lease->places &&
		    dlk_conn_is_open(c))
			restore(c, deadline_ns, &r[i]);
}
