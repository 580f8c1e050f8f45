#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Two threads of one process: one weakens its exclusive lock while the other waits
# for a shared one, and both have a lease then (L1).  And one weakens it while the
# other unlocks it: what that has given back names no lease any more.
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

# The release may be on its way still, or once more, when the reader asks: under a
# name of its own its lease cannot be meant.
cp_new gate.at gate.go
peer u on A env GATE="$RIG/cp/gate" DLOCK_CONFIG="$RIG/A.conf" \
	LD_PRELOAD="$BUILD/libdlock-preload.so $BIN/flock_gate.so" \
	"$BIN/two_threads" "$MNT/u"
ask u '1 EX'
is "$HEARD" '1 0' 'one thread has the lock'
had=$(token_of u)
like "$had" '^dlock1 ' '... and a lease'
echo 'before SH' >"$RIG/cp/gate"
say u '2 SH'
ok 'another one is about to weaken it' cp_wait gate.at
ask u '1 UN'
is "$HEARD" '1 0' '... when it is unlocked'
ok '... and the lease is gone' until_true 5 lease_is_gone u
cp_reach gate.go
hear u
is "$HEARD" '2 0' 'it reads, all the same'
# (The field that every list of readers has is no token.)
reads=$(rr hkeys "dlock:$MNT/u" | grep '^dlock1 ')
like "$reads" '^dlock1 ' '... by a lease'
ok '... of another name' test "$reads" != "$had"
ask u mode
is "$HEARD" READ '... and the lock is there'
peer_end u
rig_end
