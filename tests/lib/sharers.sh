# SPDX-License-Identifier: MIT
#
# $MANY processes on host A that share a lock, or work under it: each is a sleep(1).
# shellcheck shell=bash

sharers()
{
	on A pgrep -xc sleep
}

have_all()
{
	[ "$(sharers)" = "$MANY" ]
}

none_is_left()
{
	[ "$(sharers)" = 0 ]
}
