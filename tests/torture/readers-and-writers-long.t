#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# tests/hosts/flock/readers-and-writers.t for 60 s.
RW_SECONDS=60 \
	exec bash "${0%/*}/../hosts/flock/readers-and-writers.t"
