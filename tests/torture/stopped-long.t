#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 1800
#
# tests/hosts/survival/stopped-holders-die.t with N holders, 20 at a time.
#	stopped-long.t [N]
SURVIVAL_ROUNDS=$((${1:-200} / 20)) \
	exec bash "${0%/*}/../hosts/survival/stopped-holders-die.t"
