#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# The password for Redis stands once in the memory of a program that locks,
# and once in its keeper's, wherever it was configured: after the reading of
# the configuration, while it connects anew, waits, hands over and forks.  No
# core dump of either has it.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/memory.sh"

new_password

# (One that is about to begin has none yet, and one that is amidst a login has it in
# what it sends, too.)
once()
{
	until_true 5 stands_once "$1"
	is "$STANDS" 1 "$2"
	[ "$STANDS" = 1 ] || diag "$(cat "$RIG/where")"
}

stands_once()
{
	STANDS=$(stands "$1")
	[ "$STANDS" = 1 ]
}

# not_dumped PID NAME MARK: a core dump that has the mark has no password
not_dumped()
{
	local core=$RIG/core.$1

	gcore -o "$RIG/core" "$1" >"$RIG/gcore" 2>&1 ||
		diag "$(cat "$RIG/gcore")"
	at_least "$(stands_in "$core" "$3")" 1 "control: $2's dump has '$3'"
	is "$(stands_in "$core" "$password")" 0 "$2's dump has no password"
	rm -f "$core"
}

# A lock that a keeper carries, for the child shares it; and a wait.
row()
{
	local pid keeper inner child name=$1 key=dlock:$MNT/$2

	locker holder dl A
	ask holder "open a $2"
	ask holder 'lock a EX'
	is "$RESULT" 0 "$name: locked, with the password"
	pid=$(pids_of A -o -x locker)
	once "$pid" "$name: in the program once"
	ask holder fork
	inner=$RESULT
	child=$(pgrep -P "$pid")
	ok "$name: there is a keeper" until_true 5 has_keeper
	keeper=$(pids_of A -o -x dlock-keeper)
	once "$keeper" "$name: in the keeper once"
	once "$pid" '... in the program still'
	once "$child" '... in its child'
	rr client kill type normal skipme yes >/dev/null
	ask holder 'open b other'
	ask holder 'lock b EX'
	is "$RESULT" 0 "$name: connected anew"
	once "$pid" '... in the program once'
	not_dumped "$pid" "$name: the program" "$key"
	not_dumped "$keeper" "$name: the keeper" "$key"
	ask holder "reap $inner"
	peer_end holder
	until_true 5 host_is_idle
}

rig_start disks
is "$(rr acl setuser dlock on ">$password" '~*' '&*' '+@all')" OK 'a user'
# (A core dump stops its process: for less than the ttl.)
rig_config A url="redis://dlock:$password@127.0.0.1:$PORT/1" ttl=20s
cp "$RIG/A.conf" "$RIG/url.conf"
row 'in the url' one

umask 077
echo "$password" >"$RIG/pass"
rig_config A ttl=20s redis_more="username = \"dlock\"
	password_file = \"$RIG/pass\""
row 'in a file' two

# Of its own environment the program has a copy, which is not ours.
export DLOCK_TEST_PASSWORD=$password
# shellcheck disable=SC2016 # expanded by libconfuse
rig_config A url="redis://dlock:\${DLOCK_TEST_PASSWORD}@127.0.0.1:$PORT/1"
locker holder dl A
ask holder 'open a three'
ask holder 'lock a EX'
is "$RESULT" 0 'in the environment: locked'
is "$(stands "$(pids_of A -o -x locker)")" 2 'there, and once beside it'
peer_end holder
until_true 5 host_is_idle

# Who waits has a second connection, and the keeper of the holder is another's.
unset DLOCK_TEST_PASSWORD
cp "$RIG/url.conf" "$RIG/A.conf"
rig_config B url="redis://127.0.0.1:$PORT/1"
locker far dl B
ask far 'open a four'
ask far 'lock a EX'
locker waiter dl A
ask waiter 'open a four'
say waiter 'lock a EX'
queued()
{
	[ "$(rr -n 1 exists "{dlock:$MNT/four}%q")" = 1 ]
}
ok 'one waits' until_true 5 queued
once "$(pids_of A -o -x locker)" '... and has the password once'
ask far 'lock a UN'
hear waiter
is "$RESULT" 0 '... and is granted the lock'
peer_end far waiter
rig_empty 25
done_testing
