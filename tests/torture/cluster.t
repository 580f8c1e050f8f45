#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 900
#
# Slots of a cluster that move to and fro, and masters that fail and come back as
# replicas, while two hosts lock: never two holders, nobody is lost by a move; the
# longest waits are told.
#
#	cluster.t [MOVES [FAILOVERS [SEED]]]
RIG_MODE=cluster
NODE_TIMEOUT=15000 # none fails but who is killed
. "${0%/*}/../lib/rig.sh"

MOVES=${1:-20}
FAILOVERS=${2:-3}
RANDOM=${3:-$$}
TTL=3			# s
KEYS=("dlock:l0" "dlock:l1" "dlock:l2" "dlock:r%rec" "w")

# The slot of what all of them lock: of a file, or where the waits are told.
slot_at()
{
	case $1 in
	w)
		slot_of '{w}' ;;
	*)
		slot_of "dlock:$MNT/${1#dlock:}" ;;
	esac
}

rig_start disks
rig_configs ttl=${TTL}s timeout=30s connect_timeout=500ms restart_delay=${TTL}s
sees_two 10
ok 'the nodes are old' until_true 10 masters_are_old $((TTL + 1))

load_begin "$BUILD/libdlock-preload.so"
for ((i = 1; i <= MOVES; i++)); do
	key=${KEYS[RANDOM % 5]}
	slot=$(slot_at "$key")
	to=$((($(owner_of "$slot") + RANDOM % 2) % 3 + 1))
	ms=$((RANDOM % 60))
	slot_move "$slot" "$to" "$ms"
	load_goes_on 20 || fail "move $i: nothing goes on"
done
load_end
is "$overlaps $broken $lost" '0 0 0' "$MOVES moves: never two holders"
is "$died $errors" '0 0' '... nobody has ended, and no lock has failed'
is "$(grep -c LOST "$LOAD/dlock.log")" 0 '... no lease is lost'

NODE_TIMEOUT=700
for i in "${!MASTER_PORT[@]}"; do
	m "$i" config set cluster-node-timeout "$NODE_TIMEOUT" >/dev/null
done
load_begin "$BUILD/libdlock-preload.so"
for ((i = 1; i <= FAILOVERS; i++)); do
	slot=$(slot_at "${KEYS[RANDOM % 4]}")
	master=$(owner_of "$slot")
	began=$(now)
	master_kill "$master"
	until_true 20 owner_of "$slot" >/dev/null || fail "no new master of $slot"
	note "slot $slot: a new master after $((($(now) - began) / 1000000)) ms"
	load_goes_on 50 || fail "failover $i: nothing goes on"
	node_up "$master"
	until_true 20 replica_follows "$master" || fail 'it does not come back'
done
load_end
is "$overlaps $broken $lost" '0 0 0' "$FAILOVERS failovers: never two holders"
note "$died have ended (their lease's time was over), $errors locks have failed"
note "$(grep LOST "$LOAD/dlock.log" 2>/dev/null | cut -c1-300)"
rig_empty 15
done_testing
