#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 150
#
# A process that closes its descriptor while a child has it renews that lease no
# more: it is the keepers' alone.  The process does not kill them for a stall, as
# it would if it could give the next ones all that they carry: it tells the standby,
# which has it, and takes over (DESIGN 9.5).
#
# So it is with all that a process has which renews nothing itself: it is in
# another pid namespace's hands (unshare(2): no thread), or another network's.
#
# Control: with both of them stopped the lease ends, its holder before it, and
# what the process has itself is carried by others; its fork(2) does not wait for
# that.
. "${0%/*}/../../lib/rig.sh"
# shellcheck source=tests/lib/freezer.sh
. "$TOP/tests/lib/freezer.sh"

TTL=9000 # whose keeper stands still is replaced 2 s before it costs the lease

# It has "two" itself, and renews that: so it has something to tell the keeper.
begins()
{
	peer "$1" dl A env DLOCK_LOG="warning:$RIG/log" /usr/bin/python3 -c '
import fcntl, os, signal, sys, time
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
h = open("three", "w")
fcntl.flock(h, fcntl.LOCK_EX)
began = time.monotonic()
if not (other := os.fork()):
    os._exit(0)
print(int((time.monotonic() - began) * 1000), flush=True)
os.waitpid(other, 0)
# (Who is killed may lack a core to end.)
how = 0 if sys.stdin.readline() == "9\n" else os.WNOHANG
print(os.waitpid(child, how)[1], flush=True)
sys.stdin.readline()
try:
    os.kill(child, signal.SIGKILL)
except ProcessLookupError:
    pass
os._exit(0)'
	hear "$1"
	ok "$1: who shares the lock has watchdogs" until_true 5 watchdogs_are 2
	ok "$1: the keeper has a standby" until_true 5 have_standbys A 1
	KEEPER=$(pids_of A -o -x dlock-keeper)
	one=$(rr get "dlock:$MNT/one")
	two=$(rr get "dlock:$MNT/two")
}

# stays FILE TOKEN: the same lease for longer than a ttl, and nobody else's for a
# moment
is_kept()
{
	are_refused "$1" && [ "$(token_of "$1")" = "$2" ]
}

stays()
{
	throughout $((TTL * 4 / 3)) 4 is_kept "$@"
}

forks()
{
	say "$1" ''
	hear "$1" 60
	ok "$1: fork(2) does not wait as long as a lease lives: $HEARD ms" \
		[ "$HEARD" -lt "$TTL" ]
}

ends()
{
	say "$1" "$2"
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
rig_configs ttl=${TTL}ms

begins stopped
kill -STOP "$KEEPER"
ok 'stopped: what was left to it is carried on' stays one "$one"
ok 'stopped: the keeper was killed' pid_is_gone "$KEEPER"
forks stopped
ends stopped 0

begins stalled
kill -STOP "$KEEPER"
ok 'stalled: the process finds that, and its standby takes over' \
	until_true 10 has_another
kill -CONT "$KEEPER" 2>/dev/null
ok 'stalled: what was left to it is carried on' stays one "$one"
forks stalled
ends stalled 0

begins dying
ok 'dying: a thread of the keeper has no core' freeze_other_threads
kill -KILL "$KEEPER"
ok 'dying: the first one is dead' until_true 5 first_thread_is_dead
ok 'dying: what was left to it is carried on' stays one "$one"
ok 'dying: it has not ended yet (control)' first_thread_is_dead
ok 'dying: when it may, it ends' thaw
forks dying
ends dying 0
unlike "$(cat "$RIG/log")" 'LOST|are killed' 'nothing is said to be lost'

begins both
# shellcheck disable=SC2046 # numbers
kill -STOP "$KEEPER" $(pids_of A -x dlock-standby)
forks both
ok 'both: another host is granted it' until_true 20 dl B flock -n one true
ok 'both: the process has another keeper' until_true 10 has_another
ends both 9

# elsewhere NAME FLAG: by unshare(2); with locks of its own, as short as any but
# in another network, whose keeper would reach no server.
elsewhere()
{
	: >"$RIG/log"
	peer "$1" dl A env DLOCK_LOG="warning:$RIG/log" /usr/bin/python3 -c '
import ctypes, fcntl, sys, time
f = open("mine", "w")
fcntl.flock(f, fcntl.LOCK_EX)
print("mine", flush=True)
sys.stdin.readline()
ctypes.CDLL(None).unshare(int(sys.argv[1], 0))
print("elsewhere", flush=True)
sys.stdin.readline()
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    g = open("other", "w")
    try:
        fcntl.flock(g, fcntl.LOCK_EX)
    except OSError:
        pass
    time.sleep(0.1)
    g.close()
print("lives", flush=True)
sys.stdin.readline()' "$2" $((2 * TTL / 1000))
	hear "$1"
	ok "$1: the keeper has a standby" until_true 5 have_standbys A 1
	say "$1" ''
	hear "$1"
	KEEPER=$(pids_of A -o -x dlock-keeper)
	mine=$(rr get "dlock:$MNT/mine")
	kill -STOP "$KEEPER"
	say "$1" ''
	ok "$1: what the process has is carried on" stays mine "$mine"
	hear "$1" 30
	is "$HEARD" lives "$1: and it lives"
	unlike "$(cat "$RIG/log")" 'LOST|are killed' \
		"$1: nothing is said to be lost"
	say "$1" ''
	peer_end "$1"
	ok "$1: none of them is left" until_true 10 host_is_idle A
}

elsewhere pid 0x20000000 # CLONE_NEWPID
elsewhere net 0x40000000 # CLONE_NEWNET
freezer_end
rig_end
