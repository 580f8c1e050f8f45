#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A child that runs in its parent's memory (vfork(2), clone(2) with CLONE_VM)
# cannot ask Redis: no lock call of it succeeds on a managed file; its unlock
# is the kernel's, and ends the lease.
. "${0%/*}/../../lib/rig.sh"

CALLS='flock-ex flock-sh flock-wait syscall-flock posix posix-read posix-wait
	ofd ofd-wait syscall-fcntl lockf lockf-try lockf-test getlk ofd-getlk'

# got on|dl HOW CALL FILE: what the child gets on host A
got()
{
	"$1" A "$BIN/vfork_locker" "$2" "$3" "$4" </dev/null 2>>"$RIG/err"
}

# all_get WANT RUN HOW FILE: each of the calls
all_get()
{
	local call bad=0 result

	for call in $CALLS; do
		result=$(got "$2" "$3" "$call" "$4")
		[[ $result == @($1) ]] && continue
		note "$3: $call gets $result"
		bad=$((bad + 1))
	done
	[ "$bad" = 0 ]
}

# Somebody on the other host holds all of it.
holds_all()
{
	ask b 'open f f' && ask b 'lock f EX' && [ "$RESULT" = 0 ] &&
		ask b 'range f F_WRLCK 0 100' && [ "$RESULT" = 0 ]
}

# then_try HELD WANT: B tries until it is granted, or a while in vain.
then_try()
{
	local i try='range f F_WRLCK 0 10 OFD'

	[ "$1" != flock ] || try='lock f EX NB'
	if [ "$2" = 0 ]; then
		until_true 3 is_granted "$try"
		return
	fi
	for ((i = 0; i < 15; i++)); do
		! is_granted "$try" || break
		sleep 0.02
	done
}

is_granted()
{
	ask b "$1"
	[ "$RESULT" = 0 ]
}

# scene RUN HOST HOW HELD CALL CHILD THEN: what the child gets, and then B
scene()
{
	local child status=0

	locker b "$1" "$2"
	ask b 'open f f'
	peer a "$1" A "$BIN/vfork_locker" "$3" "$5" f "$4"
	hear a
	child=$RESULT
	then_try "$4" "$7"
	note "$1, $3: $5 of $4: the child gets $child, then the other $RESULT"
	[ "$child" = "$6" ] && [ "$RESULT" = "$7" ] || status=1
	peer_end a b
	return "$status"
}

# child_of HOW HELD CALL BARE DLOCK THEN
child_of()
{
	scene on A "$1" "$2" "$3" "$4" "$6" || return 1
	scene dl B "$1" "$2" "$3" "$5" "$6" || return 1
	until_true 6 db_is_empty
}

rig_start disks
locker b dl B
ok 'another host holds it' holds_all
for how in vfork shared; do
	ok "$how, bare: all calls succeed (control)" \
		all_get '0|free' on "$how" f
	: >"$RIG/err"
	ok "$how: each lock call fails with ENOLCK" all_get ENOLCK dl "$how" f
	like "$(cat "$RIG/err")" \
		"flock \"$MNT/f\": fails with ENOLCK: a child of vfork" \
		'... and says why'
	ok "$how: a file that no rule manages is locked" \
		all_get '0|free' dl "$how" "$RIG/unmanaged"
done
ok 'a child of fork: as whoever asks (control)' \
	[ "$(got dl fork flock-ex f)$(got dl fork posix f)" = EAGAINEAGAIN ]
peer_end b
ok 'the other host holds nothing now' until_true 5 db_is_empty
for how in vfork shared; do
	ok "$how: a conversion is refused, and the lock stays" \
		child_of "$how" flock flock-sh 0 ENOLCK EAGAIN
	ok "$how: an unlock of the description's flock lock ends it" \
		child_of "$how" flock flock-un 0 0 0
	ok "$how: ... and of its OFD lock" child_of "$how" ofd ofd-un 0 0 0
	ok "$how: an unlock of a POSIX lock ends nothing of the parent's" \
		child_of "$how" posix posix-un 0 0 EAGAIN
	ok "$how: nor does a close in the child" \
		child_of "$how" flock close 0 0 EAGAIN
done
rig_end
