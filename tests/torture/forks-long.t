#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 3000
#
# 100,000 children from 8 threads of a process that locks in 4 others (L7): no
# hang, no crossed reply.
. "${0%/*}/../lib/rig.sh"
. "$TOP/tests/lib/forks.sh"

rig_start disks
rig_configs ttl=10s url="unix://$RIG/redis.sock"
forks "${FORKS:-100000}" 2900
rig_end
