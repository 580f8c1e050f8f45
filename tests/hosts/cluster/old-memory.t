#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A node of a cluster comes back, still a master, with the memory of a while ago: as
# server/old-memory.t has it of one server, and for each of several leases that are
# renewed together, of slots whose memories are each their own.
RIG_MODE=cluster
NODE_TIMEOUT=15000 # or it would be failed over
. "${0%/*}/../../lib/rig.sh"

# What is saved outlives what is asked until the node answers again, which is 2 s after
# it has begun, also on a busy machine.
TTL=14 # s
NODE=2

# Two files whose locks, and whose ranges, are that node's.
its_files()
{
	local file key n=0

	for file in {a..z}{0..9}; do
		key=$(key_of "$file")
		[ "$(owner_of "$(slot_of "$key")")" = "$NODE" ] || continue
		[ "$(owner_of "$(slot_of "$key%rec")")" = "$NODE" ] || continue
		echo "$file"
		n=$((n + 1))
		[ "$n" -lt 2 ] || return
	done
}

is_owner()
{
	[ "$(m "$NODE" get "$(key_of "$1")")" = "$2" ]
}

granted()
{
	ask b "$@"
	[ "$RESULT" = 0 ]
}

# (The delay is each slot's own, by an uptime in whole seconds.)
decided()
{
	ask b "$@"
	[ "$RESULT" != ENOLCK ]
}

rig_start disks
rig_configs ttl=${TTL}s timeout=3s connect_timeout=500ms restart_delay=${TTL}s
until_true 20 masters_are_old $((TTL + 1))
mapfile -t files < <(its_files)
is "${#files[@]}" 2 'two files of one node'
locker a dl A
locker c dl A
locker b dl B
for name in a b c; do
	ask $name "open p ${files[0]}"
	ask $name "open q ${files[1]}"
done

for slot in p q; do
	ask a "range $slot F_WRLCK 0 10"
	ask a "range $slot F_WRLCK 40 10"
	ask b "lock $slot EX"
	is "$RESULT" 0 "$slot: B has the lock, A ranges"
done
old=$(m "$NODE" get "$(key_of "${files[0]}")")
m "$NODE" save >/dev/null
for slot in p q; do
	ask b "lock $slot UN"
	ask c "lock $slot EX"
	is "$RESULT" 0 "$slot: A has the lock"
	ask a "range $slot F_WRLCK 20 10"
	ask a "range $slot F_UNLCK 40 10"
	is "$RESULT" 0 "$slot: A has another range, and one less"
done
new=$(m "$NODE" get "$(key_of "${files[0]}")")
master_kill "$NODE"
node_up "$NODE"
ok 'the node is back, and what it has is old' \
	until_true 5 is_owner "${files[0]}" "$old"
ok 'who had the lock at last gets it back' \
	until_true $((2 * TTL)) is_owner "${files[0]}" "$new"
ok 'the delay is over' until_true $((2 * TTL)) granted 'range p F_WRLCK 40 10'
for slot in p q; do
	for what in 'lock EX NB' 'range F_WRLCK 0 10' 'range F_WRLCK 20 10'; do
		until_true $((2 * TTL)) decided "${what/ / $slot }"
		is "$RESULT" EAGAIN "$slot: host B is refused: $what"
	done
done
for name in a b c; do
	ask $name pid
	at_least "${RESULT:-0}" 1 "$name lives"
done
is "$(grep -h LOST "$RIG"/*.err)" '' 'nothing was lost'
peer_end a b c
rig_end
