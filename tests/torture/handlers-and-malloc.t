#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# 600 processes churn the heap while a SIGALRM handler at 1 kHz locks and
# unlocks a managed file (L7): none crashes, none is refused, nothing stays.
# Unlike guest/locks-in-handlers.t, with the C library's own heap.
. "${0%/*}/../lib/rig.sh"

PROCESSES=${PROCESSES:-600}
rig_start disks

# churners WORKER: its share, each with a file of its own; a line for each.
churners()
{
	local i

	for ((i = $1; i < PROCESSES; i += 4)); do
		dl A timeout 20 "$BIN/handler_locks" "churn.$i" 60 1000 2>&1
		echo "status $?"
	done
}

began=$(now)
for worker in 0 1 2 3; do
	churners "$worker" >"$RIG/churn.$worker" &
done
wait
took=$((($(now) - began) / 1000000000))
cat "$RIG"/churn.[0-3] >"$RIG/churn"
is "$(grep -c '^status 0$' "$RIG/churn")" "$PROCESSES" \
	"all $PROCESSES ended well, in $took s"
is "$(grep '^status' "$RIG/churn" | grep -v ' 0$')" '' 'none did not'
read -r locked refused < <(awk '/^[0-9]/ { l += $1; r += $2 }
	END { print l, r }' "$RIG/churn")
at_least "$locked" $((PROCESSES * 5)) "$locked locks in handlers"
is "$refused" 0 'none refused'
is "$(grep -vE '^(status )?[0-9 ]+$' "$RIG/churn" | head -n 5)" '' \
	'nothing said'
rig_end
