#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 2100
#
# tests/hosts/record/random-ranges.t for ten minutes of each order and kind.
RANGES_SECONDS=${RANGES_SECONDS:-600} \
	exec bash "${0%/*}/../hosts/record/random-ranges.t"
