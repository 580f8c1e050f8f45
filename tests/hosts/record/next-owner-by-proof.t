#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A process that has an OFD lock is killed, and another one of its host, which waits
# for it, has it before the dead one's keeper has had a core: by proof (DESIGN L3).
# What the keeper finds then is no loss, and nobody is stopped for it.
. "${0%/*}/../../lib/rig.sh"

TTL=3000			# ms

logged()
{
	on "$1" env LD_PRELOAD="$SHIM" DLOCK_CONFIG="$RIG/$1.conf" \
		DLOCK_LOG="debug:$RIG/log" "${@:2}"
}

keepers_are()
{
	on A pkill "-$1" -x dlock-keeper
	on A pkill "-$1" -x dlock-standby
}

lives()
{
	on A kill -0 "$1"
}

rig_start disks
: >"$RIG/log"
rig_configs ttl=${TTL}ms
locker p logged A
ask p 'open a f'
ask p 'range a F_WRLCK 5 1 OFD'
is "$RESULT" 0 'the one has a byte'
ok '... and a keeper carries it' until_true 5 are_carried 1
ok '... two do' until_true 5 have_standbys A 1
ask p pid
pid=$RESULT
locker x logged A
ask x pid
next=$RESULT
ask x 'open a f'
say x 'range a F_WRLCK 5 1 WAIT OFD'
ok 'the next one waits for it' until_true 5 grep -q -- '-> OFDLCK' /proc/locks
keepers_are STOP
on A kill -KILL "$pid"
hear x 10
is "$RESULT" 0 'the one is dead: the next one has it'
keepers_are CONT
ok '... for longer than the ttl' throughout $((TTL * 2)) 2 lives "$next"
ask x 'range a F_WRLCK 7 1 OFD'
is "$RESULT" 0 '... and goes on'
unlike "$(cat "$RIG/log")" LOST 'nothing was lost'
is "$(rr xlen "{dlock:$MNT/f%rec}%h")" 0 '... nor is a loss in its history'
peer_end x
rig_end
