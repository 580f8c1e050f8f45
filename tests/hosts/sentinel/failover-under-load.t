#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 200
# alone: two hosts lock all the time, within a ttl of 6 s
#
# tests/torture/failovers.t, once.
FAILOVERS=1 FAILOVER_KINDS=asked FAILOVER_TTL=6 \
	exec bash "${0%/*}/../../torture/failovers.t"
