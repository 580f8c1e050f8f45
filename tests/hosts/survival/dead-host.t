#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A host dies, with the holder of a lock and his keepers: who waits for it on
# another host owns it as soon as the lease is over at the server, within 250 ms
# of a machine that has a core for it, and never before.
#
# SURVIVAL_N times (torture: more).
. "${0%/*}/../../lib/rig.sh"

TTL=6000
n=${SURVIVAL_N:-3}
worst=0

is_waiting()
{
	[ "$(rr hlen "{dlock:$MNT/f}%q")" -gt 2 ]
}

rig_start disks
rig_configs ttl=${TTL}ms
for ((try = 1; try <= n; try++)); do
	[ "$try" = 1 ] || host_new A disks
	peer holder dl A flock f sh -c 'echo held; read -r _'
	hear holder || rig_die "not held: $(cat "$RIG/holder.err")"
	# shellcheck disable=SC2016 # the inner shell's
	peer waiter dl B flock f sh -c '"$0"; read -r _' "$BIN/now"
	until_true 10 is_waiting || rig_die 'nobody waits'
	host_dead A
	until_true 5 host_is_gone A || rig_die 'host A lives'
	before=$(now)
	left=$(rr pttl "dlock:$MNT/f")
	after=$(now)
	hear waiter 20 || rig_die 'it is never granted'
	owned=$HEARD
	early=$(((owned - before) / 1000000 - left))
	took=$(((owned - after) / 1000000 - left))
	[ "$took" -le "$worst" ] || worst=$took
	at_least "$left" 1 "$try: the dead host's lease has $left ms left"
	# (The server says it between two readings of the clock, in whole ms.)
	at_least "$early" -2 "... and nobody owns it before"
	in_time "$((took > 0 ? took : 0))" 250 \
		"... but the waiter, $took ms after"
	peer_end waiter holder
	until_true 10 lease_is_gone f || rig_die 'left'
done
note "at worst $worst ms after, of $n"
rig_end
