#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A guest in somebody else's process (L7): nothing of ours is seen where no
# managed path is locked; odd names lock; close loops break nothing.
. "${0%/*}/../../lib/rig.sh"

rig_start disks

# --- a program that touches no managed path -------------------------------
seen()
{
	local what all=''

	locker g "$1" A
	ask g "open a $RIG/unmanaged"
	ask g 'lock a EX'
	ask g 'lock a UN'
	for what in threads fds sockets; do
		ask g "$what"
		all="$all $what=$RESULT"
	done
	peer_end g
	echo "$all"
}

bare=$(seen on)
like "$bare" 'threads=1 fds=[0-9]+ sockets=[0-9]+' 'bare: figures'
is "$(seen dl)" "$bare" 'no thread, descriptor or socket more than bare'
rig_empty 1 'and no key'

# --- and one that does is rid of all when it has unlocked ------------------
locker g dl A
ask g 'open a f'
ask g 'lock a EX'
is "$RESULT" 0 'a managed file locks'
ask g 'lock a UN'
rig_empty 2 'unlocked: no key'
one_thread()
{
	ask g threads
	[ "$RESULT" = 1 ]
}
ok 'no lease, no thread' until_true 10 one_thread

# --- close loops ----------------------------------------------------------
ask g closeall
is "$RESULT" 0 'close(3 .. 1023)'
ask g 'open a f'
ask g 'lock a EX'
is "$RESULT" 0 'the next lock works'
locker h dl B
ask h 'open a f'
ask h 'lock a EX NB'
is "$RESULT" EAGAIN 'and excludes'
ask g closeall
is "$RESULT" 0 'close(3 .. 1023) while locked'
got_it()
{
	ask h 'lock a EX NB'
	[ "$RESULT" = 0 ]
}
ok 'the lock ended with its descriptor' until_true 15 got_it
ask h 'lock a UN'
is "$(on A stat -c %s f)" 0 'not a byte of ours is in the file'
peer_end g h

# --- odd names ------------------------------------------------------------
long=$(printf 'n%.0s' {1..200})
# name and its spelling for the locker
for name in 'a%0Ab' '%1B[31mred' '100%25' '%7Bkey%7D' 'two%20words%20' \
	    '%C3%A4%C3%B6%E2%82%AC' '%FFnot-utf8' '%25p' '*?[x]\y' \
	    "it's%22" "$long"; do
	RUN=dl
	excluded()
	{
		local status=0

		locker g "$RUN" A
		locker h "$RUN" B
		ask g "open a $name"
		ask h "open a $name"
		ask g 'lock a EX NB'
		[ "$RESULT" = 0 ] || status=1
		ask h 'lock a EX NB'
		[ "$RESULT" = EAGAIN ] || status=2
		ask g 'lock a UN'
		if [ "$status" = 0 ]; then
			ask h 'lock a EX'
			[ "$RESULT" = 0 ] || status=3
		fi
		peer_end g h
		return "$status"
	}
	three_ways "name $name" excluded
done
rig_end
