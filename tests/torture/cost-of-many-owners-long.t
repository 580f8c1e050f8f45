#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 300
#
# tests/hosts/record/cost-of-many-owners.t with 1,000 owners.
OWNERS=${OWNERS:-1000} TIMED=1 \
	exec bash "${0%/*}/../hosts/record/cost-of-many-owners.t"
