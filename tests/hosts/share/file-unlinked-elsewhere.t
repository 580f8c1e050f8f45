#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# On a share, another host unlinks a file that a program has open: fstat(2) and
# statfs(2) fail on its descriptor from there on, but its locks go on to work,
# in the kernel and so under dlock.
. "${0%/*}/../../lib/rig.sh"

# steps HOW FAMILY FIRST THEN...: what host A's program is answered; after its
# FIRST step host B unlinks the file.
steps()
{
	local how=$1 file=$1.$2 step n=0

	shift 2
	locker "$how" "$how" A
	ask "$how" "open a $file"
	ask "$how" "open b $file"
	for step; do
		ask "$how" "$step" || RESULT=silence
		echo "$step: $RESULT"
		[ $((n++)) != 0 ] || on B rm "$file"
	done
	ask "$how" 'pid'
	peer_end "$how"
}

# as_bare TITLE FAMILY STEP...
as_bare()
{
	local title=$1

	shift
	steps on "$@" >"$RIG/on"
	steps dl "$@" >"$RIG/dl"
	ok "$title: bare, every step succeeds (control)" \
		test -z "$(grep -v ': 0$' "$RIG/on")"
	if diff -u "$RIG/on" "$RIG/dl" >"$RIG/diff"; then
		pass "$title: the same under dlock"
	else
		fail "$title: the same under dlock"
		diag "$(cat "$RIG/diff" "$RIG/dl.err")"
	fi
	rig_empty 9 "$title: no key is left"
}

# Nobody can open the file any more, so what a program has at its exit ends by
# its ttl, where the kernel does not list the locks of those who have ended (in
# other pid namespaces than the first).
rig_start share
rig_configs ttl=6s
as_bare 'flock, unlock' flock.un 'lock a EX' 'lock a UN'
as_bare 'flock, relock' flock 'lock a EX' 'lock a UN' 'lock a EX NB' \
	'lock a SH NB' 'lock a UN' 'lock b SH' 'lock b EX NB' 'lock b UN'
as_bare 'fcntl, unlock' posix.un 'range a F_WRLCK 0 10' 'range a F_UNLCK 0 0'
as_bare 'fcntl, relock' posix 'range a F_WRLCK 0 10' 'range a F_RDLCK 2 2' \
	'range a F_UNLCK 0 0' 'range a F_WRLCK 0 0 WAIT' 'range b F_RDLCK 4 1' \
	'range b F_UNLCK 0 0'
as_bare 'OFD' ofd 'range a F_WRLCK 0 10 OFD' 'range a F_UNLCK 3 1 OFD' \
	'range a F_RDLCK 0 0 OFD' 'range b F_RDLCK 0 9 OFD' \
	'range a F_UNLCK 0 0 OFD' 'range b F_UNLCK 0 0 OFD'
as_bare 'lockf' lockf 'lockf a' 'lockf a' 'range a F_UNLCK 0 0'
as_bare 'close' close 'lock a EX' 'range b F_RDLCK 0 1' 'close a' 'lock b EX NB'

# What the keeper has of it ends with it as well, once a child has shared it.
as_bare_forked()
{
	local child

	locker forked "$1" A
	ask forked 'open a shared'
	ask forked 'lock a EX'
	ask forked 'fork'
	child=$RESULT
	on B rm shared
	ask forked 'lock a EX NB'
	is "$RESULT" 0 "$1: shared with a child: relock"
	ask forked 'lock a UN'
	is "$RESULT" 0 "$1: shared with a child: unlock"
	rig_empty 2 "$1: shared with a child: no key is left after the unlock"
	ask forked "reap $child"
	ask forked 'open b shared'
	ask forked 'lock b EX'
	is "$RESULT" 0 "$1: a new file of the name"
	on B rm shared
	peer_end forked
	rig_empty 9 "$1: it ends: no key is left"
}

as_bare_forked on
as_bare_forked dl
rig_end
