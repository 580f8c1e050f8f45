#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Random ranges of a file, two hosts with four processes each: no two hold what
# conflicts.  Taken in the order of the bytes, none gets EDEADLK; taken in any
# order, some do, and everybody goes on.
#
# RANGES_SECONDS: of each order (make torture: ten minutes).
. "${0%/*}/../lib/rig.sh"

TIME=${RANGES_SECONDS:-6}
SEED=${RANGES_SEED:-$RANDOM}
TOO_LONG=$((TIME + 20))

# rangers ordered|random: sums in $turns $deadlocks $conflicts, the longest wait
# in $longest, the process with the fewest turns in $fewest
rangers()
{
	local h i pids=() t d c l

	rm -f "$RIG"/said.* "$RIG/witness"
	for h in A B; do
		for i in 1 2 3 4; do
			"$RUN" "$h" timeout "$TOO_LONG" "$BIN/ranger" \
				"$MNT/f" "$RIG/witness" "$2" "$1" \
				$((SEED * 100 + $(printf '%d' "'$h") + i)) \
				>"$RIG/said.$h.$i" 2>>"$RIG/said.errors" &
			pids+=($!)
		done
	done
	wait "${pids[@]}"
	turns=0 deadlocks=0 conflicts=0 longest=0 fewest=999999999
	for i in "$RIG"/said.[AB].*; do
		t=0 d=0 c=0 l=999999
		read -r t d c l <"$i"
		turns=$((turns + t))
		deadlocks=$((deadlocks + d))
		conflicts=$((conflicts + c))
		[ "$l" -le "$longest" ] || longest=$l
		[ "$t" -ge "$fewest" ] || fewest=$t
	done
	note "$RUN, $1: $turns turns, the fewest $fewest, $deadlocks EDEADLK," \
		"$conflicts conflicts, longest wait $longest ms"
	[ ! -s "$RIG/said.errors" ] || diag "$(head -3 "$RIG/said.errors")"
}

exclusive()
{
	local time=$TIME

	[ "$RUN" = dl ] || time=1
	rangers ordered "$time"
	[ "$conflicts" = 0 ]
}

rig_start disks
note "RANGES_SEED=$SEED"
three_ways 'nobody holds what conflicts' exclusive
is "$deadlocks" 0 'in the order of the bytes: no EDEADLK'
at_least "$fewest" 1 'in the order of the bytes: everybody goes on'
rangers random "$TIME"
is "$conflicts" 0 'in any order: nobody holds what conflicts'
at_least "$deadlocks" 1 'in any order: some get EDEADLK'
at_least "$fewest" 1 'in any order: everybody goes on'
rig_end
