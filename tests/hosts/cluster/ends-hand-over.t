#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A program that ends with its lock hands it to who waits, in a cluster as well: by
# the script that wakes him, though nobody has asked that node by that connection
# before (the scripts there have its name), and not by one that only removes the key.
RIG_MODE=cluster NODE_TIMEOUT=15000 # no node fails here
. "${0%/*}/../../lib/rig.sh"

ROUNDS=5

queued()
{
	[ "$(rr hget "{dlock:$MNT/f}%q" tail)" -ge 1 ] 2>/dev/null
}

# How often the node was asked by a script's text.
texts()
{
	m "$1" info commandstats | tr -d '\r' |
		sed -n 's/^cmdstat_eval:calls=\([0-9]*\),.*/\1/p' | grep . || echo 0
}

rig_start disks
rig_configs
node=$(owner_of "$(slot_of "dlock:$MNT/f")")
dl A flock f true # (the first one teaches it)
locker w dl B
ask w 'open f f'
late=''
before=$(texts "$node")
for ((i = 1; i <= ROUNDS; i++)); do
	locker h dl A
	ask h 'open f f'
	ask h 'lock f EX'
	[ "$RESULT" = 0 ] || fail "round $i: no holder: $RESULT"
	say w 'lock f EX'
	until_true 5 queued || fail "round $i: nobody waits"
	begin=$(now)
	peer_end h
	hear w 10
	[ "$RESULT" = 0 ] || fail "round $i: $RESULT"
	took=$(((END - begin) / 1000))
	# (Who is not woken looks each half second.)
	within_us "$took" 300000 || late="$late $took"
	ask w 'lock f UN'
done
is "$(texts "$node")" "$before" "$ROUNDS ends: no script by its text"
is "$late" '' "none is handed over late (us)"
peer_end w
rig_end
