#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Nothing is released before stdio is flushed (DESIGN L4): programs on two
# hosts hand a file to each other, each writes to it by stdio, never flushes,
# and ends by exit() or by return from main with the lock held, or closes the
# stream; the next one, on the other host, sees what it wrote.
# (stdio_turns.c.)  STDIO_TURNS is how many turns there are (200).
. "${0%/*}/../../lib/rig.sh"

turns=${STDIO_TURNS:-200}

# hand_over HOW TURNS: true if each turn saw those before.  Sets $TURNS, $LOST.
hand_over()
{
	local how=$1 n=$2 h other took more_turns more_lost

	rm -f "$RIG/share/f"
	for h in A B; do
		other=${h/A/x}
		other=${other/B/A}
		peer "s$h" "$RUN" "$h" "$BIN/stdio_turns" "$how" f "$n" \
			"$RIG/cp/$h" "$RIG/cp/${other/x/B}"
	done
	took=$(now)
	cp_reach A 1
	hear sA 90
	TURNS=$RESULT LOST=$START
	hear sB 5
	more_turns=$RESULT more_lost=$START
	took=$((($(now) - took) / 1000000))
	TURNS=$((TURNS + more_turns)) LOST=$((LOST + more_lost))
	note "$RUN, $how: $TURNS turns, $LOST lost, $took ms"
	cp_drain A
	cp_drain B
	[ "$LOST" = 0 ]
}

# Many under dlock, few where it need only be seen to fail.
seen()
{
	local n=40

	[ "$RUN" != dl ] || n=$turns
	hand_over "$1" "$n"
}

rig_start share
rig_configs
cp_new A B
for how in exit return fclose; do
	three_ways "$how: what it wrote is there" seen "$how"
	is "$TURNS" "$turns" "$how: $turns turns"
	is "$(tail -n 1 "$RIG/share/f")" "$(printf %08d "$turns")" \
		"$how: the last one's is there"
	is "$(cat "$RIG/sA.err" "$RIG/sB.err")" '' "$how: nothing was logged"
done

# quick_exit(3) flushes nothing: as bare.
for RUN in on dl; do
	hand_over quick_exit 2
	is "$LOST $(stat -c %s "$RIG/share/f")" '1 0' \
		"$RUN: quick_exit writes nothing"
done
rig_end
