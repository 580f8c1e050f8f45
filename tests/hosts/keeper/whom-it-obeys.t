#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Whom the keeper obeys (DESIGN L4): its own user, at each message; not the
# program that has given up what its keeper still may.  And when the program
# does so by libc, the keeper carries on what it has and takes nothing new.  What was
# given up before it begins, and execve(2) gives back to root, it does without.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=6s
: >"$RIG/log"
chmod 666 "$RIG/log"
chmod 755 "$RIG" "$MNT"
on A chmod 755 .
on A sh -c 'echo secret >unreadable; chmod 600 unreadable'

# A keeper has the unreadable file open.
has_open()
{
	local pid

	for pid in $(keepers A); do
		[ -z "$(on A find "/proc/$pid/fd" -lname "$MNT/unreadable")" ] ||
			return 0
	done
	return 1
}

has_not_open()
{
	! has_open
}

# forge NAME UID...
forge()
{
	local name=$1

	shift
	peer "$name" dl A env DLOCK_LOG="debug:$RIG/log" \
		"$BIN/keeper_forged" "$name" unreadable "$@"
	hear "$name"
	[ "$RESULT" != silence ] || diag "$name: $(cat "$RIG/$name.err")"
}

# --- messages that the shim has not made -------------------------------------

forge root
is "$RESULT" 0 'root to its own keeper: obeyed (control)'
ok 'it has the file open (control)' until_true 2 has_open
peer_end root
ok 'they end' until_true 5 no_keeper A

forge nobody 65534
is "$RESULT" disobeyed 'nobody, who was root, to root'\''s: refused'
ok 'it has not opened the file' has_not_open
like "$(cat "$RIG/log")" 'a message is refused: process [0-9]+ \(user 65534' \
	'and says who it was'
token=$(rr get "dlock:$MNT/nobody")
like "$token" '^dlock1 ' 'the lease that it had'
sleep 7
is "$(rr get "dlock:$MNT/nobody")" "$token" 'is carried on for longer than its ttl'
peer_end nobody
ok 'until its lock ends' until_true 5 no_keeper A

forge path 65534 path
is "$RESULT" disobeyed 'nobody, with a descriptor that gives no access: refused'
peer_end path
ok 'they end' until_true 5 no_keeper A
forge rootpath 0 path
is "$RESULT" EBADF 'nor does root get anywhere with such a one'
peer_end rootpath
ok 'they end' until_true 5 no_keeper A

# --- privileges are given up, and the shim lets go ----------------------------

guest()
{
	peer "$1" dl A env DLOCK_LOG="debug:$RIG/log" \
		/usr/bin/python3 "$TOP/tests/programs/obey.py"
}

uid_of()
{
	on A stat -c %u "/proc/$1"
}

: >"$RIG/log"
on A chmod 777 .
guest a
ask a 'lock("f")'
ok 'a keeper carries the first lock' until_true 5 are_carried 1
old=$(keepers A)
is "$(uid_of "$old")" 0 'as root'
ask a 'os.setresuid(0, 65534, 0)'
ask a 'lock("e")'
ok 'for a while nobody: the same keeper' until_true 5 are_carried 2
is "$(keepers A)" "$old" 'which is the only one'
ask a 'os.setresuid(0, 0, 0)'
ask a 'os.setgroups([])'
ask a 'os.setresgid(65534, 65534, 65534)'
ask a 'os.setresuid(65534, 65534, 65534)'
ask a 'lock("g")'
like "$RESULT" '^[0-9]+$' 'for good: a lock is had'
ok 'another keeper has it' until_true 5 are_carried 3
new=$(keepers A | grep -vx "$old")
is "$(uid_of "$new")" 65534 'as nobody'
f=$(rr get "dlock:$MNT/f")
g=$(rr get "dlock:$MNT/g")
ask a 'child()'
child=$RESULT
ask a 'os.getpid()'
on A kill -KILL "$RESULT"
sleep 7
is "$(rr get "dlock:$MNT/f")" "$f" 'the process is gone: the old one carries on what it had'
is "$(rr get "dlock:$MNT/g")" "$g" 'and the new one what it has'
on A kill -KILL "$child"
rig_empty 3 'both see the end'
ok 'and end' until_true 5 no_keeper A
unlike "$(cat "$RIG/log")" 'LOST|refused' 'nothing was lost, nothing refused'

peer less dl A env DLOCK_LOG="debug:$RIG/log" "$BIN/privileges" obey less
ask less 'call drop 7'
: >"$RIG/log"
ask less lock
ok 'root without CAP_SETUID: a keeper has its lease' until_true 10 are_carried 1
like "$(on A grep CapEff "/proc/$(keepers A)/status")" '[0-7][0-9a-f]$' \
	'... and has no CAP_SETUID either'
unlike "$(cat "$RIG/log")" 'is started by' '... the first one that was started'
peer_end less
ok 'they end' until_true 5 no_keeper A
rig_end
