#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A node of a cluster that was a master, was a replica, and is the master again has
# not restarted, and waits a delay all the same, for each of its slots: what the
# other one granted meanwhile is nothing that it knows (DESIGN 5.8).
RIG_MODE=cluster NODE_TIMEOUT=15000 # none fails over but who is told to
. "${0%/*}/../../lib/rig.sh"

# Three are asked within it.
TTL=8 # s

# Three files whose locks are the first node's.
its_files()
{
	local file n=0

	for file in {a..z}{0..9}; do
		[ "$(owner_of "$(slot_of "$(key_of "$file")")")" = 1 ] || continue
		echo "$file"
		n=$((n + 1))
		[ "$n" -lt 3 ] || return
	done
}

run_id()
{
	m "$1" info server | sed -n 's/^run_id:\(\w*\).*/\1/p'
}

is_granted()
{
	ask a "$1" 20
	[ "$RESULT" = 0 ]
}

# (A failover that is not through within five seconds is given up.)
leads()
{
	m "$1" cluster failover >/dev/null
	until_true 6 is_master "$1"
}

rig_start disks
rig_configs ttl=${TTL}s timeout=20s connect_timeout=500ms restart_delay=${TTL}s
ok 'the nodes are old' until_true 20 masters_are_old $((TTL + 1))
mapfile -t files < <(its_files)
is "${#files[@]}" 3 'three files of one node'
locker a dl A
locker b dl B
locker c dl A
for name in a b c; do
	ask $name "open x ${files[0]}"
	ask $name "open y ${files[1]}"
done
ask a "open w ${files[2]}"
for slot in x y; do
	ask a "lock $slot EX"
	is "$RESULT" 0 "$slot: the first node grants it"
	ask a "lock $slot UN"
done
ask c 'lock x EX'
is "$RESULT" 0 'x: ... also to who asks no more for long'
ask c 'lock x UN'
run=$(run_id 1)
ok 'its replica is the master' until_true 20 leads 4
ask b 'lock x EX NB'
is "$RESULT" ENOLCK '... and waits a delay (control)'
for slot in x y; do
	ok "$slot: ... until it is over" until_true 20 is_granted "lock $slot EX"
	ask a "lock $slot UN"
done
# Once is enough, for all slots of that node.
ask a 'lock w EX NB'
is "$RESULT" 0 'w: never asked for before, it is granted at once'
ask a 'lock w UN'
master_kill 4
m 1 cluster failover takeover >/dev/null
ok 'the first is it again' until_true 20 is_master 1
is "$(run_id 1)" "$run" '... which has run all the time'
ask c 'lock x EX NB'
is "$RESULT" ENOLCK 'x: it waits a delay, also by a connection from before'
for slot in y x; do
	ask b "lock $slot EX NB"
	is "$RESULT" ENOLCK "$slot: it waits a delay as well"
done
rig_end
