#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# What was right a moment ago: record locks of an owner that has lost a part
# without its knowing, and of one that was stopped beyond its lease.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/players.sh"

teller()
{
	peer "$1" "$RUN" "$2" "$BIN/records" tell
}

# A process's bytes 0-9 have ended, unseen, and it goes on with others: the next
# of its host gets them at once, by proof.
ended_unseen()
{
	local refused p50 p99

	peer p "$RUN" A "$BIN/tentative_locks" stale "$MNT/ended" 0 10
	hear p && [ "$RESULT" = ready ] || return 1
	read -r refused p50 p99 <<<"$("$RUN" A timeout 20 "$BIN/tentative_locks" \
		try "$MNT/ended" 0 10 posix 20)"
	note "$RUN: $refused of 20 refused, p50 $p50 us, p99 $p99 us"
	say p end && hear p
	peer_end p
	[ "$refused" = 0 ]
}

# The same, but another host has them by now: they are asked for once more, by
# the owner, for which no byte is new; or by the next description of a number.
relocked()
{
	local set=$1 still=$2 end=$3

	ask a 'open a relocked' && ask a "open b relocked" &&
		ask a "${set}set a W 0 10" && [ "$RESULT" = 0 ] &&
		ask a "unseen $end" && ask a 'open c relocked' &&
		ask b 'open a relocked' || return 1
	"$RUN" A "$BIN/tentative_locks" try "$MNT/relocked" 0 10 posix 1 >"$RIG/tried" ||
		return 1
	ask b 'wait a W 0 10' 20 && [ "$RESULT" = 0 ] &&
		ask a "${set}set $still W 0 10" || return 1
	note "$RUN: after the other host has it: $RESULT"
	[ "$RESULT" = EAGAIN ] && ask b 'set a U 0 0'
}

# Stopped, with its keeper, until another host has its bytes: they are not
# granted once more.
stopped()
{
	local pid

	ask a 'open a late' && ask b 'open a late' && ask a pid &&
		pid=$RESULT && ask a 'set a W 0 10' && [ "$RESULT" = 0 ] &&
		ask b 'set a W 0 10' && [ "$RESULT" = EAGAIN ] || return 1
	# One that is started meanwhile would go on.
	[ "$RUN" != dl ] || until_true 5 have_standbys A 1 || return 1
	# shellcheck disable=SC2046 # numbers
	on A kill -STOP "$pid" $(all_keepers A)
	ask b 'wait a W 0 10' 20 && [ "$RESULT" = 0 ] || return 1
	say a 'set a W 0 10'
	# shellcheck disable=SC2046 # numbers
	on A kill -CONT "$pid" $(all_keepers A)
	hear a || return 1
	note "$RUN: after the other host has it: $RESULT"
	[ "$RESULT" != 0 ] && ask b 'set a U 0 0'
}

# Nobody of one run is left in the next.
tellers()
{
	local status=0

	teller a A
	teller b B
	"$@" || status=1
	peer_end a b || status=1
	return "$status"
}

# The server forgets everything, and comes back: what was held is there before it
# grants anything to anybody, for restart_delay is shorter than the ttl.  (Who asks
# while it is young takes it for younger by up to two seconds, and so do all.)
forgotten()
{
	redis_kill
	redis_up
	until_true 20 redis_is_old 9
}

# After exec, the keeper alone has it; then the server forgets everything.
put_back()
{
	want a 'open a kept' 0 && want b 'open a kept' 0 &&
		want a 'set a W 0 10' 0 && want a 'set a R 100 10' 0 &&
		want a 'exec a' 0 && want b 'set a R 0 1' EAGAIN || return 1
	forgotten
	want b 'set a W 105 1' EAGAIN && want b 'set a R 105 1' 0 &&
		want b 'set a R 9 1' EAGAIN &&
		want b 'set a U 0 0' 0 && want a 'set a U 0 0' 0
}

# The same with a lock of the new program: each puts back what is its own.
put_back_both()
{
	want a 'open a both' 0 && want b 'open a both' 0 &&
		want a 'set a W 0 10' 0 && want a 'exec a' 0 &&
		want a 'set a W 20 10' 0 || return 1
	forgotten
	want b 'set a R 9 1' EAGAIN && want b 'set a R 20 1' EAGAIN &&
		want b 'set a W 10 10' 0 &&
		want b 'set a U 0 0' 0 && want a 'set a U 0 0' 0
}

# One process has two files of one name: each has what it had, though the one is
# put back before the other is looked for.
put_back_replaced()
{
	want a 'open a name' 0 && want b 'open a name' 0 &&
		want a 'set a R 0 10' 0 && on A mv "$MNT/name" "$MNT/old" &&
		want a 'open b name' 0 &&
		want a 'set b R 0 10' 0 || return 1
	forgotten
	want b 'set a W 0 1' EAGAIN && want a 'set a U 0 0' 0 &&
		want b 'set a W 0 1' EAGAIN && want a 'set b U 0 0' 0 &&
		want b 'wait a W 0 1' 0 && want b 'set a U 0 0' 0
}

rig_start disks
rig_configs ttl=12s path_more='on_lost = "report"'
RUN=dl
if [ "$(uname -m)" = x86_64 ]; then
	ok 'what ended unseen is free, whatever its owner was granted since' \
		ended_unseen
	rig_configs ttl=12s
	three_ways 'what ended unseen is not granted once more' \
		tellers relocked '' a b
	three_ways 'nor to the next description of its number' \
		tellers relocked ofd c a
else
	skip 'what ended unseen' 'no unseen close(2) here'
fi
rig_configs ttl=6s connect_timeout=300ms path_more='on_lost = "report"'
three_ways 'what was lost is not granted once more' tellers stopped
rig_configs ttl=12s connect_timeout=300ms restart_delay=6s
until_true 20 redis_is_old 7
RUN=dl
ok 'a restarted server: the keeper puts back what an exec left to it' \
	tellers put_back
ok '... and what the next program has' tellers put_back_both
ok '... and a process both of its files of one name' tellers put_back_replaced
rig_empty 5
rig_end
