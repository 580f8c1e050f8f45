#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Record locks across two hosts with disks of their own: granted to one, refused
# to the other, whole or not at all, whatever the threads of one process do.
. "${0%/*}/../../lib/rig.sh"

# teller NAME HOST: a program that does as it is told (records.c).
teller()
{
	peer "$1" "$RUN" "$2" "$BIN/records" tell
}

# expect NAME LINE RESULT: for use in a condition.
expect()
{
	ask "$1" "$2" && [ "$RESULT" = "$3" ] && return 0
	diag "$RUN: $1: $2: '$HEARD' instead of $3"
	diag "$(cat "$RIG/$1.err")"
	return 1
}

# scene FUNCTION [ARG...]: two tellers, a on host A and b on host B, with $FILE
# in their slot a.
scene()
{
	local status=0

	FILE=f$((++SCENES))
	teller a A
	teller b B
	expect a "open a $FILE" 0 && expect b "open a $FILE" 0 && "$@" ||
		status=1
	peer_end "${!PEER_IN[@]}"
	return "$status"
}

# --- exclusion ------------------------------------------------------------

ranges()
{
	expect a "${1}set a W 10 10" 0 &&
		expect b "${1}set a W 0 10" 0 &&
		expect b "${1}set a R 20 10" 0 &&
		expect b "${1}set a R 19 1" EAGAIN &&
		expect b "${1}set a W 0 0" EAGAIN &&
		expect a "${1}set a R 10 10" 0 &&
		expect b "${1}set a R 19 1" 0 &&
		expect b "${1}set a W 19 1" EAGAIN &&
		expect a "${1}set a W 10 10" EAGAIN &&
		expect a "${1}set a W 10 9" 0 &&
		expect a "${1}set a U 0 0" 0 &&
		expect b "${1}set a W 10 20" 0 &&
		expect a "${1}set a R 29 1" EAGAIN &&
		expect b "${1}set a U 0 0" 0
}

# F_GETLK of another host's: its range, and its pid, negative.
named()
{
	local pid

	ask a pid && pid=$RESULT &&
		expect a 'set a W 10 10' 0 && expect a 'set a R 50 0' 0 &&
		expect b 'get a R 0 0' "W,10,10,-$pid" &&
		expect b 'get a W 15 1' "W,10,10,-$pid" &&
		expect b 'get a W 60 1' "R,50,0,-$pid" &&
		expect b 'ofdget a W 60 1' "R,50,0,-$pid" &&
		expect b 'get a R 20 0' U &&
		expect b 'get a W 20 30' U &&
		expect a 'get a W 0 0' U &&
		expect a 'test a' 0 && expect b 'test a' EACCES &&
		expect a 'set a U 0 20' 0 && expect b 'test a' 0 &&
		expect a 'set a U 0 0' 0 && expect b 'get a W 0 0' U
}

# --- what ends it ---------------------------------------------------------

# Granted at once?  B asks right after A's answer.
freed_by()
{
	expect b 'set a W 0 0' EAGAIN || return 1
	expect a "$1" 0 || return 1
	ask b 'set a W 0 0'
	[ "$RESULT" = 0 ] || return 1
	expect b 'set a U 0 0' 0
}

closed_by()
{
	expect a "open b $FILE" 0 && expect a 'open c other' 0 &&
		expect a "stream d $FILE" 0 && expect a 'set a W 0 10' 0 &&
		freed_by "$1"
}

closers()
{
	local how

	for how in 'close b' 'span b' 'closefrom b' 'over c b' 'fclose d'; do
		scene closed_by "$how" || return 1
	done
}

# An O_PATH descriptor has no part in it, nor has a child's close.
no_closers()
{
	expect a 'set a W 0 10' 0 && expect a "opath b $FILE" 0 &&
		expect a 'set b U 0 0' EBADF &&
		expect b 'set a W 0 0' EAGAIN &&
		expect a 'close b' 0 && expect b 'set a W 0 0' EAGAIN &&
		ask a 'fork a' && expect b 'set a W 0 0' EAGAIN &&
		expect a 'exec a' 0 && expect b 'set a W 0 0' EAGAIN &&
		expect a 'set a W 0 10' 0 && freed_by 'set a U 0 0'
}

ttl_is_above()
{
	[ "$(rr pttl "dlock:$MNT/$FILE%rec")" -gt "$1" ]
}

ttl_is_below()
{
	[ "$(rr pttl "dlock:$MNT/$FILE%rec")" -le "$1" ]
}

