#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 1800
#
# tests/hosts/survival/cut-off-holder-dies.t, cut off N times in each way.
#	cut-off-long.t [N]
SURVIVAL_N=${1:-20} \
	exec bash "${0%/*}/../hosts/survival/cut-off-holder-dies.t"
