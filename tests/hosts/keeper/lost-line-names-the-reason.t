#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A lease that its keeper could not renew is lost, and the line says why: what the
# server has not done, though the keeper was there in time and has nothing to ask in
# between.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=6s timeout=3s
export DLOCK_LOG=info:$RIG/log
# (Who has the descriptor at last has no dlock.)
dl A bash -c 'exec 9>left; flock 9; exec env -u LD_PRELOAD sleep 1000' &
JOB=$!
ok 'a keeper has the lease' until_true 10 on A pgrep -x sleep
kill -STOP "$REDIS_PID"
ok 'the server hangs, and it is lost' until_true 20 grep -q LOST "$RIG/log"
like "$(grep LOST "$RIG/log")" 'no answer: Connection timed out' \
	'... for the server has not answered'
kill -CONT "$REDIS_PID"
on A pkill -KILL -x sleep
wait "$JOB"
done_testing
