#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 4000
#
# Survival (tests/lib/survival_modes.sh) by a Redis Cluster: a slot of
# what is locked moves.
#
#	survival-cluster.t [SECONDS [SEED]]
RIG_MODE=cluster
export NODE_TIMEOUT=15000 # no node fails here

server_fails()
{
	local slot

	slot=$(slot_of "dlock:$MNT/l$((RANDOM % 3))")
	slot_move "$slot" $((($(owner_of "$slot") + RANDOM % 2) % 3 + 1)) \
		$((RANDOM % 60))
}

# shellcheck source=tests/lib/survival_modes.sh
. "${0%/*}/../lib/survival_modes.sh"
