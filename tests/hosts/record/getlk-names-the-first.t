#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# F_GETLK names the lock that starts first, of all that are in the way: so who
# goes on behind each answer sees all of them, in order (the way of LTP's fcntl11
# and fcntl21).  Of one owner on another host as the kernel tells it of one on
# this; of several, on this host and others, whoever has it.
. "${0%/*}/../../lib/rig.sh"

teller()
{
	peer "$1" "$RUN" "$2" "$BIN/records" tell
	ask "$1" "open a $FILE"
}

# walk PEER CMD TYPE: what it is told of, from 0 to the end
walk()
{
	local at=0 start len type

	while ask "$1" "$2 a $3 $at 0" && [ "$RESULT" != U ]; do
		IFS=, read -r type start len _ <<<"$RESULT"
		printf ' %s,%s,%s' "$type" "$start" "$len"
		[ "$len" != 0 ] || return 0
		at=$((start + len))
	done
	echo " $RESULT"
}

# A dozen locks by chance, one over the other, and what is told of them.
by_chance()
{
	local i type

	RANDOM=$1
	for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
		type=WWRRU
		type=${type:RANDOM % 5:1}
		ask a "$2set a $type $((RANDOM % 60)) $((1 + RANDOM % 12))"
		[ "$RESULT" = 0 ] || echo "refused: $RESULT"
	done
	walk b "$2get" R
	walk b "$2get" W
	walk b get W
	ask a "$2set a U 0 0"
}

# all_told NAME BHOST: of all the chances
all_told()
{
	local seed set

	for seed in 1 2 3 4 5 6; do
		for set in '' ofd; do
			FILE=$MNT/$seed$set
			teller a A
			teller b "$2"
			echo "$seed $set:" "$(by_chance "$seed" "$set")"
			peer_end a b
		done
	done >"$RIG/$1"
}

expect()
{
	ask "$1" "$2"
	[ "$RESULT" = "$3" ] || diag "$1: $2: $RESULT, not $3"
	[ "$RESULT" = "$3" ]
}

# Two owners, one on the host of who asks.
of_two()
{
	local pid_a pid_b status=0

	FILE=$MNT/two
	teller a A
	teller b B
	teller c B
	ask a pid
	pid_a=$RESULT
	ask b pid
	pid_b=$RESULT
	expect a 'set a W 30 10' 0 && expect a 'set a R 5 5' 0 &&
		expect b 'set a W 20 5' 0 && expect b 'set a R 0 3' 0 &&
		expect c 'get a W 0 0' "R,0,3,$pid_b" &&
		expect c 'get a R 0 0' "W,20,5,$pid_b" &&
		expect c 'get a W 3 0' "R,5,5,-$pid_a" &&
		expect c 'get a W 10 0' "W,20,5,$pid_b" &&
		expect c 'get a W 25 0' "W,30,10,-$pid_a" &&
		expect c 'get a R 40 0' U && expect a 'set a U 0 0' 0 &&
		expect b 'set a U 0 0' 0 && expect b 'set a R 12 20' 0 &&
		expect a 'set a R 8 20' 0 &&
		expect c 'get a W 15 1' "R,8,20,-$pid_a" &&
		expect c 'ofdget a W 29 1' "R,12,20,$pid_b" &&
		expect c 'get a R 0 0' U || status=1
	peer_end a b c
	return "$status"
}

rig_start disks
RUN=on
all_told kernel A
all_told nothing B
like "$(cat "$RIG/kernel")" 'W,[0-9]+,.*R,[0-9]+,' 'the kernel tells of many'
is "$(grep -c '[RW],' "$RIG/nothing")" 0 'bare, two hosts tell nothing (control)'
RUN=dl
all_told dlock B
is "$(cat "$RIG/dlock")" "$(cat "$RIG/kernel")" \
	'dlock: of another host, what the kernel tells of this one'
three_ways 'of two owners on two hosts, the one that starts first' of_two
rig_end