# Of several descriptors, beyond two renewals.
renewed()
{
	expect a "open b $FILE" 0 && expect a "open c $FILE" 0 &&
		expect a 'set a W 0 10' 0 && expect a 'set b W 10 10' 0 &&
		expect a 'set c R 100 10' 0 || return 1
	for _ in 1 2; do
		[ "$RUN" = dl ] || break
		until_true 5 ttl_is_below 5000 &&
			until_true 5 ttl_is_above 5400 || return 1
	done
	expect b 'set a R 5 1' EAGAIN && expect b 'set a R 15 1' EAGAIN &&
		expect b 'set a W 105 1' EAGAIN && expect b 'set a R 105 1' 0 &&
		expect b 'set a U 0 0' 0 && expect a 'set b U 0 0' 0
}

# kill -9: to the next of its host at once, to others by the ttl.
killed()
{
	local before

	teller c A
	expect c "open a $FILE" 0 &&
		expect a 'set a W 0 10' 0 && expect a 'set a W 20 10' 0 &&
		ask a pid || return 1
	on A kill -KILL "$RESULT"
	before=$(now)
	expect c 'wait a W 0 5' 0 || return 1
	diag "kill -9: the next of its host after" \
		"$(((END - before) / 1000)) us"
	within_us $(((END - before) / 1000)) 1000000 || return 1
	expect b 'set a R 0 5' EAGAIN && expect b 'wait a W 5 100' 0 || return 1
	diag "kill -9: another host after $(((END - before) / 1000000)) ms"
	expect c 'set a U 0 0' 0 && expect b 'set a U 0 0' 0
}

# What it costs to see an unlock, to one who asks and to one who waits.
handed_over()
{
	local freed

	expect a 'set a W 0 10' 0 || return 1
	say b 'wait a W 5 10'
	sleep 0.3 # (it waits a while, and loses nothing by it)
	expect a 'set a U 0 0' 0
	freed=$START
	hear b && [ "$RESULT" = 0 ] && [ "$END" -gt "$freed" ] || return 1
	diag "an unlock: a waiter of the other host has it" \
		"$(((END - freed) / 1000)) us later"
	expect b 'set a U 0 0' 0
}

# --- threads --------------------------------------------------------------

# Without those that B holds.
in_redis()
{
	rr zrangebylex "{dlock:$MNT/$FILE%rec}%r" '[O' '(P' |
		awk '{
			from = substr($0, 34, 19) + 0
			to = substr($0, 53, 19) + 0
			if (from % 64 != 60 || to != from + 3)
				print substr($0, 72), from, to
		}' | sort -n -k 2
}

same_in_redis()
{
	in_redis >"$RIG/redis.list"
	cmp -s "$RIG/redis.list" "$RIG/model.list"
}

# ROUNDS: of 4 threads on A, with B in between.
threads()
{
	local good

	FILE=f$((++SCENES))
	rm -f "$RIG/b.sock"
	peer b "$RUN" B "$BIN/records" serve "$RIG/b.sock" "$MNT/$FILE" 4
	hear b || return 1
	peer a "$RUN" A "$BIN/records" threads "$RIG/b.sock" "$MNT/$FILE" 4 \
		"$1" "${SEED:-7}"
	hear a 60
	good=$RESULT
	: >"$RIG/model.list"
	while hear a && [ "$RESULT" != end ]; do
		echo "$HEARD" >>"$RIG/model.list"
	done
	diag "$RUN: $good: $(head -n 3 "$RIG/a.err")"
	if [ "$good" = good ] && [ "$RUN" = dl ] &&
		! until_true 2 same_in_redis; then
		diag "$(diff "$RIG/redis.list" "$RIG/model.list")"
		good='not the same in Redis'
	fi
	peer_end "${!PEER_IN[@]}"
	[ "$good" = good ]
}

SCENES=0 FILE=''
rig_start disks
rig_configs ttl=6s
three_ways 'POSIX ranges' scene ranges ''
three_ways 'OFD ranges' scene ranges ofd
three_ways 'F_GETLK and lockf(F_TEST) name another host' scene named
three_ways 'closing any descriptor frees it for the other host' closers
three_ways 'O_PATH, a child and exec do not' scene no_closers
three_ways 'several descriptors, beyond renewals' scene renewed
RUN=dl
ok 'kill -9 of the holder' scene killed
three_ways 'an unlock frees' scene handed_over
three_ways 'threads of one process, refused and granted' threads 150
rig_empty 8
rig_end
