#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A signal ends a wait though it comes amid a question to Redis.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/players.sh"

TIMES=${WAITS_TIMES:-20}

# A handler without SA_RESTART: EINTR, whatever the wait is doing when it comes.
# Most of the time it asks: each answer of Redis takes a while.
interrupted()
{
	local i late=0 longest=0 ms

	want p "range f F_WRLCK 0 1 $1" 0 || return 1
	for ((i = 0; i < TIMES; i++)); do
		want q "alarm $((60 + i * 3))" 0 || return 1
		say q "range f F_WRLCK 0 1 WAIT $1"
		if ! hear q 3; then
			late=$((late + 1))
			give_and_hear "$1"
		elif [ "$RESULT" != EINTR ]; then
			note "$RUN: q gets $RESULT"
			return 1
		fi
		ms=$(((END - START) / 1000000))
		[ "$ms" -le "$longest" ] || longest=$ms
	done
	note "$RUN, ${1:-POSIX}: $late of $TIMES signals lost;" \
		"the longest wait $longest ms"
	[ "$late" = 0 ]
}

interrupted_posix()
{
	interrupted ''
}

interrupted_ofd()
{
	interrupted OFD
}

# The waiter would wait for ever: let it have the lock, and begin again.
give_and_hear()
{
	want p "range f F_UNLCK 0 1 $1" 0
	hear q
	want q "range f F_UNLCK 0 1 $1" 0
	want p "range f F_WRLCK 0 1 $1" 0
}

rig_start disks
proxy slow
say slow 'delay 20'
hear slow
rig_configs url="redis://127.0.0.1:$PROXY/0" connect_timeout=800ms
RUN=on
ok 'one host, bare: no signal is lost' scene interrupted_posix p@A q@A
RUN=dl
ok 'no signal is lost' scene interrupted_posix p@A q@B
ok 'no signal is lost: OFD' scene interrupted_ofd p@A q@B
rig_end
