#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A lock is a cache-coherence point (DESIGN L10): who is granted a lock reads
# what the last holder on another host wrote into the locked file.  Two mounts
# of one directory with bindfs' default timeouts, which keep pages and
# attributes; a number in a file, incremented in turns, so nothing but a stale
# read can spoil it.  Without dlock and with coherence = "off" some are stale.
. "${0%/*}/../../lib/rig.sh"

TURNS=20
HOSTS=(A B)

# lock and unlock commands of a kind
declare -A lock=(
	[flock]='lock c EX' [fcntl]='range c F_WRLCK 0 0 WAIT'
	[ofd]='range c F_WRLCK 0 0 WAIT OFD'
)
declare -A unlock=(
	[flock]='lock c UN' [fcntl]='range c F_UNLCK 0 0'
	[ofd]='range c F_UNLCK 0 0 OFD'
)

want()
{
	ask "$1" "$2"
	[ "$RESULT" = "$3" ] || rig_die "$1: $2: $RESULT, not $3"
}

# in_turns KIND read|peek write|poke: no turn reads a stale number
in_turns()
{
	local h i seen at_last stale=0

	number=$((number + 1))
	printf '%-4095s\n' 0 >"$RIG/share/$number"
	for h in "${HOSTS[@]}"; do
		locker "$h" "$RUN" "$h"
		want "$h" "open c $MNT/share/$number" 0
		want "$h" 'map c' 0
		want "$h" "$2 c" 0 # it is in the cache now
	done
	for ((i = 0; i < TURNS; i++)); do
		h=${HOSTS[i % 2]}
		want "$h" "${lock[$1]}" 0
		ask "$h" "$2 c"
		seen=$RESULT
		[ "$seen" = "$i" ] || stale=$((stale + 1))
		want "$h" "$3 c $((i + 1))" 0
		want "$h" "${unlock[$1]}" 0
	done
	peer_end "${HOSTS[@]}"
	at_last=$(tr -d ' \n' <"$RIG/share/$number")
	note "$RUN, $1, $2: $stale of $TURNS reads are stale, $at_last at last"
	[ "$stale" = 0 ] && [ "$at_last" = "$TURNS" ]
}

# coherent NAME KIND READ WRITE
coherent()
{
	three_ways "$1" in_turns "$2" "$3" "$4"
	rig_configs path_more='coherence = "on"'
	ok "$1: on" in_turns "$2" "$3" "$4"
	rig_configs path_more='coherence = "off"'
	ok "$1: off reads stale numbers" fails_once in_turns "$2" "$3" "$4"
	rig_configs
}

rig_start disks
number=0
for h in "${HOSTS[@]}"; do
	share_at "$h" "$MNT/share"
done
for kind in flock fcntl ofd; do
	coherent "$kind: pread and pwrite" "$kind" read write
	coherent "$kind: a mapping" "$kind" peek poke
done
rig_end
