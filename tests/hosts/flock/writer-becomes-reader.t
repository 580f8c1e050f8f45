#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Two threads of one process: one weakens its exclusive lock while the other waits
# for a shared one, and both have a lease then (L1).
. "${0%/*}/../../lib/rig.sh"

rig_start disks

# A downgrade keeps its token: whoever reads beside it must leave it alone.
peer both dl A "$BIN/thread_readers" both
rounds=0 without=0
while [ "$rounds" -lt 250 ] && ask both again; do
	# Whatever is wrong is sent a moment later.
	sleep 0.003
	[ "$(rr hlen "dlock:$MNT/both")" = 3 ] || without=$((without + 1))
	say both again
	rounds=$((rounds + 1))
done
is "$rounds" 250 'a writer becomes a reader while another waits: 250 times'
is "$without" 0 'and both have a lease, each time'
peer_end both
rig_empty
rig_end
