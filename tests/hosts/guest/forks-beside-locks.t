#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Eight threads make children, in every way, while four others lock (L7): no
# hang, no crossed reply.  (tests/torture/forks-long.t makes more of them.)
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/forks.sh"

rig_start disks
rig_configs ttl=10s url="unix://$RIG/redis.sock"
forks 5000 100
rig_end
