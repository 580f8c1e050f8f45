#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 900
#
# One master of three is killed and comes back empty, time and again, while two hosts
# lock: never two holders.  It has forgotten who holds what, so for restart_delay it
# grants nothing; the round after that takes another one.
#
#	quorum.t [ROUNDS [SEED]]
RIG_MODE=quorum
. "${0%/*}/../lib/rig.sh"

ROUNDS=${1:-100}
RANDOM=${2:-$$}
TTL=2			# s

# Each has been there for longer than the delay.
all_are_old()
{
	masters_are_old $((TTL + 1))
}

rig_start disks
rig_configs ttl=${TTL}s timeout=30s connect_timeout=300ms restart_delay=${TTL}s
sees_two 10
ok 'the masters are old' until_true 10 all_are_old

load_begin "$BUILD/libdlock-preload.so"
for ((i = 1; i <= ROUNDS; i++)); do
	master=$((RANDOM % 3 + 1))
	master_kill "$master"
	[ $((RANDOM % 2)) = 0 ] || sleep "0.$((RANDOM % 9))"
	master_up "$master"
	load_goes_on 10 || fail "round $i: nothing goes on"
	until_true 10 all_are_old || fail "round $i: master $master is not old"
done
load_end
is "$overlaps $broken" '0 0' "$ROUNDS times a master back empty: never two holders"
is "$lost" 0 '... no lease is lost'
is "$died $errors" '0 0' '... nobody has ended, and no lock has failed'
done_testing
