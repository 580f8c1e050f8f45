#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 4000
#
# Survival (tests/lib/survival_modes.sh) by a quorum: one master of three
# is killed and comes back empty.
#
#	survival-quorum.t [SECONDS [SEED]]
RIG_MODE=quorum

server_fails()
{
	local i=$((RANDOM % 3 + 1))

	master_kill "$i"
	master_up "$i"
	until_true 20 masters_are_old $((TTL + 1))
}

# shellcheck source=tests/lib/survival_modes.sh
. "${0%/*}/../lib/survival_modes.sh"
