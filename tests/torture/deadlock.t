#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 1500
#
# tests/hosts/56-ranges.t for ten minutes of each order.
RANGES_SECONDS=${RANGES_SECONDS:-600} \
	exec bash "${0%/*}/../hosts/56-ranges.t"
