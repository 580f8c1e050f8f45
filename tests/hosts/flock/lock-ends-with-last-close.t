#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A lock ends with the last close of its description, however that comes about
# (lock_enders.c): until then the other host is refused, and promptly
# after it is granted.  What no library can see ends when our thread, the
# keeper or the ttl says so: raw-close by the next tick (ttl/3), raw-exit
# before the first tick by the ttl, after it at once.
. "${0%/*}/../../lib/rig.sh"

TTL=5400
PROMPT=100			# ms; on a busy machine nine in ten
LONGEST=$((TTL / 3 - 50))		# no tick of anybody's brought it about
slow=0 ends=0

rig_start disks
rig_configs ttl=${TTL}ms connect_timeout=400ms

declare -A stages
while read -r way n; do
	stages[$way]=$n
done < <("$BIN/lock_enders" list)
ways=("${!stages[@]}")
at_least "${#ways[@]}" 30 'there are ways'

# start HOW WAY: on A, has locked
start()
{
	peer "$2" "$1" A "$BIN/lock_enders" "$2" "$2"
	hear "$2" && [ "$RESULT" = locked ]
}

# --- control: without dlock nobody is refused on the other host ------------

for how in on null; do
	granted=0
	for way in "${ways[@]}"; do
		start "$how" "$way" || diag "$way: $HEARD"
		"$how" B flock -n "$way" true && granted=$((granted + 1))
		peer_end "$way"
		"$how" B rm -f "$way"
	done
	is "$granted" "${#ways[@]}" "control: each way is granted twice by '$how'"
done

# --- before and after the end ----------------------------------------------

# held WAY: by the kernel of A, and by the same lease
held()
{
	[ "$(token_of "$1")" = "${token[$1]}" ] &&
		! on A flock -n "$1" true && ! dl B flock -n "$1" true
}

is_free_here()
{
	on A flock -n "$1" true
}

# limit WAY early|late: ms from the end to the release
limit()
{
	case $1-$2 in
	raw-close-early) echo $((TTL / 3 + PROMPT)) ;;
	raw-exit-early)  echo $((TTL + PROMPT)) ;;
	*)               echo $PROMPT ;;
	esac
}

# ends WAY early|late: it ends the lock, and the other host has it
ends()
{
	local way=$1 begin took=0 most

	most=$(limit "$way" "$2")
	case $way in
	*exit* | exec*) # has no last word
		say "$way" go
		until_true 10 is_free_here "$way"
		begin=$(now)
		;;
	*)
		ask "$way" go
		is "$RESULT" 'done' "$way, $2: ends it"
		begin=$START
		;;
	esac
	ok "$way, $2: released" until_true 10 lease_is_gone "$way"
	took=$((($(now) - begin) / 1000000))
	[ "$most" -le "$PROMPT" ] || note "$way, $2: $took ms"
	ends=$((ends + 1))
	if [ "$took" -gt "$most" ]; then
		tap_allow $((took * 1000)) $((most * 1000))
		[ $((took * 1000)) -le $((most * 1000 + TAP_MORE)) ] ||
			slow=$((slow + 1))
	fi
	[ "$most" -ge "$LONGEST" ] || most=$LONGEST
	in_time "$took" "$most" "$way, $2: released in $took ms"
	# A bare program may meet the keeper, which looks for a moment.
	ok "$way, $2: free on its own host" until_true 10 is_free_here "$way"
	ok "$way, $2: the other host has it" dl B flock -n "$way" true
	peer_end "$way"
}

# What the shim sees, it sends before the call returns, and Redis reads it
# before what we ask after that: unless the lock is 50 ms old, for then the
# keeper sees to it.
at_once()
{
	local way=$1 try

	for try in {1..20}; do
		peer "$way" dl A "$BIN/lock_enders" "$way" "$way" now
		hear "$way" || diag "$way: silent"
		[ "$END" -lt 40000000 ] && break
	done
	[ "$try" = 1 ] || note "$way: slow, $try times"
	is "$RESULT" 'done' "$way: locks and ends it at once"
	ok "$way: released when it returns" lease_is_gone "$way"
	peer_end "$way"
	until_true 10 lease_is_gone "$way"
}

for way in "${ways[@]}"; do
	case $way in
	raw-* | two-* | *exit* | exec*) ;;
	*) at_once "$way" ;;
	esac
done

declare -A token
begin_with()
{
	start dl "$1" || fail "$1: locked: $HEARD"
	token[$1]=$(token_of "$1")
	[ -n "${token[$1]}" ] || fail "$1: has a lease"
}

for way in "${ways[@]}"; do
	begin_with "$way"
	if [ "${stages[$way]}" = 2 ]; then
		ask "$way" go
		is "$RESULT" survives "$way, early: lets one go"
		ok "$way, early: still held" held "$way"
	fi
	ends "$way" early
done

# --- the same, held for longer than the ttl --------------------------------

for way in "${ways[@]}"; do
	begin_with "$way"
	if [ "${stages[$way]}" = 2 ]; then
		ask "$way" go
		is "$RESULT" survives "$way, late: lets one go"
	fi
done
look_at_all()
{
	local way

	for way in "${ways[@]}"; do
		held "$way" || lost+=" $way"
	done
}
over_a_ttl()
{
	local lost=''

	throughout $((1300 * TTL / 1000)) 1 look_at_all
	is "$lost" '' 'held and refused for longer than the ttl, each way'
}
over_a_ttl
for way in "${ways[@]}"; do
	ends "$way" late
done
note "$slow of $ends took longer than $PROMPT ms"
at_most "$slow" $((ends / 10)) "nine in ten are released within $PROMPT ms"
rig_end
