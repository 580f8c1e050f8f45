#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 1800
#
# Thousands of updates of shared counters, by three hosts, of which one is stopped
# for longer than its leases last, keepers and all, again and again: none is lost
# (L6), in any of RUNS runs.  Under on_lost = "report" some are (control).
#
#	updates-among-stops.t [RUNS [SEED]]
. "${0%/*}/../lib/rig.sh"
# shellcheck source=tests/lib/survival.sh
. "$TOP/tests/lib/survival.sh"

RUNS=${1:-3}
SEED=${2:-$RANDOM}
HOW=('faults=stop_all_long' at_once=1 'kinds=ex,mixed,range')

# updates ON_LOST: 14 stops take some 60 s.
updates()
{
	survives "$BUILD/libdlock-preload.so" 66 "${HOW[@]}" on_lost="$1" \
		hold=400
}

rig_start disks
host_new C disks
note "SEED=$SEED"
for ((run = 1; run <= RUNS; run++)); do
	updates kill
	is "$overlaps $broken $lost" '0 0 0' "run $run: none of $grants is lost"
	at_least "$faults" 14 '... among so many stops'
	at_least "$grants" 5200 '... and so many updates'
	at_least "$killed" 1 '... by which some were killed'
	is "$left $idle" '0 0' '... and all goes on, and nothing is left'
	SEED=$((SEED + 1))
done
ok 'report: some are (control)' sees 4 updates report
done_testing
