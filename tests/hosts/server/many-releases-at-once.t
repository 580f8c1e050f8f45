#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# What a server could not be told of when it was unlocked is told of later, all
# in a few pieces and not each by a question of its own.
. "${0%/*}/../../lib/rig.sh"

N=2000

reads()
{
	rr info stats | tr -d '\r' | sed -n 's/^total_reads_processed://p'
}

# (Each look is a read as well.)
none_is_left()
{
	looks=$((looks + 1))
	[ "$(rr dbsize)" = 0 ]
}

looks=0
rig_start disks
rig_configs ttl=600s connect_timeout=2s
peer m dl A "$BIN/many_files" "$N" EX
ask m open 20
ask m lock 40
is "$RESULT" 0 "$N locks are granted"
is "$(rr dbsize)" "$N" 'as many leases'
before=$(reads)
kill -STOP "$REDIS_PID"
ask m unlock 40
is "$RESULT" 0 'unlocked while the server stands still'
kill -CONT "$REDIS_PID"
ok 'all are released' until_true 40 none_is_left
# (A read is 16 KiB at most, of which one release takes some 600 bytes.)
at_most $(($(reads) - before - looks)) $((N / 2)) 'by few pieces'
peer_end m
rig_end
