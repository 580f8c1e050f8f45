#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 900
#
# Record locks at Redis: four owners at random against the sets, for longer
# than make check has time; and what one more lock costs a file that has many:
# from 10 to 10,000 ranges the logarithm grows fourfold, and so may the cost.
cd "${0%/*}/../.." || exit 1
. tests/lib/tap.sh

dir=$(mktemp -d "${TMPDIR:-/tmp}/dlock-records.XXXXXX") || exit 1
redis-server --port 0 --unixsocket "$dir/s" --save '' --appendonly no \
	--dir "$dir" >/dev/null &
pid=$!
trap 'kill $pid; wait $pid 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

said=$(DLK_RECORDS_STEPS=${DLK_RECORDS_STEPS:-100000} \
	build/tests/test_records_random 2>&1)
status=$?
[ "$status" = 0 ] || diag "$said"
is "$status" 0 'whatever order things happen in, they end well'
while read -r line; do
	note "${line#\# }"
done < <(grep '^# ' <<<"$said")

redis-cli -s "$dir/s" ping >/dev/null 2>&1 ||
	timeout 10 sh -c "until redis-cli -s '$dir/s' ping >/dev/null 2>&1
		do :; done"
build/tests/bench_records "$dir/s" >"$dir/rows"
is "$?" 0 'the bench runs'

# cost SHAPE OWNERS RANGES: the server's CPU for a lock and an unlock, ns
cost()
{
	awk -v row="$1 $2 $3" '$1 " " $2 " " $3 == row { print $4 }' \
		"$dir/rows"
}

# grows NAME SMALL LARGE, shapes with their owners and ranges
grows()
{
	local small large

	# shellcheck disable=SC2086 # three words each
	small=$(cost $2)
	# shellcheck disable=SC2086
	large=$(cost $3)
	at_most "${large:-1000000000}" $((4 * ${small:-0})) \
		"$1: $((${small:-0} / 1000)) us, $((${large:-0} / 1000)) us"
}

grows 'one owner, 10 and 10,000 writes' 'write 1 10' 'write 1 10000'
grows '10 and 1,000 owners of a write' 'write 10 1' 'write 1000 1'
grows '1,000 owners of 10 writes' 'write 10 1' 'write 1000 10'
grows 'one owner, 10 and 10,000 reads' 'read 1 10' 'read 1 10000'
grows '10 and 1,000 readers of the same' 'same 10 1' 'same 1000 1'
grows 'a writer beside 10 and 1,000 readers' 'pending 10 1' 'pending 1000 1'
grows 'a refusal, 10 and 10,000 ranges' 'refused 1 10' 'refused 1 10000'
grows 'a refusal by a reader from far before' 'far 2 5' 'far 2 5000'

note 'shape      owners  ranges    server    lock  unlock (us)'
while read -r name owners ranges cpu lock unlock; do
	note "$(printf '%-10s %6d %7d %9.1f %7.1f %7.1f' "$name" "$owners" \
		"$ranges" "${cpu}e-3" "${lock}e-3" "${unlock}e-3")"
done <"$dir/rows"
done_testing
