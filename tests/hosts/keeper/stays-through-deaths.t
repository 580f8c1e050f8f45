#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A process whose next child would be the first of a pid namespace can start no
# keeper any more: the one that it has stays without a lease, and so does each
# that takes over from one that was killed.
. "${0%/*}/../../lib/rig.sh"

# does COMMAND WANT
does()
{
	ask p "$1"
	is "$RESULT" "$2" "$1"
}

killed()
{
	KEEPER=$(pids_of A -x dlock-keeper)
	kill -KILL "$KEEPER"
	ok "the $1 one is killed: there is another" until_true 5 has_another
}

rig_start disks
: >"$RIG/log"
peer p dl A env DLOCK_LOG="debug:$RIG/log" "$BIN/privileges" obey f
does lock 0
ok 'its lease is carried on' until_true 5 are_carried 1
# What it is asked now its standby hears, and was not born with.
ok 'by a keeper with a standby' until_true 5 have_standbys A 1
does 'call unshare newpid' 0
killed first
ok '... with a standby' until_true 5 have_standbys A 1
does unlock 0
killed second
# One that does not stay leaves when it has had nothing to do for a second.
sleep 1.5
ok 'which stays' has_another
ok '... and has a standby, without a lease' until_true 5 have_standbys A 1
killed third
sleep 1.5
ok 'which stays, too' has_another
does lock 0
ok 'it carries the next lease' until_true 5 are_carried 2
does unlock 0
peer_end p
rig_end
