#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 40
#
# A lock call under signals, while each answer of Redis takes 30 ms: a handler with
# SA_RESTART does not keep it from its lock, one without ends it, at once (L7).
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/held.sh"

rig_start disks
settings=(ttl=6s)
rig_configs "${settings[@]}"
locker b dl B
proxy slow
ask slow 'delay 30'
rig_config A "${settings[@]}" url="redis://127.0.0.1:$PROXY/0"
peer storm dl A "$BIN/locks_under_signals" storm storm 10
hear storm
read -r result took signals <<<"$HEARD"
is "$result" 0 'a timer at 100 Hz: locked'
in_time "${took:-9999}" 2000 "a timer at 100 Hz: in $took ms"
at_least "${signals:-0}" 1 "a timer at 100 Hz: $signals signals"
held storm
ok 'a timer at 100 Hz: held' still_held storm
ends storm storm

ask b 'open a alarm'
ask b 'lock a EX'
is "$RESULT" 0 'alarm: the other host locks'
offsets=(50 63 76 89 102 115 128 141 154 167 180 193)
peer alarm dl A "$BIN/locks_under_signals" alarm alarm "${offsets[@]}"
for ms in "${offsets[@]}"; do
	hear alarm
	read -r result late <<<"$HEARD"
	is "$result" EINTR "alarm after $ms ms: interrupts"
	in_time "${late:-9999}" 300 "alarm after $ms ms: $late ms late"
done
ask b 'lock a UN'
prompt alarm "$END"
rig_end
