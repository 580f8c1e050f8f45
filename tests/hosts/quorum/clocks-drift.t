#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Masters whose clocks drift by 1 %, two fast and one slow: a lease lasts for as long
# as it is renewed; and who is stopped with his keepers is dead before another host
# has his lock, as if the clocks were right.  With clocks that are fast by a half he
# is not (control), for the lease ends long before its deadline here.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/losers.sh"

N=5

# drift RATE...: of each master, begun anew
drift()
{
	local i=0 rate

	for rate in "$@"; do
		i=$((i + 1))
		master_kill "$i"
		SERVER_BY="env LD_PRELOAD=$BIN/drift.so DRIFT=$rate"
		master_up "$i"
	done
	SERVER_BY=
	until_true 20 masters_are_old 7
}

# us_at MASTER: its time
us_at()
{
	local s us

	{ read -r s && read -r us; } < <(m "$1" time)
	echo $((s * 1000000 + us))
}

# begin_at MASTER, has_passed MASTER MS: so much of its time in a second of ours.  The
# second is that from before it was asked for the first time until after the last one,
# so what it is late by is no time of its, and is the less of all the longer it takes.
begin_at()
{
	ours=$(now)
	its=$(us_at "$1")
}

has_passed()
{
	its_now=$(us_at "$1")
	rate=$(((its_now - its) * 1000000 / ($(now) - ours)))
	[ "$rate" -ge "$2" ]
}

stop_all()
{
	stop_survivors plain "$N"
	continue_survivors
	wrote_late "$N"
	survivors_leave "$N"
}

rig_start disks
: >"$RIG/log"
export DLOCK_LOG=warning:$RIG/log
rig_configs ttl=6s connect_timeout=1s restart_delay=6s
drift 1.5 1.5 1.5
begin_at 1
ok 'a clock does drift (control)' until_true 20 has_passed 1 1400
note "$rate ms in a second"
stop_all
like "$EARLY" '[0-9]' 'fast by a half: granted while the holder lives (control)'

drift 1.01 0.99 1.01
locker a dl A
locker b dl B
ask a 'open a f'
ask b 'open b f'
ask a 'lock a EX'
is "$RESULT" 0 'by 1 %: a lock'
refused=0
for ((i = 0; i < 50; i++)); do
	ask b 'lock b EX NB'
	[ "$RESULT" != EAGAIN ] || refused=$((refused + 1))
	sleep 0.25
done
is "$refused" 50 '... is held, for two ttls'
unlike "$(cat "$RIG/log")" LOST '... and nothing is lost'
peer_end a b
stop_all
is "$EARLY" '' "$N of $N stopped ones are dead before the others are granted"
is "$WROTE" '' '... and none has written since'
note "the last of them $MARGIN ms before"
rig_end
