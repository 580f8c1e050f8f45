#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A holder puts back what a restarted server has forgotten at the first sign of
# the restart, and not when the next third of its ttl is over: whoever holds it,
# the process, or its keeper alone.
. "${0%/*}/../../lib/rig.sh"

TTL=12				# s; a third is 4

is_there()
{
	[ "$(rr exists "$@")" = "$#" ]
}

rig_start disks
# (Less than the ttl will do here, and is warned of.)
rig_configs ttl=${TTL}s connect_timeout=300ms restart_delay=6s
until_true 9 redis_is_old 7

locker a dl A
ask a 'open a f'
ask a 'open b g'
# The last descriptor of the process that locked it is gone: its keeper has it.
cp_new in go
# shellcheck disable=SC2016
dl A bash -c 'exec 9>h; flock 9; echo >$0; read x <$1' \
	"$RIG/cp/in" "$RIG/cp/go" &
cp_wait in
ask a 'lock a EX'
ask a 'range b F_WRLCK 0 10'
ask a 'range b F_RDLCK 20 10'
is "$RESULT" 0 'a lock and two ranges are held'
KEYS=("dlock:$MNT/f" "dlock:$MNT/g%rec" "dlock:$MNT/h")
ok '... and one of a process that has ended' until_true 2 is_there "${KEYS[@]}"
places=$(rr zrange "{${KEYS[1]}}%r" 0 -1)

# left LEAST MOST: of the last one's ttl (ms)
left()
{
	local ms

	ms=$(rr pttl "${KEYS[2]}")
	[ "$ms" -ge "$1" ] && [ "$ms" -le "$2" ]
}
# The keeper has renewed it, and so has each other a moment before.
until_true 10 left 0 9000
ok '... and renewed' until_true 10 left 11000 12000

redis_kill
redis_up
born=$(now)
ok 'all of it is put back by a restarted server' \
	until_true $TTL is_there "${KEYS[@]}"
# (Asked for again each ttl/20, while there is none.)
in_time $((($(now) - born) / 1000000)) 2200 '... long before the next third (ms)'
is "$(rr zrange "{${KEYS[1]}}%r" 0 -1)" "$places" '... range by range'
ask a 'lock a UN'
ask a 'range b F_UNLCK 0 0'
cp_reach go
wait
rig_end
