#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 1800
#
# tests/hosts/survival/frozen-host-writes-nothing.t with N holders at a time.
#	frozen-long.t [N]
SURVIVAL_N=${1:-100} \
	exec bash "${0%/*}/../hosts/survival/frozen-host-writes-nothing.t"
