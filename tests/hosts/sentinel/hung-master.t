#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A master hangs, and a renewal waits for it, as patiently as for any server that was
# silent before; the Sentinels name another one meanwhile.  That ends the wait: who
# holds a lock has it still, by the new master, be it the process that renews it, or
# its keeper alone.
RIG_MODE=sentinel
# Renewed after 12 s, in vain for 12 more, a lease is asked for once more at 25.8, and
# waited for until who holds it would be stopped, at 35.2.
TTL=36000
DOWN_MS=25800
. "${0%/*}/../../lib/rig.sh"

renewed_at()
{
	[ "$(m "$1" pttl "dlock:$MNT/$2")" -gt $((TTL * 9 / 10)) ]
}

rig_start disks
# (Of three who want to make another one at once, each may have its own vote: that
# costs 20 s.)
s 3 sentinel set rig down-after-milliseconds $((DOWN_MS + 3000)) >/dev/null
rig_configs ttl=${TTL}ms timeout=2s connect_timeout=6s restart_delay=1s
export DLOCK_LOG=warning:$RIG/log
cp_new held end
locker a dl A
ask a 'open a held'
# (Both are had at once, for each is asked for again by its own time.)
# The shell has the lock by its descriptor; flock(1), which took it, is gone.
# shellcheck disable=SC2016 # its own
dl A bash -c 'exec 9>kept; flock 9; env -u LD_PRELOAD bash -c "
	echo >$0/held; read -r _ <$0/end" &
	exec 9>&-; wait' "$RIG/cp" &
JOB=$!
cp_wait held
ask a 'lock a EX'
is "$RESULT" 0 'a process has a lock'
kill -STOP "$REDIS_PID"
began=$(now)
ok '... and a keeper has one' until_true 5 keepers A
ok 'the Sentinels name another one' until_true 40 failed_over 2
named=$(now)
note "after $(((named - began) / 1000000)) ms"
ok 'the process has its lock by that one' until_true 10 renewed_at 2 held
ok '... and the keeper its own' until_true 10 renewed_at 2 kept
# (What failed is asked for again after a twentieth of the ttl, 1.8 s.)
in_time $((($(now) - named) / 1000000)) 900 '... at once (ms)'
is "$(grep -c LOST "$RIG/log")" 0 'no lease is lost'
kill -CONT "$REDIS_PID"
cp_reach end
wait "$JOB" # (It has a's input as well.)
peer_end a
done_testing
