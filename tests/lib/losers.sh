# shellcheck shell=bash disable=SC2154,SC2015
# SPDX-License-Identifier: MIT
#
# Holders that lose their leases, and who gets those; after rig.sh:
#	. tests/lib/losers.sh
#
#	survivors HOW N		N holders on A of files 0 to N - 1 (PEER a0...);
#				their pids in PIDS; if they have no timers of
#				their own they have watchdogs, but for UNWATCHED=1;
#				run by $SURVIVOR_BY, words
#	watch_deaths		from here on
#	others N		as many on B wait for the same files
#	judge N			waits until all of those are granted; in $EARLY the
#				holders that were not dead then, in $MARGIN the
#				least time between (ms)
#	stop_survivors HOW N	all of that, of holders that are stopped with their
#				keepers
#	continue_survivors	... and go on, who lives
#	wrote_late N		in $WROTE those that have written after it
#	wrote_all N		all of them have
#	survivors_leave N
PIDS=() KEEPERS=()
EARLY='' WROTE='' MARGIN=''
declare -A DIED GRANTED

survivor()
{
	: >"$RIG/$1.log"
	# shellcheck disable=SC2086 # words
	peer "$1" dl A ${SURVIVOR_BY-} env DLOCK_LOG="warning:$RIG/$1.log" \
		"$BIN/lease_loser" "$2" "$MNT/$3" "$MNT/$3.journal"
	hear "$1" && [ "$HEARD" = held ] || rig_die "$1: $(cat "$RIG/$1.err")"
}

# survivor_pid FILE: in the first pid namespace
survivor_pid()
{
	# (It, and not what has its name yet and will be a keeper.)
	pgrep -o -f "^$BIN/lease_loser [a-z]* $MNT/$1 "
}

survivors()
{
	local i pid

	PIDS=()
	for ((i = 0; i < $2; i++)); do
		survivor "a$i" "$1" "$i"
		pid=$(survivor_pid "$i")
		[ "$1" != forked ] || pid=$(pgrep -P "$pid" -x lease_loser)
		PIDS+=("$pid")
	done
	until_true 20 all_have_keepers "$2" || rig_die 'no keepers'
	[[ $1 != @(forked|executed) ]] || [ -n "${UNWATCHED-}" ] ||
		until_true 20 all_have_watchdogs "$2" || rig_die 'no watchdogs'
}

# (It comes before other work: who is seen to die late counts as one who did.)
watch_deaths()
{
	DIED=()
	peer deaths nice -n -20 "$BIN/deaths" "${PIDS[@]}"
	hear deaths && [ "$HEARD" = ready ] || rig_die 'no watch'
}

# (Asked for in turn: they all wait.)
others()
{
	local i

	for ((i = 0; i < $1; i++)); do
		# shellcheck disable=SC2016 # the inner shell's
		peer "b$i" dl B flock "$i" sh -c '"$0"; read -r _' "$BIN/now"
	done
}

judge()
{
	local i at

	EARLY='' MARGIN=
	for ((i = 0; i < $1; i++)); do
		hear "b$i" 60 ||
			rig_die "b$i is not granted: $(cat "$RIG/b$i.err")"
		GRANTED[$i]=$HEARD
	done
	say deaths ''
	while hear deaths && [ "$RESULT" != all ]; do
		DIED[$RESULT]=$START
	done
	for ((i = 0; i < $1; i++)); do
		at=${DIED[${PIDS[i]}]-}
		if [ -z "$at" ] || [ "$at" -ge "${GRANTED[$i]}" ]; then
			EARLY+="$i "
			diag "$i: granted at ${GRANTED[$i]}, dead at ${at:-a later time}" \
				"$(cat "$RIG/a$i.log")"
			continue
		fi
		at=$(((GRANTED[$i] - at) / 1000000))
		[ -n "$MARGIN" ] && [ "$MARGIN" -le "$at" ] || MARGIN=$at
	done
}

stop_survivors()
{
	survivors "$1" "$2"
	watch_deaths
	others "$2"
	kill -STOP "${PIDS[@]}"
	mapfile -t KEEPERS < <(keepers_of_a)
	on A kill -STOP "${KEEPERS[@]}"
	judge "$2"
}

continue_survivors()
{
	kill -CONT "${PIDS[@]}" 2>/dev/null
	on A kill -CONT "${KEEPERS[@]}"
}

# What is in the journals is of a time when nobody else had the lock.
wrote_late()
{
	local i at

	WROTE=
	for ((i = 0; i < $1; i++)); do
		at=$(on A cat "$MNT/$i.journal")
		[ $((10#$at)) -lt "${GRANTED[$i]}" ] || WROTE+="$i "
	done
}

wrote_all()
{
	wrote_late "$1"
	[ "$(wc -w <<<"$WROTE")" = "$1" ]
}

# Each has two, of which one stands by.
keepers_of_a()
{
	keepers A
	on A pgrep -x dlock-standby
}

all_have_keepers()
{
	[ "$(keepers_of_a | wc -l)" -ge $((2 * $1)) ]
}

# Those that have no timer of their own have two.
all_have_watchdogs()
{
	[ "$(on A pgrep -xc dlock-watchdog)" -ge $((2 * $1)) ]
}

survivors_leave()
{
	local i

	for ((i = 0; i < $1; i++)); do
		peer_end "a$i"
		[ -z "${PEER_IN[b$i]-}" ] || peer_end "b$i"
	done
	on A pkill -KILL lease_loser
	until_true 20 db_is_empty || rig_die "left: $(rr keys '*')"
}
