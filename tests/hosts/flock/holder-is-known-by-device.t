#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Who is in the way of a LOCK_NB is looked for by device and inode: a holder of
# another file system's file of the same inode number is somebody else.
#
# A holder that the kernel does not name (he is in another pid namespace) may
# be one who only asks, and is tried again for 10 ms; one whose end a keeper
# waits for holds, and is not.  So the refusal's time tells who was seen.
. "${0%/*}/../../lib/rig.sh"

# took_ms: of one refused attempt
took_ms()
{
	ask locker 'lock a EX NB' || return 1
	[ "$RESULT" = EAGAIN ] || diag "not refused: $RESULT"
	echo $(((END - START) / 1000000))
}

is_guarded()
{
	on A grep -q -- "-> FLOCK.*:$1 " /proc/locks
}

# guarded FILE INODE: a lock that a keeper, by its name, waits for
guarded()
{
	on A flock "$1" sh -c "echo >$RIG/cp/holds; exec sleep 600" \
		2>/dev/null &
	disown $!
	cp_wait holds || rig_die 'no guarded holder'
	on A "$RIG/dlock-keeper" "$1" true 2>/dev/null &
	disown $!
	until_true 5 is_guarded "$2" || rig_die 'no keeper waits'
}

rig_start disks
cp "$(command -v flock)" "$RIG/dlock-keeper"
on A mkdir "$RIG/other"
on A mount -t tmpfs other "$RIG/other"
on A touch f "$RIG/other/f"
inode=$(on A stat -c %i f)
is "$(on A stat -c %i "$RIG/other/f")" "$inode" 'two files of one number'

cp_new holds
# shellcheck disable=SC2016 # expanded there
nsenter -t "${INIT[A]}" -m -- sh -c \
	'exec 9>"$0/f"; flock 9; echo >"$1"; exec sleep 600' \
	"$MNT" "$RIG/cp/holds" &
holder=$!
disown "$holder"
cp_wait holds || rig_die 'no holder'
locker locker dl A
ask locker 'open a f'
ok 'a holder that nobody names is tried again' test "$(took_ms)" -ge 10

guarded "$RIG/other/f" "$inode"
ok 'and so he is beside a guarded lock of the same inode number elsewhere' \
	test "$(took_ms)" -ge 10

# The control: a guarded one is not tried again, so the time does tell.
on A touch g
guarded g "$(on A stat -c %i g)"
ask locker 'open a g'
is_refused_at_once()
{
	[ "$(took_ms)" -lt 10 ]
}
ok 'a guarded one is refused at once (control)' until_true 5 is_refused_at_once
kill "$holder"
on A pkill -x sleep # (who holds has the locker's input, too)
peer_end locker
rig_end
