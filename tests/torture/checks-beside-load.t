#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 36000
#
# make check, RUNS times in a row (1), beside `stress-ng --cpu 8`: green each time.
# Ten in a row are what a change of the tests' house has to show.
#
#	RUNS=10 bash tests/lib/check.sh --verbose tests/torture/checks-beside-load.t
cd "${0%/*}/../.." || exit 1
. tests/lib/tap.sh

logs=$(mktemp -d "${TMPDIR:-/tmp}/dlock-load.XXXXXX") || exit 1
trap 'kill "$load"; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM
make all test-programs >"$logs/build" 2>&1 || diag "$(tail -5 "$logs/build")"
stress-ng --cpu 8 --timeout 0 >/dev/null 2>&1 &
load=$!

for ((run = 1; run <= ${RUNS:-1}; run++)); do
	begin=$SECONDS
	make check >"$logs/$run" 2>&1 </dev/null
	said=$(tail -n 1 "$logs/$run")
	like "$said" '^[0-9]+ passed, 0 failed' "run $run, $((SECONDS - begin)) s, \
load $(cut -d' ' -f1 /proc/loadavg): $said"
	grep -E '^(not ok|.*: not ok|.*: died|# failed:)' "$logs/$run" |
		sort -u | sed 's/^/# /' >&2
done
ok 'the load was there all the while' kill -0 "$load"
done_testing
