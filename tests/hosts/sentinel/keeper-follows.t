#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A keeper has a lock whose process has ended: it follows a failover, by the word of
# the Sentinels alone, for the master before goes on living, and gives the lock
# back to the new one.
RIG_MODE=sentinel
. "${0%/*}/../../lib/rig.sh"

# A failover takes 2 s, and longer on a busy machine, of two thirds of it.
TTL=9

renewed_at()
{
	[ "$(m "$1" pttl "dlock:$MNT/f")" -gt $((TTL * 1000 * 9 / 10)) ]
}

is_gone_at()
{
	[ "$(m "$1" exists "dlock:$MNT/f")" = 0 ]
}

rig_start disks
rig_configs ttl=${TTL}s timeout=2s connect_timeout=1500ms restart_delay=${TTL}s
until_true 20 redis_is_old $((TTL + 1))
cp_new held end
# The shell has the lock by its descriptor; flock(1), which took it, is gone.
# shellcheck disable=SC2016 # its own
dl A bash -c 'exec 9>f; flock 9; env -u LD_PRELOAD bash -c "
	echo >$0/held; read -r _ <$0/end" &
	exec 9>&-; wait' "$RIG/cp" 2>"$RIG/err" &
JOB=$!
cp_wait held
ok 'a lock is held' until_true 10 renewed_at 1 || diag "$(cat "$RIG/err")"
ok '... by a keeper' until_true 5 keepers A
failover
is "$(info_of 1 role)" master 'the master before lives (control)'
ok 'the keeper renews it at the new one' until_true 10 renewed_at 2
dl B flock -n f true 2>/dev/null
ok '... so that B does not get it' test "$?" != 0
sleep $TTL
ok '... for longer than a ttl' until_true 10 renewed_at 2
cp_reach end
wait "$JOB"
ok 'its end gives the lease back there' until_true 5 is_gone_at 2
dl B flock -w 10 f true
is "$?" 0 '... and B has it'
demote
done_testing
