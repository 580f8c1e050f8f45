#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# An unlock is sent before it returns, also while the connection is in use: our
# thread renews another lease by it, and has no answer yet.  So who waits at
# another host is granted before that has been waited for in vain.
. "${0%/*}/../../lib/rig.sh"

# As long as an answer is waited for.
ANSWER_MS=3000

# until_renewed KEY: the server has done a renewal of it; then it is $RENEWED.
until_renewed()
{
	local before left

	left=$(rr pttl "$1")
	before=$left
	while [ "$left" -le "$before" ]; do
		[ "$left" -gt 0 ] || return 1
		before=$left
		RENEWED=$(now)
		sleep 0.05
		left=$(rr pttl "$1")
	done
}

# beside NAME LOCK UNLOCK TRY WAIT: in the words of tests/programs/locker.c
beside()
{
	local name=$1

	locker a dl A
	locker b dl B
	ask a 'open x kept'
	ask a 'open y given'
	ask b 'open y given'
	ask a 'lock x EX NB'
	is "$RESULT" 0 "$name: one is kept"
	ask a "$2"
	is "$RESULT" 0 "$name: the other one is had"
	ask b "$4"
	is "$RESULT" EAGAIN "$name: so nobody else gets it (control)"
	say b "$5"
	ask p drop
	ok "$name: the renewal of the first one has no answer" \
		until_renewed "$(rr --scan --pattern '*kept*')"
	ask a "$3"
	is "$RESULT" 0 "$name: the other one is given back"
	hear b
	is "$RESULT" 0 "$name: ... and had by who waits"
	in_time $(((END - RENEWED) / 1000000)) $((ANSWER_MS - 1)) \
		"$name: while that answer is waited for yet"
	ask p pass
	peer_end a b
}

rig_start disks
proxy p
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=18s \
	connect_timeout="${ANSWER_MS}ms"
beside flock 'lock y EX NB' 'lock y UN' 'lock y EX NB' 'lock y EX'
beside weaker 'lock y EX NB' 'lock y SH NB' 'lock y SH NB' 'lock y SH'
beside record 'record y F_WRLCK' 'record y F_UNLCK' 'record y F_WRLCK' \
	'range y F_WRLCK 0 0 WAIT'
beside part 'range y F_WRLCK 0 10' 'range y F_UNLCK 3 4' 'range y F_WRLCK 3 4' \
	'range y F_WRLCK 3 4 WAIT'
rig_end
