#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Who waits under a signal a millisecond is not served while a handler may run;
# so where the server is far, or busy, it must also be there in between, or
# those without signals would have the lock by turns.
. "${0%/*}/../../lib/rig.sh"

ROUNDS=8

rig_start disks
proxy far
ask far 'delay 8'
rig_configs ttl=6s
rig_config A ttl=6s "url=redis://127.0.0.1:$PROXY/0"
touch "$RIG/herd.out"
peer others dl B "$BIN/herd" "$RIG/herd.out" others.
ask others "3 $MNT/f EX 20000 600s -" 20
is "${HEARD##* }" 0 'others have it by turns'
handled=0 failed=0
for ((i = 0; i < ROUNDS; i++)); do
	n=$(dl A timeout 60 "$BIN/alarmed_waiters" "$MNT/f" 1) || failed=$((failed + 1))
	handled=$((handled + ${n:-0}))
done
note "$handled handlers ran in $ROUNDS waits"
is "$failed" 0 'who waits under signals is granted it'
at_least "$handled" "$ROUNDS" '... that came while it waited'
at_most "$handled" $((20 * ROUNDS)) '... after some, not after many'
on B pkill -x herd
rig_empty 10
done_testing
