#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Whatever a signal restarts makes progress all the same: under SIGALRM at
# 1 kHz (SA_RESTART) a waiter in the queue at Redis searches for deadlocks, and
# one that nobody tells looks at its key.
#
# The kernel is the oracle: on one host, bare, the cycle ends by EDEADLK.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/players.sh"

# r queues at Redis for a byte of q's; then p, on r's host, takes the byte
# beside it, which r wants as well.  So r is in the queue for the sake of a
# holder of its own host.  At last p waits for what r holds: a cycle of the two.
cycle()
{
	want r 'range f F_WRLCK 2 1' 0 || return 1
	want q 'range f F_WRLCK 1 1' 0 || return 1
	ask r "tick $TICK"
	say r 'range f F_WRLCK 0 2 WAIT'
	until_true 5 is_waiting || return 1
	want p 'range f F_WRLCK 0 1' 0 || return 1
	want q 'range f F_UNLCK 1 1' 0 || return 1
	say p 'range f F_WRLCK 2 1 WAIT'
	one_gives_up
}

# Bare, it is the kernel that r waits in.
is_waiting()
{
	if [ "$RUN" = dl ]; then
		waits_told 1
	else
		on A grep -q -e '->' /proc/locks
	fi
}

# One gets EDEADLK; what it holds goes, and the other has its lock.
one_gives_up()
{
	until_true 8 either p r || { note "$RUN: both wait still"; return 1; }
	note "$RUN: $WHO gets $RESULT"
	[ "$RESULT" = EDEADLK ] || return 1
	ask "$WHO" 'range f F_UNLCK 0 10' && hear "$OTHER" &&
		[ "$RESULT" = 0 ]
}

# A foreign holder wakes nobody, and nobody wakes who may not SUBSCRIBE.
finds_it_free()
{
	rr set "dlock:$MNT/f" stranger px 60000 >/dev/null
	ask p "tick $TICK"
	say p 'lock f EX'
	until_true 5 is_queued || return 1
	rr del "dlock:$MNT/f" >/dev/null
	hear p 5
	note "$(((END - START) / 1000000)) ms: $RESULT"
	[ "$RESULT" = 0 ] && want p 'lock f UN' 0
}

is_queued()
{
	[ "$(rr exists "{dlock:$MNT/f}%q")" = 1 ]
}

rig_start disks
RUN=on
TICK=1000
ok 'one host, bare, under signals: the kernel finds the cycle' \
	scene cycle p@A r@A q@A
RUN=dl
TICK=0
ok 'two hosts, no signals: it is found (control)' scene cycle p@A r@A q@B
TICK=1000
ok 'two hosts, under signals: it is found' scene cycle p@A r@A q@B

# The user may do all but listen.
rr acl setuser deaf on '>x' '~*' '+@all' resetchannels >/dev/null
rig_configs url="redis://deaf:x@127.0.0.1:$PORT/0" path_more='interop = true'
TICK=0
ok 'no signals: what a stranger leaves is found (control)' \
	scene finds_it_free p@A
TICK=1000
ok 'under signals: what a stranger leaves is found' scene finds_it_free p@A
rig_end
