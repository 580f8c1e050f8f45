#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# All that shared-and-conversions.t says, by shadows of files on a FUSE share.
exec env RIG_LOCAL=shadow RIG_KIND=share \
	bash "${0%/*}/../flock/shared-and-conversions.t"
