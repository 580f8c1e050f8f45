#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 1800
#
# sqlite-on-a-share.t with 500 increments of each host, and more rows.
SQLITE_TURNS=500 \
	exec bash "${0%/*}/../hosts/programs/sqlite-on-a-share.t"
