#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# What has no handler does to a call that waits at Redis what it does to one
# that waits in the kernel: it ends the program, stops it, or is nothing to it.
#
# Each scene is played bare on one host first: the kernel is the oracle.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/players.sh"

starts_waiting()
{
	want h 'lock f EX' 0 || return 1
	ask w pid
	PID=$RESULT
	say w 'lock f EX'
	until_true 5 is_waiting
}

is_waiting()
{
	if [ "$RUN" = dl ]; then
		[ "$(rr exists "{dlock:$MNT/f}%q")" = 1 ]
	else
		on A grep -q -e '->' /proc/locks
	fi
}

# send SIGNAL: to w, as its own host knows it
send()
{
	on "$WAITER" kill -s "$1" "$PID"
}

state()
{
	on "$WAITER" cut -d' ' -f3 "/proc/$PID/stat"
}

is_in()
{
	[ "$(state)" = "$1" ]
}

is_dead()
{
	! on "$WAITER" kill -0 "$PID" 2>/dev/null
}

# It waits still, and has the lock when it is free.
goes_on()
{
	hear w 0.2
	[ "$RESULT" = silence ] || return 1
	want h 'lock f UN' 0 && hear w && [ "$RESULT" = 0 ]
}

fatal()
{
	starts_waiting && send TERM && until_true 5 is_dead
}

stopped()
{
	starts_waiting && send TSTP && until_true 5 is_in T &&
		send CONT && until_true 5 is_in S && goes_on
}

nothing()
{
	starts_waiting && send WINCH && send CHLD && send URG && goes_on
}

# What is left of who was killed is another test's.
players_leave()
{
	peer_end "${PLAYERS[@]}"
}

rig_start disks
for scene in fatal stopped nothing; do
	RUN=on WAITER=A
	ok "$scene: bare, on one host" scene "$scene" h@A w@A
	RUN=dl WAITER=B
	ok "$scene: across hosts" scene "$scene" h@A w@B
done
rig_end
