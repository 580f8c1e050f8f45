#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Waits in the queue that signals end again and again: each call does as the
# kernel's would (40-interrupted.t), who waits keeps its place, nobody else is
# kept waiting, and nothing leaks.
. "${0%/*}/../lib/rig.sh"
. "${0%/*}/../lib/herd.sh"

SIGNALS=${HERD_SIGNALS:-1000}

clients()
{
	rr client list | grep -c 'name=dlock-'
}

# beside HOW: one whose waits are ended, among six that nobody disturbs.
beside()
{
	herd_new
	drive one 1 EX 1000 3s "h$1"
	one=one.${PIDS[0]}
	drive one 3 EX 1000 3s h
	drive two 3 EX 1000 3s h
	ok "$1: all are done" each_done 7 15
	herd_report
	its=$(grep -c "^+ $one " "$RIG/herd.out")
	note "$1: $GRANTS grants, $its of the one; $ENDED waits were ended;" \
		"the longest wait $WORST_MS ms"
	is "$OVERLAPS" 0 "$1: one at a time"
	at_least $((700 * its / GRANTS)) 25 \
		"$1: it has a quarter of its share at least (per cent)"
	at_least "$GRANTS" 300 "$1: and the others go on"
}

# long HOW: it waits for a holder until it has been ended $SIGNALS times.
long()
{
	locker h dl B
	ask h 'open f f'
	ask h 'lock f EX'
	is "$RESULT" 0 "$1, long: another host holds it"
	herd_new
	drive one 1 EX 0 2 "h$1"
	sleep $((SIGNALS * 3 / 1000 + 1))
	had=$(clients)
	ask h 'lock f UN'
	ok "$1, long: it has it then" each_done 1 5
	herd_report
	note "$1, long: $ENDED waits were ended, $FDS descriptors and" \
		"$PAGES pages more, $had connections"
	at_most "$FDS" 0 "$1, long: no descriptor is left"
	at_most "$had" 6 "$1, long: nor a connection"
	rig_empty 4 "$1, long: no key is left"
}

rig_start disks
rig_configs ttl=3s connect_timeout=300ms
KEY=dlock:$MNT/f
herd one dl A
herd two dl B
for how in - e r j; do
	beside "$how"
done
for how in e r j; do
	long "$how"
	[ "$how" = r ] || at_least "$ENDED" $((SIGNALS / 2)) \
		"$how, long: it was ended so often"
done
rig_end
