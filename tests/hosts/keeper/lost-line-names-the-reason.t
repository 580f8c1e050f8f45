#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A lease that its keeper could not renew is lost, and the line says why: what the
# server has not done, though the keeper was there in time and has nothing to ask in
# between; and for how long, also of a lease that was granted in the queue a moment
# ago, and never renewed.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=6s timeout=3s
export DLOCK_LOG=info:$RIG/log
# (Who has the descriptor at last has no dlock.)
dl A bash -c 'exec 9>left; flock 9; exec env -u LD_PRELOAD sleep 1000' &
JOB=$!
ok 'a keeper has the lease' until_true 10 on A pgrep -x sleep
kill -STOP "$REDIS_PID"
ok 'the server hangs, and it is lost' until_true 20 grep -q LOST "$RIG/log"
like "$(grep LOST "$RIG/log")" 'no answer: Connection timed out' \
	'... for the server has not answered'
kill -CONT "$REDIS_PID"
on A pkill -KILL -x sleep
wait "$JOB"

# The server hands it on, and refuses to confirm that: what was handed on lasts for
# less than the ttl.
: >"$RIG/log"
TTL=10
rig_configs ttl=${TTL}s timeout=3s
waits()
{
	[ "$(rr exists "{dlock:$MNT/f}%q")" = 1 ]
}
# (Whose child has the lock, too, has a keeper.  For that there is a second, or it is
# too late: so it has a core, and is told in advance.)
locker a dl A
peer b dl B nice -n -20 "$BIN/locker"
ask a 'open f f'
ask a 'lock f EX'
ask b 'open f f'
say b 'lock f EX'
ok 'B waits for what A has' until_true 10 waits
began=$(now)
rr acl setuser default -type >"$RIG/acl"
say b fork
ask a 'lock f UN'
hear b
is "$RESULT" 0 'B has it, and it cannot be confirmed'
hear b
lost='is LOST: it was not renewed for ([0-9]+) ms \(.*can.t run this command'
ok '... so it is lost' until_true 20 grep -qE "$lost" "$RIG/log"
at_most "$(sed -nE "s/.*$lost.*/\1/p" "$RIG/log" | head -n 1)" \
	$((($(now) - began) / 1000000)) \
	'... after no longer than since B was to have it (ms)'
rr acl setuser default +type >"$RIG/acl"
peer_end a b
done_testing
