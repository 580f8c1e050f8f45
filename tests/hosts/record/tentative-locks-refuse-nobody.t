#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A process asks again and again for bytes 0-99, and is refused byte 50, which
# another host has.  A neighbour asks for bytes 0-9, which are nobody's: without
# a wait it gets them each time, however often it meets the moment in which the
# other has them in the kernel to ask for them at Redis.
#
# The kernel alone (the holder is on the same host): no false refusal.  Under
# the null shim the asker is not refused.
. "${0%/*}/../../lib/rig.sh"

N=${ASKERS_TRIES:-1500}

# try HOST HOW START LEN: $refused, $p50, $p99 (us)
try()
{
	read -r refused p50 p99 <<<"$("$RUN" "$1" timeout 300 "$BIN/tentative_locks" \
		try "$MNT/f" "$3" "$4" "$2" "$N")"
	note "$RUN: $2: $refused of $N refused, p50 $p50 us, p99 $p99 us"
}

# with_asker HOLDERS_HOST COMMAND...
with_asker()
{
	local holder=$1 status=0

	shift
	peer h "$RUN" "$holder" "$BIN/tentative_locks" hold "$MNT/f" 50 1
	hear h && [ "$RESULT" = ready ] || return 1
	peer p "$RUN" A "$BIN/tentative_locks" ask "$MNT/f" 0 100
	hear p && [ "$RESULT" = ready ] || return 1
	"$@" || status=1
	say p end && hear p && note "$RUN: the asker: $HEARD"
	[ "$RESULT" = 0 ] || status=1
	say h end
	peer_end h p
	return "$status"
}

# An asker that has no core for 300 ms while it has the kernel's lock is not waited out
# (DLK_SLOW_TENTATIVE_MS): who met that once or twice tries all of it again, twice at
# most.  (More are false at once, and so are those that come each time.)
none_is_false()
{
	local how bad=0 again

	for how in posix ofd lockf get; do
		for again in 1 2 3; do
			try A "$how" 0 10
			[[ $RUN$refused == dl[12] ]] || break
			note "$how, try $again: once more, perhaps"
		done
		[ "$refused" = 0 ] || bad=1
	done
	return "$bad"
}

all_are_refused()
{
	local how bad=0

	for how in posix ofd lockf get; do
		try A "$how" 49 2
		[ "$refused" = "$N" ] || bad=1
	done
	return "$bad"
}

# A holder of this host is refused by at once: what does it cost to see?
holder_of_this_host()
{
	peer h "$RUN" A "$BIN/tentative_locks" hold "$MNT/f" 0 10
	hear h && all_tenth
	say h end
	peer_end h
	[ "$refused" = "$N" ]
}

all_tenth()
{
	try A posix 9 1
}

rig_start disks
RUN=on
ok 'the kernel alone: nobody is refused what is free' \
	with_asker A none_is_false
three_ways 'beside one that is refused: all is granted that is free' \
	with_asker B none_is_false
ok 'and what is not free is refused' with_asker B all_are_refused
ok 'a holder of this host refuses' holder_of_this_host
in_time_us "$p50" 1000 'and soon (us)'
rig_end
