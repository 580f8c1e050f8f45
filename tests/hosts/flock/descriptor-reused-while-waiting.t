#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A call that waits, and whose descriptor another thread closes and uses for
# another file, never goes on with that file.  The kernel waits on for the old
# description, which ends with the call: so what it returns holds nothing.
# EBADF says that, as fcntl(F_SETLKW) does.  If another descriptor of the
# description is left, its lock is granted.
. "${0%/*}/../../lib/rig.sh"

# scene KIND HOW: h holds f; then it is w's number that is reused
scene()
{
	local try='range f F_WRLCK 0 10 OFD'

	[ "$1" != flock ] || try='lock f EX NB'
	locker h "$RUN" A
	ask h 'open f f'
	ask h 'open g g'
	ask h "$try"
	if [ "$2" = crowd ]; then
		ask h 'open c crowd'
		ask h 'lock c EX NB'
	fi
	peer w "$RUN" "$HOST" "$BIN/reused_while_waiting" "$1" "$2" f g
	hear w
	until_true 5 is_waiting "$1" "$START" || return 1
	ask w go
	[ "$RESULT" = "done" ] || return 1
	hear w 0.15
	EARLY=$RESULT
	if [ "$1" = flock ]; then
		ask h 'lock f UN'
	else
		ask h 'range f F_UNLCK 0 10 OFD'
	fi
	GOT=$EARLY
	if [ "$EARLY" = silence ]; then
		hear w 5
		GOT=$RESULT
	fi
	ask h "$try"
	OLD=$RESULT
	ask h "${try/ f / g }"
	NEW=$RESULT
	note "$RUN, $1, $2: $GOT ($EARLY early); f: $OLD, g: $NEW"
	peer_end w h
	until_true 6 db_is_empty
}

# is_waiting KIND TID: in the queue; or in the kernel, where a keeper may wait as
# well: by flock(fd, LOCK_EX), or fcntl(2) with F_SETLKW or F_OFD_SETLKW.
is_waiting()
{
	local key="{dlock:$MNT/f}%q"

	[ "$1" = flock ] || key="{dlock:$MNT/f%rec}%q"
	if [ "$HOST" = B ]; then
		[ "$(rr exists "$key")" = 1 ]
	else
		on A grep -qE '^(73 0x[0-9a-f]+ 0x2|72 0x[0-9a-f]+ 0x(7|26)) ' \
			"/proc/$2/syscall"
	fi
}

rig_start disks
for kind in flock posix ofd; do
	RUN=on HOST=A
	ok "$kind, open: bare, it waits on" scene "$kind" open
	is "$OLD $NEW" '0 0' '... and nothing is locked then'
	RUN=dl
	for how in open@A open@B dup2@B again@A again@B; do
		HOST=${how#*@}
		ok "$kind, ${how%@*}: f is held on A, w is on $HOST" \
			scene "$kind" "${how%@*}"
		is "$GOT, $OLD $NEW" 'EBADF, 0 0' \
			'... EBADF, and nothing is locked'
	done
done
for RUN in on dl; do
	WANT='0, 0 0' HOST=A
	[ "$RUN" = on ] || WANT='EBADF, 0 0'
	ok "flock, $RUN, beside many that wait" scene flock crowd
	is "$GOT, $OLD $NEW" "$WANT" '... nothing is locked'
done
for kind in flock ofd; do
	for RUN in on dl; do
		for HOST in A B; do
			[ "$RUN$HOST" != onB ] || continue
			for how in dup began received; do
				ok "$kind, $RUN on $HOST: one is left ($how)" \
					scene "$kind" "$how"
				is "$GOT, $OLD $NEW" '0, EAGAIN 0' \
					'... it has the old lock, not the new one'
			done
		done
	done
done
for kind in flock posix ofd; do
	RUN=dl HOST=B
	ok "$kind: nobody touches it (control)" scene "$kind" keep
	is "$GOT, $OLD $NEW" '0, EAGAIN 0' '... it has the lock'
	for RUN in on dl; do
		HOST=A
		ok "$kind, $RUN: who would close it is cancelled before" \
			scene "$kind" cancelled
		is "$GOT, $OLD $NEW" '0, EAGAIN 0' '... it has the lock'
	done
done
rig_end
