#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# While a call asks Redis, with the kernel's lock in hand, another thread may
# close its descriptor and use the number for another file.  Redis refuses:
# what is undone then is not the lock of that file.
. "${0%/*}/../../lib/rig.sh"

# asks KIND: its file is held on B, and Redis thinks about it; who is too late for
# that, on a busy machine, tries again
asks()
{
	local i

	for ((i = 0; i < 10; i++)); do
		rr client pause 900 ALL >/dev/null
		GOT=$(dl A timeout 20 "$BIN/reused_while_asking" "$1" "$MNT/$1" "$RIG/other" \
			2>"$RIG/said")
		[ "$GOT" = missed ] || return 0
	done
	return 1
}

rig_start disks
for kind in flock posix ofd; do
	bare=$(on A "$BIN/reused_while_asking" "$kind" "$MNT/free" "$RIG/other")
	# (Of POSIX locks the kernel looks again, and may say EBADF: fcntl_setlk().)
	[ "$kind$bare" = 'posixEBADF 0 1' ] || is "${bare%% *}" 0 "$kind: bare, locked"
	is "${bare#* }" '0 1' "$kind: bare, the second file stays locked (control)"
	locker h dl B
	ask h "open f $kind"
	if [ "$kind" = flock ]; then
		ask h 'lock f EX'
	else
		ask h 'range f F_WRLCK 0 10'
	fi
	is "$RESULT" 0 "$kind: another host has it"
	ok "$kind: the number is reused while Redis is asked" asks "$kind"
	note "$kind: $GOT; $(cat "$RIG/said")"
	like "$GOT" '^E[A-Z]* ' "$kind: the call fails"
	is "${GOT#* }" '0 1' "$kind: and the second file stays locked"
	peer_end h
done
rig_end
