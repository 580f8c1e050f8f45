#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# What a process unlocks in its last moment is free at Redis, though its thread
# may be about to read an older answer just then: a socket with unread bytes is
# reset by its end, and with it goes what the server has not read yet.
. "${0%/*}/../../lib/rig.sh"

N=600

rig_start disks
rig_configs ttl=60s

# shellcheck disable=SC2016 # expanded on the host
dl A sh -c 'i=0; while [ "$((i += 1))" -le "$1" ]; do
		"$2" "$3/$i" || exit
	done' sh "$N" "$BIN/unlocks_at_end" "$MNT"
is "$?" 0 "$N processes have locked, unlocked and ended"
at_least "$(scripts_called)" $((4 * N)) 'each lock asked Redis'
rig_end
