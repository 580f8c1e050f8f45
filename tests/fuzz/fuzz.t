#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 4000
#
# Each fuzz target, FUZZ_SECONDS long (default 3), with what seeds.py gives it to
# begin with: nothing is read beyond its end, and what must() says is so.  The
# control has a bug, and it is found.  What a target dies of is kept in
# build-fuzz/found.
cd "${0%/*}/../.." || exit 1
. tests/lib/tap.sh

SECONDS_EACH=${FUZZ_SECONDS:-3}
FOUND=build-fuzz/found
mkdir -p "$FOUND"
corpora=$(mktemp -d "${TMPDIR:-/tmp}/dlock-fuzz.XXXXXX") || exit 1
trap 'rm -rf "$corpora"' EXIT

# fuzzed TARGET SECONDS: 0, nothing was found
fuzzed()
{
	build-fuzz/fuzz/"$1" -max_total_time="$2" -timeout=20 -rss_limit_mb=1024 \
		-max_len=4096 -close_fd_mask=1 -artifact_prefix="$FOUND/$1-" \
		-print_final_stats=1 "$corpora/$1" >"$corpora/$1.said" 2>&1
}

# The same, again while a busy machine has not given it the time for 200 inputs: it
# has read $N.
fuzzed_long()
{
	local tries=0

	N=0
	while [ "$N" -lt 200 ] && [ "$((tries++))" -lt 5 ]; do
		fuzzed "$@" || return
		N=$((N + $(sed -n 's/^stat::number_of_executed_units: //p' \
			"$corpora/$1.said")))
	done
}

ok 'the targets are built' make -s --no-print-directory fuzzers
python3 tests/fuzz/seeds.py "$corpora/"
for source in tests/fuzz/*.c; do
	target=$(basename "$source" .c)
	[ "$target" != control ] || continue
	ok "$target: nothing is found in $SECONDS_EACH s" \
		fuzzed_long "$target" "$SECONDS_EACH"
	note "$(grep '^Done ' "$corpora/$target.said")"
	grep -E 'not so|ERROR|SUMMARY|Test unit|^    #' "$corpora/$target.said" |
		head -n 30 | while read -r line; do
			diag "$target: $line"
		done
	at_least "$N" 200 "$target: ... with many inputs"
done
ok 'control: a bug is found' test "$(fuzzed control 60; echo $?)" != 0
ok '... the one that is there' grep -q "not so: .*'l'" "$corpora/control.said"
rm -f "$FOUND"/control-*
done_testing
