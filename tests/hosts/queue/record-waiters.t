#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Who waits for a byte range waits in the queue at Redis (DESIGN section 4): it
# is told when its range is free, in its turn, and asks for nothing meanwhile;
# whoever dies, is interrupted or is kept by a local program on the way holds
# nobody up.
. "${0%/*}/../../lib/rig.sh"

TURNS=(/usr/bin/python3 "$TOP/tests/programs/turns.py")

# take_turns EACH TURNS HOLD_US BYTES: $n turns, $bad conflicts
take_turns()
{
	local h status=0

	number=$((number + 1))
	for h in A B; do
		: >"$RIG/turns.$h"
		peer "t$h" "$RUN" "$h" sh -c '"$@" >'"$RIG/turns.$h" sh \
			timeout 600 "${TURNS[@]}" "$MNT/turns.$number" "$@"
		until_true 10 grep -q ready "$RIG/turns.$h" ||
			rig_die "$h: not ready: $(cat "$RIG/t$h.err")"
	done
	say tA go
	say tB go
	for h in A B; do
		until_true 600 has_ended "${PEER_PID[t$h]}" || status=1
		peer_end "t$h"
	done
	read -r n bad <<<"$("${TURNS[@]}" conflicts "$RIG"/turns.[AB])"
	note "$RUN: $n turns, $bad conflicts"
	return "$status"
}

has_ended()
{
	! kill -0 "$1" 2>/dev/null
}

all_exclude()
{
	take_turns 4 "$1" 500 16 && [ "$n" = $((8 * $1)) ] && [ "$bad" = 0 ]
}

# What clients sent, and what scripts published.
commands()
{
	rr info commandstats | sed -n 's/^cmdstat_//; s/calls=//p' |
		awk -F'[:,]' '$1 ~ /^(eval|evalsha|subscribe|publish|ping)$/ {
			n += $2 } END { print n }'
}

few_commands()
{
	r config resetstat >"$RIG/reset"
	take_turns 4 100 1000 1 || return 1
	note "$(commands) commands for $n acquisitions"
	[ "$n" = 800 ] && [ "$bad" = 0 ] &&
		[ "$(commands)" -le $((n * 6)) ]
}

# --- one by one -------------------------------------------------------------

waiting()
{
	local key n=0

	for key in $(rr keys '*%q'); do
		n=$((n + $(rr hlen "$key") - 2))
	done
	[ "$n" = "$1" ]
}

# players NAME@HOST...
players()
{
	local p

	PLAYERS=()
	for p; do
		PLAYERS+=("${p%@*}")
		locker "${p%@*}" dl "${p#*@}"
		ask "${p%@*}" "open f $MNT/f"
	done
}

leave()
{
	peer_end "${PLAYERS[@]}"
	until_true 6 db_is_empty
}

# take NAME START LENGTH
take()
{
	ask "$1" "range f F_WRLCK $2 $3"
	[ "$RESULT" = 0 ] || rig_die "$1: cannot take $2: $RESULT"
}

give()
{
	ask "$1" "range f F_UNLCK $2 $3"
}

# wants NAME START LENGTH N: the N-th in the queue
wants()
{
	say "$1" "range f F_WRLCK $2 $3 WAIT"
	until_true 5 waiting "$4" || rig_die "$1 does not queue"
}

# has_it NAME [MS]: so soon after the last release
SOON=300
CLAIM=2000 # the life of one at the ttl that the rig gives
has_it()
{
	local released=$START us

	hear "$1" 5 || return 1
	us=$(((END - released) / 1000))
	diag "$1: $RESULT, $us us after the release"
	[ "$RESULT" = 0 ] && within_us "$us" $((${2-SOON} * 1000))
}

# So many are subscribed, to whatever server.
listening()
{
	local i n=0

	for ((i = 1; i <= N_MASTERS; i++)); do
		n=$((n + $({
			m "$i" pubsub channels
			m "$i" pubsub shardchannels
		} | grep -cE '[0-9a-f]{32}')))
	done
	[ "$n" = "$1" ]
}

in_order()
{
	local status=0

	players a@A b@B c@B d@B
	take a 0 10
	wants b 0 10 1
	wants c 0 10 2
	wants d 5 1 3
	give a 0 10
	has_it b || status=1
	give b 0 10
	has_it c || status=1
	give c 0 10
	has_it d || status=1
	leave && return "$status"
}

by_parts()
{
	local status=0

	players a@A b@B c@B
	take a 0 20
	wants b 0 20 1
	wants c 10 5 2
	give a 10 10
	has_it c || status=1
	give c 10 5
	give a 0 10
	has_it b || status=1
	leave && return "$status"
}

# past_the_killed dead|dying: that nobody hears b, or that b may still be thought
# to, and then its claim lasts a life (DESIGN 4.3).
past_the_killed()
{
	local status=0 pid limit=$((CLAIM + SOON))

	players a@A b@B c@B
	ask b pid
	pid=$RESULT
	take a 0 10
	wants b 0 10 1
	wants c 0 10 2
	on B kill -KILL "$pid"
	if [ "$1" = dead ]; then
		until_true 5 listening 1 || status=1
		limit=$SOON
	fi
	give a 0 10
	has_it c "$limit" || status=1
	leave && return "$status"
}

# signalled alarm|jump RESULT: b and c wait, and then SIGALRM comes to b, whose
# call ends so.
signalled()
{
	local pid

	players a@A b@B c@B
	ask b pid
	pid=$RESULT
	take a 0 10
	ask b "$1 0"
	wants b 0 10 1
	wants c 0 10 2
	on B kill -ALRM "$pid"
	hear b && [ "$RESULT" = "$2" ]
}

interrupted()
{
	local status=0

	signalled alarm EINTR || status=1
	until_true 1 waiting 1 || status=1
	give a 0 10
	has_it c || status=1
	leave && return "$status"
}

jumped()
{
	local status=0

	signalled jump JUMPED || status=1
	give a 0 10
	has_it c || status=1
	leave && return "$status"
}

# A program of B that knows nothing of dlock has what b was granted.
past_a_stranger()
{
	local status=0

	players a@A b@B c@B
	locker s on B
	PLAYERS+=(s)
	take a 0 10
	wants b 0 10 1
	ask s "open f $MNT/f"
	take s 5 1
	wants c 0 2 2
	give a 0 10
	has_it c || status=1
	give c 0 2
	give s 5 1
	has_it b || status=1
	leave && return "$status"
}

rig_start disks
number=0
three_ways 'ranges by chance, two hosts with four processes each' \
	all_exclude 60
ok 'at most 6 commands an acquisition' few_commands
ok 'first come, first served' in_order
ok 'a part is served as soon as it is free' by_parts
ok 'a waiter that was killed is passed by' past_the_killed dead
ok 'one that is being killed is, when its claim is over' past_the_killed dying
ok 'one that was interrupted has left' interrupted
ok 'one that has jumped out of the call is passed by' jumped
ok 'one that a local program keeps passes it on' past_a_stranger
rig_end
