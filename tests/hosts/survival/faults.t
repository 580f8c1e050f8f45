#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
# alone: three hosts lock all the time, within a ttl of 2 s
#
# tests/torture/survival.t for some seconds.
SURVIVAL_SECONDS=${SURVIVAL_SECONDS:-8} \
	exec bash "${0%/*}/../../torture/survival.t"
