#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 300
#
# Byte ranges against the kernel: a million random locks and as many looks, by
# four owners on one file; and calls with odd numbers.
cd "${0%/*}/../.." || exit 1
. tests/lib/tap.sh

steps=${DLK_RANGE_STEPS:-1000000}
from=${EPOCHREALTIME/./}
said=$(DLK_RANGE_STEPS=$steps CMOCKA_MESSAGE_OUTPUT=TAP \
	build/tests/test_range 2>&1)
status=$?
took=$((${EPOCHREALTIME/./} - from))
[ "$status" = 0 ] || diag "$said"
is "$status" 0 'the kernel and the ranges agree'
like "$said" "# $steps steps" "in $steps steps"
while read -r line; do
	note "${line#\# }"
done < <(grep -E '^# [0-9]+ (steps|calls)' <<<"$said")
note "$((took / 1000)) ms"
done_testing
