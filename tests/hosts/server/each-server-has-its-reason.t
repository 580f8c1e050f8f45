#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# One process holds locks at two servers: one of them is gone, the other stands
# still.  What is said of a lease is what its own server did.
. "${0%/*}/../../lib/rig.sh"

beside_answers()
{
	[ "$(redis-cli -s "$RIG/beside.sock" ping 2>&1)" = PONG ]
}

all_are_lost()
{
	[ "$(grep -c 'is LOST' "$RIG/log")" -ge 4 ]
}

rig_start disks
free_port
redis_start "$FREE" "$RIG/beside.sock" "$RIG/beside.log"
BESIDE=$STARTED
trap 'kill -KILL "$BESIDE"; rig_cleanup' EXIT
ok 'a second server' until_true 5 beside_answers
: >"$RIG/log"
rig_config A ttl=6s path_more='on_lost = "report"'
rig_also A beside "$MNT/beside/" url="unix://$RIG/beside.sock" ttl=6s \
	path_more='on_lost = "report"'
on A mkdir "$MNT/beside"
export DLOCK_LOG=warning:$RIG/log
locker a dl A
for i in 1 2; do
	ask a "open gone$i gone$i"
	ask a "lock gone$i EX"
	is "$RESULT" 0 'one at the first server'
	ask a "open still$i beside/still$i"
	ask a "lock still$i EX"
	is "$RESULT" 0 '... and one at the second'
done
kill -STOP "$BESIDE"
redis_kill
ok 'all are lost' until_true 20 all_are_lost
note "$(cat "$RIG/log")"
unlike "$(grep gone "$RIG/log")" 'no answer|not answer' \
	'where it is gone, nobody is said not to answer'
unlike "$(grep still "$RIG/log")" 'refused|No such file' \
	'where it stands still, nobody is said to refuse'
kill -CONT "$BESIDE"
redis_up
peer_end a
done_testing
