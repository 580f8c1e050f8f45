#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# An unlock is sent before it returns, also while the connection is in use: our
# thread renews another lease by it, and has no answer yet.  So who is told of
# the unlock, and asks at another host, is granted at once.
. "${0%/*}/../../lib/rig.sh"

# until_renewed KEY: the server has done a renewal of it.
until_renewed()
{
	local before now

	before=$(rr pttl "$1")
	now=$before
	while [ "$now" -le "$before" ]; do
		[ "$now" -gt 0 ] || return 1
		before=$now
		sleep 0.05
		now=$(rr pttl "$1")
	done
}

# beside NAME LOCK UNLOCK TRY: in the words of tests/programs/locker.c
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
	ask p drop
	ok "$name: the renewal of the first one has no answer" \
		until_renewed "$(rr --scan --pattern '*kept*')"
	ask a "$3"
	is "$RESULT" 0 "$name: the other one is given back"
	ask b "$4"
	is "$RESULT" 0 "$name: ... and had at once"
	ask p pass
	peer_end a b
}

rig_start disks
proxy p
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=12s connect_timeout=2s
beside flock 'lock y EX NB' 'lock y UN' 'lock y EX NB'
beside weaker 'lock y EX NB' 'lock y SH NB' 'lock y SH NB'
beside record 'record y F_WRLCK' 'record y F_UNLCK' 'record y F_WRLCK'
beside part 'range y F_WRLCK 0 10' 'range y F_UNLCK 3 4' 'range y F_WRLCK 3 4'
rig_end
