#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# A call that waits asks the kernel what a signal does when there is one, and
# not before (sigaction(2)): in a process of several threads it looks up 20
# times a second.
. "${0%/*}/../../lib/rig.sh"

# waiter NAME CMD...: a locker, and what it asks of sigaction(2) in a file
waiter()
{
	peer "$1" on B strace -f -qq -e trace=rt_sigaction -e signal=none \
		-o "$RIG/trace.$1" env "${@:2}" "$BIN/locker"
}

# asked NAME: while it waited for a second, or a signal, it asked so often
asked()
{
	ask "$1" 'open f f'
	# A lock of its own: dlock's thread runs.
	ask "$1" 'open g g'
	ask "$1" 'lock g EX'
	say "$1" 'lock f EX'
	[ -z "${2-}" ] || until_true 5 "$2"
	sleep 1
	ask h 'lock f UN'
	hear "$1"
	is "$RESULT" 0 "$1: it has the lock at the end"
	peer_end "$1"
	until_true 5 traced "$1"
	ASKED=$(grep -c rt_sigaction "$RIG/trace.$1")
	note "$1: asked $ASKED times"
}

traced()
{
	! pgrep -f "$RIG/trace.$1" >/dev/null
}

is_queued()
{
	[ "$(rr exists "{dlock:$MNT/f}%q")" = 1 ]
}

rig_start disks
locker h on B
ask h 'open f f'
ask h 'lock f EX'
waiter bare
asked bare
bare=$ASKED
locker h dl A
ask h 'open f f'
ask h 'lock f EX'
waiter queued LD_PRELOAD="$BUILD/libdlock-preload.so" \
	DLOCK_CONFIG="$RIG/B.conf"
asked queued is_queued
at_most "$((ASKED - bare))" 40 'a wait of a second asks for few dispositions'
rig_end
