#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 900
#
# tests/hosts/record/deadlock.t with each cycle 50 times, and the time it takes
# to be seen.
DEADLOCK_TIMES=${DEADLOCK_TIMES:-50} \
	exec bash "${0%/*}/../hosts/record/deadlock.t"
