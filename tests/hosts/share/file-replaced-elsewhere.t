#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# On a share whose server knows files by their paths (bindfs), a file that
# another host replaces becomes the new one under its holder's descriptor: the
# inode's number changes, the kernel's file and its lock do not.  The lease goes
# on to live as long as the lock, and the unlock ends both.
. "${0%/*}/../../lib/rig.sh"

# held_through FAMILY LOCK UNLOCK B-LOCK
held_through()
{
	local before renewed

	on A sh -c 'echo 1 >f'
	locker a dl A
	locker b dl B
	ask a 'open a f'
	ask a "$2"
	is "$RESULT" 0 "$1: A has it"
	before=$(on A stat -c %i f)
	on B sh -c 'echo 2 >new && mv new f'
	ok "$1: the number changes under A (control)" \
		test "$before" != "$(on A stat -c %i f)"
	# Two renewals at least: each looks whether the lock is there.
	renewed=$(rr pttl "$KEY$5")
	sleep 5
	ok "$1: the lease is there" test "$(rr pttl "$KEY$5")" -gt 0 ||
		diag "$renewed, $(rr keys '*')"
	ask b 'open a f'
	ask b "$4"
	is "$RESULT" EAGAIN "$1: B is refused"
	ask a "$3"
	is "$RESULT" 0 "$1: the unlock"
	rig_empty 2 "$1: no key is left"
	ask b "$4"
	is "$RESULT" 0 "$1: B has it"
	ask b "$3"
	peer_end a b
	rig_empty 2
}

rig_start share
rig_configs ttl=6s
KEY=dlock:$MNT/f
held_through flock 'lock a EX' 'lock a UN' 'lock a EX NB' ''
held_through fcntl 'range a F_WRLCK 0 10' 'range a F_UNLCK 0 0' \
	'range a F_RDLCK 5 1' %rec
held_through OFD 'range a F_WRLCK 0 10 OFD' 'range a F_UNLCK 0 0 OFD' \
	'range a F_RDLCK 5 1 OFD' %rec
rig_end
