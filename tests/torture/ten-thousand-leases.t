#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# Ten thousand leases of one process (DESIGN L4, section 5): all granted, all
# carried on by a keeper that stays small, all gone when the process ends.
# The figures are printed.
. "${0%/*}/../lib/rig.sh"

N=10000
TTL=10				# s

sized()
{
	on A sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$KEEPER/status"
}

all_free()
{
	[ "$(rr dbsize)" = 0 ]
}

ulimit -n 20000 2>/dev/null || {
	note 'skipped: 20000 descriptors are not to be had'
	done_testing
	exit
}
rig_start disks
rig_configs ttl=${TTL}s connect_timeout=1s
peer m dl A "$BIN/many_files" $N EX
ask m open 60
ask m lock 120
is "$RESULT" 0 "$N locks are granted"
note "in $((START / 1000)) ms"
is "$(rr dbsize)" $N 'as many leases'
until_true 20 on A pgrep -x dlock-keeper >/dev/null
sleep $((TTL * 3 / 2))
is "$(rr dbsize)" $N 'and after 1.5 x ttl'
KEEPER=$(on A pgrep -x dlock-keeper)
at_most "$(sized Threads)" 65 'the keeper has few threads'
at_most "$(sized VmRSS)" 16384 "the keeper is small: $(sized VmRSS) kB"
ask m cpu
note "the process' CPU time: $((RESULT / 1000)) ms in all"
begin=$(now)
say m exit
ok 'all are released when it ends' until_true 20 all_free
note "in $((($(now) - begin) / 1000000)) ms"
rig_end
