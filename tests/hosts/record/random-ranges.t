#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Random ranges of a file, two hosts with four processes each: no two hold what
# conflicts, be it POSIX or OFD locks.  Taken in the order of the bytes, none gets EDEADLK; taken in any
# order, some do, and everybody goes on.
#
# RANGES_SECONDS: of each order (make torture: ten minutes).
. "${0%/*}/../../lib/rig.sh"

TIME=${RANGES_SECONDS:-4}
SEED=${RANGES_SEED:-$RANDOM}
TOO_LONG=$((TIME + 100)) # it hangs

# rangers ordered|random TIME [mixed]: half of them with OFD locks; sums in $turns $deadlocks $conflicts, the longest wait
# in $longest, the process with the fewest turns in $fewest; those that wait at
# last, and had to be killed, in $stuck (and conflicts mean nothing any more)
rangers()
{
	local h i pids=() t d c l

	rm -f "$RIG"/said.* "$RIG/witness"
	for h in A B; do
		for i in 1 2 3 4; do
			"$RUN" "$h" timeout "$TOO_LONG" "$BIN/random_ranges" \
				"$MNT/f" "$RIG/witness" "$2" "$1" \
				$((SEED * 100 + $(printf '%d' "'$h") + i)) \
				${3:+$([ $((i % 2)) = 0 ] || echo ofd)} \
				>"$RIG/said.$h.$i" 2>>"$RIG/said.errors" &
			pids+=($!)
		done
	done
	wait "${pids[@]}"
	turns=0 deadlocks=0 conflicts=0 longest=0 fewest=999999999 stuck=0
	for i in "$RIG"/said.[AB].*; do
		if ! read -r t d c l <"$i"; then
			stuck=$((stuck + 1))
			continue
		fi
		turns=$((turns + t))
		deadlocks=$((deadlocks + d))
		conflicts=$((conflicts + c))
		[ "$l" -le "$longest" ] || longest=$l
		[ "$t" -ge "$fewest" ] || fewest=$t
	done
	note "$RUN, $1: $turns turns, the fewest $fewest, $deadlocks EDEADLK," \
		"$conflicts conflicts, longest wait $longest ms, $stuck stuck"
	[ ! -s "$RIG/said.errors" ] || diag "$(head -3 "$RIG/said.errors")"
}

exclusive()
{
	local time=$TIME

	[ "$RUN" = dl ] || time=1
	rangers ordered "$time" "$@"
	[ "$conflicts" = 0 ] && [ "$stuck" = 0 ]
}

rig_start disks
note "RANGES_SEED=$SEED"
three_ways 'nobody holds what conflicts' exclusive
is "$deadlocks" 0 'in the order of the bytes: no EDEADLK'
at_least "$fewest" 1 'in the order of the bytes: everybody goes on'
is "$stuck" 0 'in the order of the bytes: nobody waits for ever'
three_ways 'of OFD and POSIX locks: nobody holds what conflicts' \
	exclusive mixed
is "$deadlocks $stuck" '0 0' 'of both, in the order of the bytes: all go on'
rangers random "$TIME"
is "$conflicts" 0 'in any order: nobody holds what conflicts'
at_least "$deadlocks" 1 'in any order: some get EDEADLK'
at_least "$fewest" 1 'in any order: everybody goes on'
is "$stuck" 0 'in any order: nobody waits for ever'
rig_end
