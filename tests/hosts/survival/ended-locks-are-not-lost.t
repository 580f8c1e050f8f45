#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A keeper that had no core while a lease ran out, and so has not seen that its
# lock ended before that, says of none that it is lost: it was not held.  Of one
# whose lock is there it says so (control).
. "${0%/*}/../../lib/rig.sh"

run_out()
{
	[ "$(rr --scan --pattern 'dlock:*')" = '' ]
}

# runs_out NAME [COMMAND...]: which is done while its keepers are stopped
runs_out()
{
	local name=$1
	local -a keepers

	shift
	: >"$RIG/log"
	peer "$name" dl A env DLOCK_LOG="warning:$RIG/log" "$BIN/locker"
	ask "$name" "open x $name"
	ask "$name" 'lock x EX NB'
	ok "$name: it is held, and has keepers" until_true 5 have_standbys A 1
	mapfile -t keepers < <(all_keepers A)
	on A kill -STOP "${keepers[@]}"
	"$@"
	ok "$name: it runs out" until_true 10 run_out
	on A kill -CONT "${keepers[@]}"
	ok "$name: its keepers have nothing more to do" until_true 10 no_keeper A
}

is_killed()
{
	on A pkill -KILL -x locker
}

# Its timer does not kill it: the rule has another policy.
stays()
{
	on A pkill -STOP -x locker
}

rig_start disks
rig_configs ttl=6s
runs_out ended is_killed
unlike "$(cat "$RIG/log")" 'LOST' 'ended: nothing is said to be lost'
peer_end ended
rig_configs ttl=6s path_more='on_lost = "report"'
runs_out there stays
like "$(cat "$RIG/log")" 'LOST' 'there: it is said (control)'
on A pkill -KILL -x locker
peer_end there
rig_end
