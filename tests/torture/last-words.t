#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 200
#
# What a keeper says just before it is killed is the standby's, though that had
# no core then: it has found nothing to read, and asks next whether the keeper is
# dead.  That moment is made long, by a tracer; meanwhile the keeper, whose other
# thread is frozen so that its files stay open, goes on, renews, carries another
# lease, says so to its standby, and is killed.
#
#	last-words.t [ROUNDS]
. "${0%/*}/../lib/rig.sh"
# shellcheck source=tests/lib/freezer.sh
. "$TOP/tests/lib/freezer.sh"

ROUNDS=${1:-4}
TTL=6000
DELAY=2500 # ms, before getppid(2)

begins()
{
	peer a dl A env DLOCK_LOG="debug:$RIG/log" /usr/bin/python3 -c '
import fcntl, os, signal, sys
def left(name):
    f = open(name, "w")
    fcntl.flock(f, fcntl.LOCK_EX)
    child = os.fork()
    if not child:
        signal.pause()
    os.close(f.fileno())
    print(child, flush=True)
    sys.stdin.readline()
    return child
all = [left("one"), left("two")]
for child in all:
    os.kill(child, signal.SIGKILL)
os._exit(0)'
	hear a
	until_true 5 watchdogs_are 2 || rig_die 'no watchdogs'
	until_true 5 have_standbys A 1 || rig_die 'no standby'
	KEEPER=$(pids_of A -x dlock-keeper)
	freeze_other_threads || rig_die 'no thread is frozen'
}

is_fresh()
{
	[ "$(rr pttl "dlock:$MNT/one")" -gt $((TTL - 60)) ]
}

is_asking()
{
	[ -s "$RIG/strace" ]
}

are_two()
{
	[ "$(grep -c ' is carried on: ' "$RIG/log")" = 2 ]
}

round()
{
	local one two tracer

	: >"$RIG/log"
	: >"$RIG/strace"
	begins
	one=$(rr get "dlock:$MNT/one")
	until_true 10 is_fresh || return 1
	strace -qq -p "$(pids_of A -x dlock-standby)" -e trace=getppid -o "$RIG/strace" \
		-e inject=getppid:delay_enter=$((DELAY * 1000)) &
	tracer=$!
	kill -STOP "$KEEPER"
	# It is overdue: whether it is dead is asked.
	until_true 10 is_asking || return 1
	kill -CONT "$KEEPER"
	say a ''
	hear a
	two=$(rr get "dlock:$MNT/two")
	kill -KILL "$KEEPER"
	until_true 5 first_thread_is_dead || return 1
	ok 'one: is renewed before that' [ "$(rr pttl "dlock:$MNT/one")" -gt $((TTL / 2)) ]
	ok 'the standby takes over' until_true 10 has_another
	kill "$tracer" 2>/dev/null
	wait "$tracer"
	refused_for $((TTL * 3 / 2)) one two
	is "$?" 0 'nobody else is granted them'
	is "$(rr get "dlock:$MNT/one")" "$one" 'one is the same lease'
	is "$(rr get "dlock:$MNT/two")" "$two" 'and so is two'
	ok 'of which the standby had heard' are_two
	unlike "$(cat "$RIG/log")" 'LOST|are killed' 'nothing is said to be lost'
	thaw
	say a ''
	peer_end a
	ok 'none of them is left' until_true 10 host_is_idle A
}

rig_start disks
freezer_start
: >"$RIG/log"
rig_configs ttl=${TTL}ms connect_timeout=300ms
for ((i = 1; i <= ROUNDS; i++)); do
	note "round $i"
	ok 'the keeper says its last words' round
done
freezer_end
rig_end
