#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Threads of one process take turns at a lock that they share.  Where the server
# is silent, the last one waits for no sum of their timeouts: it fails within
# its own (L8), and says why.
. "${0%/*}/../../lib/rig.sh"

THREADS=16

# asked KIND THREADS: so many ask for it; sets MS and OUTCOMES
asked()
{
	local answer

	answer=$(dl A /usr/bin/python3 "$TOP/tests/programs/many_threads.py" "$MNT/f" "$1" \
		"$2" 2>"$RIG/err")
	MS=${answer%% *}
	OUTCOMES=${answer#* }
}

# timeout_of SECONDS: of those that begin now
timeout_of()
{
	rig_config A ttl=10s timeout="$1s" connect_timeout=500ms
}

rig_start disks
on A touch f
for kind in flock record; do
	timeout_of 20 # they take turns
	asked "$kind" "$THREADS"
	is "$OUTCOMES" locked "$kind: all have it, where the server answers"
	timeout_of 1
	kill -STOP "$REDIS_PID"
	asked "$kind" 1
	is "$OUTCOMES" ENOLCK "$kind: one thread fails, where it is silent"
	alone=$MS
	asked "$kind" "$THREADS"
	is "$OUTCOMES" ENOLCK "$kind: so do $THREADS"
	note "$kind: one fails after $alone ms, the last of $THREADS after $MS"
	at_most "$MS" $((alone * THREADS / 2)) \
		"$kind: and not one after the other"
	ok "$kind: it is said" grep -q 'other threads of this process ask' \
		"$RIG/err"
	kill -CONT "$REDIS_PID"
done
rig_end
