#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Least privilege (DESIGN section 5): the user of dlock.conf(5) suffices, for
# whatever is done with locks; the server has refused it nothing.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"
. "${0%/*}/../../lib/privileges.sh"

rig_start disks
DB=1
user_of_manual dlock

# The delay is asked for (INFO), and over before anything is locked.
rig_configs url="redis://dlock:x@127.0.0.1:$PORT/1" ttl=6s \
	connect_timeout=1s restart_delay=1s
until_true 5 redis_is_old 3
does_everything
may_not dlock get other
may_not dlock config get maxmemory
may_not dlock scan 0
rig_end
