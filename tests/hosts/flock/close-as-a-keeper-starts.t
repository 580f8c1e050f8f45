#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# The child that is to be the keeper has all descriptors of the program until it
# executes it: a lock closed meanwhile is free for who tries it next.  (The close
# waits for that, but not for longer than a second: SETTLE_MS.)
. "${0%/*}/../../lib/rig.sh"

N=200 # around the 50 ms after which a keeper is started

rig_start disks
rig_configs ttl=60s

# shellcheck disable=SC2016 # expanded on the host
dl A sh -c 'i=0; while [ "$((i += 1))" -le "$1" ]; do
		"$2" "$3/$i" $((49800 + 20 * i)) || exit
	done' sh "$N" "$BIN/closes_when_keeper_starts" "$MNT" >"$RIG/said"
late=$(grep -c '^late$' "$RIG/said")
is "$(grep -v '^late$' "$RIG/said" | sort | uniq -c | tr -s ' ')" \
	" $((N - late)) granted" "closed, and granted to the next, $N times"
at_most "$late" $((N / 20)) '... but where the child had no core for a second'
rig_end
