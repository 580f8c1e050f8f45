/* SPDX-License-Identifier: MIT */
/* What the machine of a call (model/acquire.h) is told; see event.h. */
#include "lock/event.h"

#include <errno.h>
#include <string.h>

#include "lease/store.h"
#include "lock/follow.h"

enum acquire_event dlk_event_error(struct request *r, int err)
{
	r->err = err;
	return EV_ERROR;
}

enum acquire_event dlk_event_of_kernel(struct request *r, int err)
{
	r->err = err;
	if (err == 0)
		return EV_OK;
	return err == -EAGAIN || err == -EACCES ? EV_BUSY : EV_ERROR;
}

/* Asking again is of no use. */
static bool is_final(int err)
{
	return err == -EREMOTEIO || err == -EACCES || err == -EPROTO ||
	       err == -EPROTONOSUPPORT || err == -ENAMETOOLONG;
}

enum acquire_event dlk_event_of_redis(struct request *r, int err)
{
	r->err = err;
	switch (err) {
	case 0:
		return EV_OK;
	case DLK_BUSY:
		return EV_BUSY;
	case DLK_GRACE:
		strcpy(r->attempt.why,
		       r->s->answer.emptied
			       ? "its leases were deleted, and it grants "
				 "nothing yet"
			       : "it was restarted, and grants nothing yet");
		return EV_YOUNG;
	case -EINTR:
		return EV_SIGNAL;
	case -ENOLCK:
		return EV_ERROR;
	default:
		if (err > 0)
			return EV_WRONG_TYPE;
		return is_final(err) ? EV_UNUSABLE : EV_NO_ANSWER;
	}
}

enum acquire_event dlk_event_of_place(struct request *r, int err)
{
	if (err == 0)
		return EV_OK;
	return err == DLK_OTHER_FILE ? EV_MOVED : dlk_event_error(r, err);
}
