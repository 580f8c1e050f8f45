#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A process that closes its descriptor while a child has it renews that lease no
# more: it is the keepers' alone.  The process does not kill them for a stall, as
# it would if it could give the next ones all that they carry: it tells the standby,
# which has it, and takes over (DESIGN 9.5).
#
# Control: with both of them stopped the lease ends, its holder before it, and
# what the process has itself is carried by others.
. "${0%/*}/../../lib/rig.sh"
# shellcheck source=tests/lib/freezer.sh
. "$TOP/tests/lib/freezer.sh"

TTL=3000

# It has "two" itself, and renews that: so it has something to tell the keeper.
begins()
{
	peer "$1" dl A env DLOCK_LOG="warning:$RIG/log" /usr/bin/python3 -c '
import fcntl, os, signal, sys
f = open("one", "w")
fcntl.flock(f, fcntl.LOCK_EX)
child = os.fork()
if not child:
    signal.pause()
os.close(f.fileno())
g = open("two", "w")
fcntl.flock(g, fcntl.LOCK_EX)
print("has both", flush=True)
sys.stdin.readline()
print(os.waitpid(child, os.WNOHANG)[1], flush=True)
sys.stdin.readline()
try:
    os.kill(child, signal.SIGKILL)
except ProcessLookupError:
    pass
os._exit(0)'
	hear "$1"
	ok "$1: who shares the lock has watchdogs" until_true 5 watchdogs_are 2
	ok "$1: the keeper has a standby" until_true 5 have_standbys A 1
	KEEPER=$(pids_of dlock-keeper)
	one=$(rr get "dlock:$MNT/one")
	two=$(rr get "dlock:$MNT/two")
}

# One is the same lease for two ttls, and nobody else's for a moment.
stays()
{
	local end=$(($(now) + 2 * TTL * 1000000)) asked=0

	while [ "$(now)" -lt "$end" ] || [ "$asked" -lt 4 ]; do
		if dl B flock -n one true; then
			diag 'another host was granted it'
			return 1
		fi
		[ "$(rr get "dlock:$MNT/one")" = "$one" ] || return 1
		asked=$((asked + 1))
	done
	note "$asked times refused"
}

ends()
{
	say "$1" ''
	hear "$1"
	is "$HEARD" "$2" "$1: what became of the child: $2"
	is "$(rr get "dlock:$MNT/two")" "$two" "$1: the process has its own lease"
	say "$1" ''
	peer_end "$1"
	ok "$1: none of them is left" until_true 10 host_is_idle A
}

rig_start disks
freezer_start
: >"$RIG/log"
rig_configs ttl=${TTL}ms connect_timeout=300ms

begins stopped
kill -STOP "$KEEPER"
ok 'stopped: what was left to it is carried on' stays
ok 'stopped: the keeper was killed' pid_is_gone "$KEEPER"
ends stopped 0

begins stalled
kill -STOP "$KEEPER"
ok 'stalled: the process finds that, and its standby takes over' \
	until_true 10 has_another
kill -CONT "$KEEPER" 2>/dev/null
ok 'stalled: what was left to it is carried on' stays
ends stalled 0

begins dying
ok 'dying: a thread of the keeper has no core' freeze_other_threads
kill -KILL "$KEEPER"
ok 'dying: the first one is dead' until_true 5 first_thread_is_dead
ok 'dying: what was left to it is carried on' stays
ok 'dying: it has not ended yet (control)' first_thread_is_dead
ok 'dying: when it may, it ends' thaw
ends dying 0
unlike "$(cat "$RIG/log")" 'LOST|are killed' 'nothing is said to be lost'

begins both
# shellcheck disable=SC2046 # numbers
kill -STOP "$KEEPER" $(pids_of dlock-standby)
ok 'both: another host is granted it' until_true 15 dl B flock -n one true
ok 'both: the process has another keeper' until_true 10 has_another
ends both 9
freezer_end
rig_end
