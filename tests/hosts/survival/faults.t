#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
# alone: three hosts lock all the time, within a ttl of 2 s
#
# tests/torture/survival.t for some seconds, but for what is a matter of chance.
SURVIVAL_SECONDS=${SURVIVAL_SECONDS:-6} \
	SURVIVAL_MODES=${SURVIVAL_MODES:-null calm script} \
	exec bash "${0%/*}/../../torture/survival.t"
