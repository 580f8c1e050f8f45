#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 4000
#
# Three hosts lock, write and check shared data (survivor.c) while they are
# killed, stopped, frozen and cut off, and Redis dies, comes back empty or with an
# old snapshot, hangs and is emptied (survival.py).  The intervals and the data
# decide (check_intervals.py).
#
#	survival.t [SECONDS [SEED]]	or SURVIVAL_SECONDS, SURVIVAL_SEED
#	SURVIVAL_MODES			some of those below
#
# SURVIVAL_KEEP: a directory for the logs, the faults and what was said.
# SURVIVAL_MORE: more of survival.py's words, as "ttl=1000 at_once=6"
#
#	null	the null shim, as a control
#	calm	faults that a lease survives
#	script	a holder is stopped, with its keepers, until another host has its
#		lock: under "report", as a control, and under "kill"
#	report	all faults, under on_lost = "report", where who sits beyond his
#		lease goes on: as a control
#	kill	the same under "kill"
#	pause	the same under "pause", where most are stopped, and go on
#	shared	under "kill": a lock is in the end a child's, or that of another
#		program; all faults but those that stop the keepers, too
#	hold	faults that a lease survives, under "hold"
. "${0%/*}/../lib/rig.sh"
# shellcheck source=tests/lib/survival.sh
. "$TOP/tests/lib/survival.sh"

TIME=${1:-${SURVIVAL_SECONDS:-60}}
SEED=${2:-${SURVIVAL_SEED:-$RANDOM}}
MODES=${SURVIVAL_MODES:-null calm script report kill pause shared hold}

# Who shares a lock, or was executed with it, has no timer of its own: he is the
# keepers' to stop, which are stopped as well.
SCRIPT='faults=outlive at_once=1 ttl=1000 kinds=ex,mixed,range'

is_right()
{
	is "$overlaps $broken $lost" '0 0 0' "$MODE: never two holders"
	is "$left $idle" '0 0' "$MODE: all goes on, and nothing is left"
}

DLOCK=$BUILD/libdlock-preload.so
rig_start disks
host_new C disks
note "SURVIVAL_SECONDS=$TIME SURVIVAL_SEED=$SEED"
for MODE in $MODES; do
	case $MODE in
	null)
		survives "$BIN/null.so" 1 faults=none hold=20 delay=0
		at_least "$overlaps" 1 "$MODE: two holders are seen (control)"
		at_least "$lost" 1 "$MODE: and updates that are lost"
		;;
	calm)
		survives "$DLOCK" "$TIME" faults=calm
		is_right
		is "$killed" 0 "$MODE: nobody is killed by us"
		at_least "$grants" 1 "$MODE: they did lock"
		;;
	script)
		# shellcheck disable=SC2086 # words
		survives "$DLOCK" 0 $SCRIPT
		at_least "$overlaps" 1 "$MODE, report: two holders are seen (control)"
		is "$killed" 0 "$MODE, report: nobody is killed by us"
		# shellcheck disable=SC2086 # words
		survives "$DLOCK" 0 $SCRIPT on_lost=kill
		is_right
		at_least "$killed" 1 "$MODE, kill: for one was killed"
		;;
	report)
		ok "$MODE: two holders are seen (control)" \
			sees 4 survives "$DLOCK" "$TIME" faults=lossy,stopped
		is "$killed" 0 "$MODE: nobody is killed by us"
		is "$left $idle" '0 0' "$MODE: all goes on, and nothing is left"
		;;
	kill)
		survives "$DLOCK" "$TIME" faults=calm,lossy,stopped on_lost=kill \
			kinds=ex,mixed,range
		is_right
		;;
	pause)
		survives "$DLOCK" "$TIME" faults=calm,lossy,stopped on_lost=pause \
			kinds=ex,mixed,range
		is_right
		;;
	shared)
		survives "$DLOCK" "$TIME" faults=calm,lossy on_lost=kill \
			kinds=fork,exec
		is_right
		;;
	hold)
		survives "$DLOCK" "$TIME" faults=calm on_lost=hold
		is_right
		is "$killed" 0 "$MODE: nobody is killed by us"
		;;
	esac
done
done_testing
