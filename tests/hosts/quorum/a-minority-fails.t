#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# One of three masters is dead, hangs, or is slow: what is held stays held, what
# is free is granted, in no longer than the others take, and nothing is logged
# but of that master.  When it is back, what is held is put back there, and it
# counts: another one may go then.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"

# How long LOCKS pairs take a program of A (ms); its standard error in $RIG/p.err
LOCKS=200 TTL=4000
pairs()
{
	dl A /usr/bin/python3 -c 'import fcntl, sys, time
f = open("free", "a")
began = time.monotonic()
for i in range(int(sys.argv[1])):
    fcntl.flock(f, fcntl.LOCK_EX)
    fcntl.flock(f, fcntl.LOCK_UN)
print(int((time.monotonic() - began) * 1000))' "$LOCKS" 2>"$RIG/p.err"
}

refused_at_b()
{
	ask b 'lock b EX NB'
	[ "$RESULT" = EAGAIN ]
}

# with_a_minority NAME MASTER: it is as NAME says
with_a_minority()
{
	local name=$1 took

	ok "$name: what is held stays so, for two ttls" \
		throughout $((2 * TTL)) 40 refused_at_b
	took=$(pairs)
	ok "$name: what is free is granted" [ -n "$took" ]
	is "$(cat "$RIG/p.err")" '' "$name: ... and nothing is said of that"
	note "$name: $LOCKS pairs in $took ms, with all there $ALL ms"
	in_time "$took" $((4 * ALL + 400)) "$name: ... about as soon (ms)"
	unlike "$(cat "$RIG/a.err" "$RIG/log")" 'LOST' "$name: nothing is lost"
}

# back NAME: it has the lease again
back()
{
	ok "$1: back, it has what is held again" until_true 10 has_votes f 3
	until_true 20 masters_are_old 5	# and so has a vote
}

rig_start disks
: >"$RIG/log"
export DLOCK_LOG=warning:$RIG/log
rig_configs ttl=${TTL}ms timeout=5s connect_timeout=600ms restart_delay=${TTL}ms
until_true 20 masters_are_old 5
locker a dl A
locker b dl B
ask a 'open a f'
ask b 'open b f'
ask a 'lock a EX'
is "$RESULT" 0 'a lock is held'
ok 'by all masters' until_true 5 has_votes f 3
ok 'and refused to another host' refused_at_b
ALL=$(pairs)

master_kill 3
with_a_minority 'dead'
master_up 3
back 'dead'

master_stop 2
with_a_minority 'stopped'
master_cont 2
back 'stopped'

master_kill 1
with_a_minority 'the first one dead'
master_up 1
back 'the first one dead'

ask a 'lock a UN'
ok 'it is free everywhere' until_true 5 has_votes f 0
ask b 'lock b EX NB'
is "$RESULT" 0 'and granted to the other host'
ask b 'lock b UN'
rig_end
