#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# Masters are restarted empty, one after the other: what is held is put back and
# never granted to anybody else; with a control that shows what it would be
# without a delay and without a holder that puts back: a majority that forgot.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"

ROUNDS=${ROUNDS:-12}
TIMES=(ttl=6s timeout=5s connect_timeout=1s)

granted_meanwhile=0
try_at_b()
{
	ask b 'lock b EX NB'
	[ "$RESULT" != 0 ] || granted_meanwhile=$((granted_meanwhile + 1))
}

is_back()
{
	try_at_b
	has_votes f 3
}

rig_start disks
: >"$RIG/log"
export DLOCK_LOG=warning:$RIG/log
rig_configs "${TIMES[@]}" restart_delay=6s
until_true 20 masters_are_old 7
locker a dl A
locker b dl B
ask a 'open a f'
ask b 'open b f'
ask a 'lock a EX'
is "$RESULT" 0 'a lock is held'
ok 'by all' until_true 5 has_votes f 3
back=0
for ((round = 0; round < ROUNDS; round++)); do
	i=$((round % 3 + 1))
	master_kill "$i"
	try_at_b
	master_up "$i"
	until_true 10 is_back && back=$((back + 1))
done
is "$back" "$ROUNDS" "put back, $ROUNDS times"
is "$granted_meanwhile" 0 'and never granted to another host'
unlike "$(cat "$RIG/log")" LOST 'nothing is lost'

# Two at a time: within the delay they grant nothing, and both get it back.
master_kill 1
master_kill 2
master_up 1
master_up 2
ok 'two of three restarted at a time: put back' until_true 10 is_back
is "$granted_meanwhile" 0 'and never granted'

# The control: nobody puts back, and there is no delay.
ask a pid
on A kill -KILL "$RESULT"
on A pkill -KILL -x dlock-keeper
on A pkill -KILL -x dlock-standby
rig_config B "${TIMES[@]}" restart_delay=0s
master_kill 1
master_kill 2
master_up 1
master_up 2
locker c dl B
ask c 'open c f'
ask c 'lock c EX NB'
is "$RESULT" 0 'without a delay and a holder, two that forgot grant it (control)'
ask c 'lock c UN'
rig_empty 10
done_testing
