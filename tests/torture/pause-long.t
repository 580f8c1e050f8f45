#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 600
#
# tests/hosts/survival/holders-are-paused.t with EACH holders of each sort (4:
# twenty), and Redis away for TTLS times the ttl (10).
PAUSE_HOLDERS=${1:-4} PAUSE_TTLS=${2:-10} \
	exec bash "${0%/*}/../hosts/survival/holders-are-paused.t"
