/* SPDX-License-Identifier: MIT */
/* Locks with offsets of 32 bits; see narrow.h. */
#include "model/narrow.h"

#include <errno.h>

/* F_GETLK, F_SETLK and F_SETLKW, and F_GETLK64 and its like, of the kernel. */
enum { FIRST = 5, FIRST64 = 12, COMMANDS = 3 };

bool dlk_is_ofd(int cmd)
{
	return cmd == F_OFD_GETLK || cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW;
}

static bool is_among(int cmd, int first)
{
	return cmd >= first && cmd < first + COMMANDS;
}

enum dlk_flock_size dlk_flock_size(enum dlk_fcntl who, int *cmd)
{
	const bool ofd = dlk_is_ofd(*cmd);

	if (sizeof(long) == sizeof(int64_t))
		return ofd || is_among(*cmd, FIRST) ? DLK_FLOCK64
						    : DLK_NO_FLOCK;
	if (is_among(*cmd, FIRST)) {
		*cmd += FIRST64 - FIRST;
		return DLK_FLOCK32;
	}
	if (who == DLK_FCNTL_1)
		return DLK_NO_FLOCK;
	if (ofd)
		return who == DLK_FCNTL ? DLK_FLOCK32 : DLK_FLOCK64;
	return is_among(*cmd, FIRST64) ? DLK_FLOCK64 : DLK_NO_FLOCK;
}

void dlk_flock_widen(const struct dlk_flock32 *from, struct flock64 *to)
{
	*to = (struct flock64){ .l_type = from->l_type,
				.l_whence = from->l_whence,
				.l_start = from->l_start,
				.l_len = from->l_len,
				.l_pid = from->l_pid };
}

int dlk_flock_narrow(const struct flock64 *from, bool ofd,
		     struct dlk_flock32 *to)
{
	const bool is_long = from->l_len > INT32_MAX;

	if (from->l_start > INT32_MAX || (ofd && is_long))
		return -EOVERFLOW;
	*to = (struct dlk_flock32){
		.l_type = from->l_type,
		.l_whence = from->l_whence,
		.l_start = (int32_t)from->l_start,
		.l_len = is_long ? INT32_MAX : (int32_t)from->l_len,
		.l_pid = from->l_pid,
	};
	return 0;
}
