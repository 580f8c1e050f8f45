#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A file has two names, and each has a rule, with a server of its own.  What is held
# by the one stays where it was granted, whatever name it is asked for by: more of it,
# a conversion, and its release (DESIGN L2).  When all is unlocked, the name decides.
. "${0%/*}/../../lib/rig.sh"

# keys N: in that database, but what dlock remembers
keys()
{
	rr -n "$1" --scan | grep -vE "$PAST" | sort | tr '\n' ' '
}

no_keys()
{
	[ -z "$(keys 0)$(keys 1)" ]
}

lives()
{
	kill -0 "${PEER_PID[p]}" 2>/dev/null
}

rig_start disks
for host in A B; do
	rig_config "$host" ttl=6s path_more='key = "k:%r"'
	rig_also "$host" two "$MNT/two/" url="redis://127.0.0.1:$PORT/1" ttl=6s \
		path_more='key = "k:%r"'
	on "$host" mkdir two
done
locker p dl A
locker q dl B
for kind in POSIX OFD; do
	more=
	[ "$kind" = POSIX ] || more=' OFD'
	ask p "open a $MNT/$kind"
	ask p "range a F_WRLCK 0 10$more"
	is "$RESULT" 0 "$kind: locked by the one name"
	if [ "$kind" = POSIX ]; then
		on A ln "$kind" "two/$kind"
		ask p "open b $MNT/two/$kind"
	else
		on A mv "$kind" "two/$kind"
		ask p 'dup a b'
	fi
	before=$(keys 0)
	ask p "range b F_WRLCK 20 1$more"
	is "$RESULT" 0 "$kind: more of it by the other one"
	is "$(keys 0)/$(keys 1)" "$before/" "$kind: at the same server"
	ok "$kind: nobody is killed for that" throughout 7000 50 lives
	ask q "open a $MNT/$kind"
	ask q 'range a F_WRLCK 20 1'
	is "$RESULT" EAGAIN "$kind: another host is refused it, by the first name"
	ask q 'range a F_WRLCK 30 1'
	is "$RESULT" 0 "$kind: ... and granted what is free"
	ask q 'close a'
	ask p "range b F_UNLCK 0 0$more"
	ok "$kind: unlocked by the other name: free at both" until_true 5 no_keys
	ask p "range b F_WRLCK 20 1$more"
	is "$RESULT" 0 "$kind: locked anew by the other name"
	is "$(keys 0)" '' "$kind: nothing at the first server"
	unlike "$(keys 1)" '^$' "$kind: but at the other one"
	ask p 'close b'
	ask p 'close a'
	ok "$kind: closed: free at both" until_true 5 no_keys
done

ask p "open a $MNT/flock"
ask p 'lock a EX NB'
on A mv flock two/flock
ask p 'lock a SH NB'
is "$RESULT" 0 'flock: weakened when it has the other name'
is "$(keys 0)/$(keys 1)" 'k:flock /' 'flock: at the same server'
ask q "open a $MNT/flock"
ask q 'lock a EX NB'
is "$RESULT" EAGAIN 'flock: another host is refused it, by the first name'
ask p 'lock a UN'
ok 'flock: unlocked: free at both' until_true 5 no_keys
say p 'exit 0'
say q 'exit 0'
rig_end
