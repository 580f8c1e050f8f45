#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 4000
#
# Survival (tests/lib/survival_modes.sh) by Sentinels: they are asked to
# make another one the master.
#
#	survival-sentinel.t [SECONDS [SEED]]
RIG_MODE=sentinel

server_fails()
{
	failover
	demote
}

# shellcheck source=tests/lib/survival_modes.sh
. "${0%/*}/../lib/survival_modes.sh"
