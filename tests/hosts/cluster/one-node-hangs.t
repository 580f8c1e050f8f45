#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A node of the cluster hangs, and none takes its place: what it has is lost, and what
# other nodes have is renewed as before, though one process and its keeper ask them
# all, with the least ttl that such a connect_timeout allows.
RIG_MODE=cluster NODE_TIMEOUT=15000 # none is failed over
. "${0%/*}/../../lib/rig.sh"

TTL=6000
FILES=24

# lost FILES...: how many of them are said to be
lost()
{
	local file n=0

	for file; do
		grep -q "/$file\b.* LOST" "$RIG/log" && n=$((n + 1))
	done
	echo "$n"
}

rig_start disks
rig_configs ttl=${TTL}ms timeout=20s connect_timeout=1s restart_delay=0s \
	path_more='on_lost = "report"'
export DLOCK_LOG=warning:$RIG/log
locker a dl A
hung=$(owner_of "$(slot_of "$(key_of f0)")")
there=() elsewhere=()
for ((i = 0; i < FILES; i++)); do
	ask a "open f$i f$i"
	ask a "lock f$i EX"
	[ "$RESULT" = 0 ] || fail "f$i: $RESULT"
	if [ "$(owner_of "$(slot_of "$(key_of f$i)")")" = "$hung" ]; then
		there+=("f$i")
	else
		elsewhere+=("f$i")
	fi
done
note "${#there[@]} at the node, ${#elsewhere[@]} elsewhere"
for ((i = 1; i <= 6; i++)); do
	m $i config set cluster-require-full-coverage no >/dev/null
done
m $((hung + 3)) config set cluster-replica-no-failover yes >/dev/null
kill -STOP "${MASTER_PID[hung]}"
all_lost()
{
	[ "$(lost "${there[@]}")" = "${#there[@]}" ]
}
ok 'what the node has is lost' until_true 20 all_lost
sleep $((3 * TTL / 1000))
is "$(lost "${elsewhere[@]}")" 0 '... and nothing else'
kill -CONT "${MASTER_PID[hung]}"
peer_end a
rig_empty 10
done_testing
