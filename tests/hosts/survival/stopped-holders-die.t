#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# Holders, and their keepers, are stopped for longer than the ttl: each is dead
# before another host has its lock, and has written nothing since (L6); whatever
# signals it has blocked, whatever user it has become, and while it waits in
# vfork(2).  With on_lost = "report" they live, and go on (control).
#
# SURVIVAL_N holders a time, SURVIVAL_ROUNDS times (torture: more).
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/losers.sh"

n=${SURVIVAL_N:-20} rounds=${SURVIVAL_ROUNDS:-1}
# (Who is killed has a core to die, or he is seen to be there yet: between his timer and
# the next owner there are 0.3 s.)
first='nice -n -20'
SURVIVOR_BY=$first

rig_start disks
rig_configs ttl=6s path_more='on_lost = "report"'
stop_survivors plain 5
is "$EARLY" '0 1 2 3 4 ' 'report: none is dead when the others are granted (control)'
continue_survivors
ok '... and all go on and write (control)' until_true 10 wrote_all 5
survivors_leave 5

rig_configs ttl=6s
for ((round = 1; round <= rounds; round++)); do
	stop_survivors plain "$n"
	is "$EARLY" '' "kill: $n of $n are dead before the others are granted"
	continue_survivors
	wrote_late "$n"
	is "$WROTE" '' '... and none has written since'
	note "the last of them $MARGIN ms before"
	survivors_leave "$n"
done
for how in masked busy ignores vfork setuid; do
	# (They would leave none to others.)
	[ "$how" != busy ] || SURVIVOR_BY=''
	stop_survivors "$how" 3
	SURVIVOR_BY=$first
	is "$EARLY" '' "$how: dead before the others are granted"
	note "the last of them $MARGIN ms before"
	continue_survivors
	survivors_leave 3
done
rig_end
