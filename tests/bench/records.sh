#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What one more record lock costs a file that has many: the server's CPU for a
# lock and an unlock, by what lies in the file already (bench_records.c).
. "${0%/*}/lib.sh"

param RECORD_CYCLES 300 100

bench_begin
heading 'A record lock and unlock in a file with many: Redis CPU'
"$BIN/bench_records" "$RIG/redis.sock" "$RECORD_CYCLES" >"$RIG/records" ||
	error 'bench_records failed'
while read -r shape owners ranges cpu lock unlock; do
	if [ "$shape" = ping ]; then
		row 'PING' "$(us "$lock")" us
	else
		row -n "lock $(us "$lock") us, unlock $(us "$unlock") us" \
			"$shape: $owners owners, $ranges ranges each" \
			"$(us "$cpu")" us
	fi
done <"$RIG/records"
bench_end
