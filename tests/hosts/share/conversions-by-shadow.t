#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# All that 28-shared.t says of shared locks and conversions, by shadows of
# files on a FUSE share.
exec env RIG_LOCAL=shadow RIG_KIND=share bash "${0%/*}/../28-shared.t"
