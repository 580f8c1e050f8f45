#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Two processes share a description (DESIGN L2).  What the one is granted after
# a wait stays locked in the kernel, though the other one was refused a moment
# before: 5 of 40 times it had unlocked what was both's.
. "${0%/*}/../lib/rig.sh"

ROUNDS=40

rig_start disks
rig_configs ttl=2s connect_timeout=300ms
locker h dl B
ask h 'open f f'
peer s dl A "$BIN/sharers" f
granted=0 missed=0
for ((i = 0; i < ROUNDS; i++)); do
	ask h 'lock f EX'
	[ "$RESULT" = 0 ] || rig_die "no holder: $HEARD"
	ask s round
	sleep 0.02
	ask h 'lock f UN'
	hear s
	granted=$((granted + (RESULT == 0)))
	missed=$((missed + END))
done
is "$granted" $ROUNDS 'who waits by a shared description has the lock'
is "$missed" 0 '... and it is there, each time that it is looked for'
peer_end s
rig_end
