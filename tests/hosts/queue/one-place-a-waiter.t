#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Who waits has one place in the queue, however often a handler runs, and
# whatever the other threads of its process do with the connections: one that
# nobody waits in is served all the same, and all wait until that claim ends.
. "${0%/*}/../../lib/rig.sh"

THREADS=6 SAMPLES=60

# How many places are there that would be served?
served()
{
	rr hvals "{dlock:$MNT/f}%q" | grep -c ' EX '
}

is_waited_for()
{
	[ "$(served)" -gt 0 ]
}

rig_start disks
rig_configs ttl=6s
locker h dl B
ask h 'open f f'
ask h 'lock f EX'
dl A "$BIN/alarmed_waiters" "$MNT/f" "$THREADS" >"$RIG/handled" 2>"$RIG/said" &
pid=$!
ok 'they wait' until_true 10 is_waited_for
most=0 above=0
for ((i = 0; i < SAMPLES; i++)); do
	n=$(served)
	[ "$n" -le "$most" ] || most=$n
	[ "$n" -le "$THREADS" ] || above=$((above + 1))
	sleep 0.03
done
note "at most $most places of $THREADS waiters"
# (One that was left a moment ago, on a busy machine.)
at_most "$above" $((SAMPLES / 10)) 'nobody leaves a place behind'
ask h 'lock f UN'
wait "$pid"
is "$?$(cat "$RIG/said")" 0 'all are granted it'
often "$(cat "$RIG/handled")" 500 'and were under signals meanwhile' 1500
rig_end
