#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 300
#
# stdio-flushed-before-release.t with 1,000 turns of each kind.
STDIO_TURNS=1000 \
	exec bash "${0%/*}/../hosts/flock/stdio-flushed-before-release.t"
