#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A pid namespace without a /proc of its own (unshare -pf): what /proc has by a
# number is about another process.  So nobody is stopped by that, which the log
# says; and no keeper takes another one for dead by it (DESIGN 9.7, 9.8).  A file
# that its keeper is not permitted to open keeps nobody waiting.
#
# Control: with a /proc of its own the holder is killed; so he is where a line of
# /proc is far down, behind the names of hundreds of groups.
. "${0%/*}/../../lib/rig.sh"

TTL=6000
MANY=150 # numbers that are in use, inside and outside

# It has processes of the first numbers outside, which are dead.
zombies()
{
	peer zombies on A /usr/bin/python3 -c "
import os, sys
for i in range($MANY):
    if not os.fork():
        os._exit(0)
print('begun', flush=True)
sys.stdin.read()"
	hear zombies
}

# Who holds the lock has no timer of his own: he only has the descriptor.
begins()
{
	: >"$RIG/log"
	# shellcheck disable=SC2016 # sh's
	peer "$1" dl A env DLOCK_LOG="warning:$RIG/log" MANY=$MANY \
		unshare -p -f --kill-child "${@:2}" sh -c '
		for i in $(seq 20); do /bin/true; done
		sh -c "exec 9>f; flock 9; echo held; exec sleep 777" &
		for i in $(seq $MANY); do
			sleep 888 </dev/null >/dev/null &
		done
		cat >/dev/null'
	hear "$1"
	is "$HEARD" held "$1: a lock is held"
	ok "$1: beside many" until_true 20 bystanders_are $MANY
	ok "$1: whose keeper has a standby" until_true 5 has_standby
}

count()
{
	on A pgrep -c -x -f "sleep $1"
}

bystanders_are()
{
	[ "$(count 888)" = "$1" ]
}

has_standby()
{
	on A pgrep -x dlock-standby >/dev/null
}

holder_is_dead()
{
	[ "$(count 777)" = 0 ]
}

is_said()
{
	grep -qE "$1" "$RIG/log"
}

ends()
{
	kill -CONT "$REDIS_PID"
	peer_end "$1"
	ok "$1: none of them is left" until_true 10 no_keeper A
}

rig_start disks
rig_configs ttl=${TTL}ms

zombies
begins foreign
kill -STOP "$REDIS_PID"
ok 'foreign: that he is not found is said, and why' until_true 20 is_said \
	'LOST.*could not be looked for.*/proc is another pid namespace'
ok 'foreign: everybody else lives' bystanders_are $MANY
unlike "$(cat "$RIG/log")" 'are killed|has ended while' \
	'foreign: nobody is said to be killed, and no keeper to be dead'
ends foreign

is_killed()
{
	kill -STOP "$REDIS_PID"
	ok "$1: the holder is killed (control)" until_true 20 holder_is_dead
	ok "$1: everybody else lives" bystanders_are $MANY
	ends "$1"
}

begins own --mount-proc
is_killed own
begins groups --mount-proc \
	setpriv --groups "$(seq -s, 1000000000 1000000299)"
is_killed groups

# Nor can a keeper tell of a lock by /proc there, and a file that it may not open (a
# file server says EPERM) it does not carry: who forks waits for its word, and goes on.
mkdir "$RIG/denied"
on A mkdir "$MNT/denied"
on A "$BIN/lockfs" "$RIG/denied" "$MNT/denied" denied "$RIG" || rig_die 'no lockfs'
: >"$RIG/log"
peer forks dl A env DLOCK_LOG="warning:$RIG/log" unshare -p -f --kill-child \
	/usr/bin/python3 -c '
import fcntl, os, sys
f = open("denied/f", "w")
fcntl.flock(f, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
if os.fork() == 0:
    os._exit(0)
os.wait()
print("forked", flush=True)
sys.stdin.readline()'
hear forks
is "$HEARD" held 'denied: a lock is held'
ask forks fork
is "$HEARD" forked 'denied: its process has a child'
ok 'denied: that no keeper has it is said, and why' until_true 5 \
	is_said 'no keeper for the lease .*/denied/f: dlock-keeper runs, .* its file .*: Operation not permitted; .*mount a /proc'
unlike "$(cat "$RIG/log")" 'installed' '... and not that there is no dlock-keeper'
peer_end forks
ok 'denied: all is over' until_true 10 no_keeper A
ok 'denied: its lease ends by its ttl' until_true 10 db_is_empty
rig_end
