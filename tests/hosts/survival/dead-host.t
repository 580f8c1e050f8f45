#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A host dies, with the holder of a lock and his keepers: who waits for it on
# another host owns it as soon as the lease is over at the server, within 250 ms,
# and never before.  A sleep of the same time says how late the machine is just then
# (control).
#
# SURVIVAL_N times (torture: more).
. "${0%/*}/../../lib/rig.sh"

TTL=1500
n=${SURVIVAL_N:-3}
worst=0

is_waiting()
{
	[ "$(rr hlen "{dlock:$MNT/f}%q")" -gt 2 ]
}

rig_start disks
rig_configs ttl=${TTL}ms connect_timeout=250ms
for ((try = 1; try <= n; try++)); do
	[ "$try" = 1 ] || host_new A disks
	peer holder dl A flock f sh -c 'echo held; read -r _'
	hear holder || rig_die "not held: $(cat "$RIG/holder.err")"
	# shellcheck disable=SC2016 # the inner shell's
	peer waiter dl B flock f sh -c '"$0"; read -r _' "$BIN/now"
	until_true 10 is_waiting || rig_die 'nobody waits'
	host_dead A
	until_true 5 host_is_gone A || rig_die 'host A lives'
	left=$(rr pttl "dlock:$MNT/f")
	read_at=$(now)
	peer control sh -c 'sleep "$1"; "$0"' "$BIN/now" \
		"$((left / 1000)).$(printf %03d $((left % 1000)))"
	hear waiter 20 || rig_die 'it is never granted'
	owned=$HEARD
	hear control 20 || rig_die 'no control'
	took=$(((owned - read_at) / 1000000 - left))
	late=$(((HEARD - read_at) / 1000000 - left))
	[ "$took" -le "$worst" ] || worst=$took
	at_least "$left" 1 "$try: the dead host's lease has $left ms left"
	# (The server is asked, and answers, between two readings of the clock.)
	at_least "$took" -20 "... and nobody owns it before"
	at_most "$took" $((250 + late)) \
		"... but the waiter $took ms after; a sleep ends $late ms late"
	peer_end waiter
	peer_end holder
	peer_end control
	until_true 10 lease_is_gone f || rig_die 'left'
done
note "at worst $worst ms after, of $n"
rig_end
