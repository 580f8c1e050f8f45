#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A lease lives as long as its lock: over many times its ttl while the holder
# lives (L4), no longer than the ttl after the last renewal when it dies, and
# a host that is dead is waited for to the end (L5).
. "${0%/*}/../../lib/rig.sh"

TTL=5000			# ms
KEY=dlock:				# completed by rig_start
SLACK=250			# ms, the issue's

# A on A holds f.
hold()
{
	locker a dl A
	ask a 'open a f'
	ask a 'lock a EX'
	[ "$RESULT" = 0 ]
}

# The key's ttl in ms in $LEFT, and when it was asked, in $ASKED (ns): it
# was set to end no earlier than $ASKED + $LEFT - 1 ms.
left()
{
	ASKED=$(now)
	LEFT=$(rr pttl "$KEY")
}

try_and_look()
{
	ask b 'lock a EX NB'
	[ "$RESULT" = EAGAIN ] || granted=$RESULT
	[ "$(rr get "$KEY")" = "$token" ] || changed=$((changed + 1))
	left
	[ "$LEFT" -ge "$low" ] || low=$LEFT
}

held_over_ttls()
{
	local token granted=0 changed=0 low=$TTL

	token=$(rr get "$KEY")
	locker b dl B
	ask b 'open a f'
	throughout $((5 * TTL)) 50 try_and_look
	note "lowest ttl seen $low of $TTL ms"
	is "$granted" 0 'held for 5 x ttl: each remote attempt is refused'
	is "$changed" 0 'and the token stays the same'
	peer_end b
}

# The waiter on HOST asks, and is surely waiting: its first refusal was seen.
waiter()
{
	locker w dl "$1"
	ask w 'open a f'
	ask w 'lock a EX NB'
	is "$RESULT" EAGAIN "$2: refused while the holder lives"
	say w 'lock a EX'
}

given_up()
{
	say w 'lock a UN'
	hear w
	is "$RESULT" 0 "$1: the successor's unlock"
	peer_end w
	rig_empty 2 "$1: no key is left"
}

host_death()
{
	local name='host death' killed

	ok "$name: A holds" hold
	waiter B "$name"
	killed=$(now)
	host_dead A
	until_true 2 host_is_gone A
	# No renewal comes after this.
	left
	hear w 10
	is "$RESULT" 0 "$name: the remote waiter owns the lock"
	note "$name: owned $(((END - killed) / 1000000)) ms after the kill;" \
		"the lease had $LEFT ms left"
	at_least "$END" $((ASKED + (LEFT - 1) * 1000000)) \
		"$name: no earlier than the ttl allows"
	in_time $(((END - killed) / 1000000)) $((TTL + SLACK)) \
		"$name: no later than ttl + $SLACK ms" "$SLACK"
	given_up "$name"
	peer_end a
	host_new A disks
}

# The ttl is set anew: with it, the keeper has the lease as well (L4).
is_renewed()
{
	local before=$LEFT

	left
	[ "$LEFT" -gt "$before" ]
}

# kill_holder NAME WAITER LIMIT [renewed]
kill_holder()
{
	local name=$1 killed pid

	ok "$name: A holds" hold
	if [ -n "${4-}" ]; then
		left
		ok "$name: it was renewed" until_true 10 is_renewed
	fi
	ask a pid
	pid=$RESULT
	if [ "$2" = B ]; then
		waiter B "$name"
	else
		waiter A "$name"
	fi
	killed=$(now)
	on A kill -KILL "$pid"
	hear w 10
	is "$RESULT" 0 "$name: the waiter owns the lock"
	note "$name: owned $(((END - killed) / 1000)) us after the kill"
	in_time_us $(((END - killed) / 1000)) "$3" "$name: in time (us)"
	given_up "$name"
	peer_end a
}

rig_start disks
rig_configs ttl=${TTL}ms connect_timeout=300ms
KEY=dlock:$MNT/f
ok 'A holds' hold
held_over_ttls
ask a 'lock a UN'
is "$RESULT" 0 'unlocked'
rig_empty 2 'unlock: no key is left'
peer_end a
host_death
kill_holder 'kill -9, remote waiter' B $(((TTL + SLACK) * 1000))
# The keeper sees the end of the lock; the waiter looks every 250 ms or sooner.
kill_holder 'kill -9 of an old holder, remote waiter' B 500000 renewed
# Who waits in the kernel has it at once.
kill_holder 'kill -9, local waiter' A 200000
kill_holder 'kill -9 of an old holder, local waiter' A 200000 renewed
rig_end
