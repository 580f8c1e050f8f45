#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What one more record lock costs a file that has many: the server's CPU for a
# lock and an unlock, by what lies in the file already (bench_records.c).  All
# shapes are measured in turns, some rounds of each.
. "${0%/*}/lib.sh"

param RECORD_ROUNDS 3 1
param RECORD_CYCLES 100 100

bench_begin
heading 'A record lock and unlock in a file with many: Redis CPU'
for ((i = 0; i < RECORD_ROUNDS; i++)); do
	"$BIN/bench_records" "$RIG/redis.sock" "$RECORD_CYCLES" ||
		error 'bench_records failed'
done >"$RIG/records"
awk '{ of = $1 " " $2 " " $3
	print of "/cpu", $4; print of "/lock", $5; print of "/unlock", $6 }' \
	"$RIG/records" | tr ' ' '_' | sed 's/_\([0-9]*\)$/ \1/' >"$RIG/each"
while read -r shape owners ranges; do
	of=${shape}_${owners}_$ranges
	cpu=$(middle "$RIG/each" "$of/cpu")
	lock=$(middle "$RIG/each" "$of/lock")
	unlock=$(middle "$RIG/each" "$of/unlock")
	if [ "$shape" = ping ]; then
		row 'PING' "$(us "$lock")" us
	else
		row -n "lock $(us "$lock") us, unlock $(us "$unlock") us" \
			"$shape: $owners owners, $ranges ranges each" \
			"$(us "$cpu")" us
	fi
done < <(awk '!seen[$1, $2, $3]++ { print $1, $2, $3 }' "$RIG/records")
bench_end
