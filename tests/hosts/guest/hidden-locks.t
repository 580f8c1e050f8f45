#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Programs leave no way to look at their lock (hidden_locks.c): no number is free
# for it, no /proc is there, their descriptors are in a table of their own.  While
# the kernel lock lives so does its lease, unchanged, and the other host is
# refused; then it is gone, by its ttl at the latest (L4, L5, L7).
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/held.sh"

TTL=6				# s

rig_start disks
rig_configs ttl=${TTL}s
mkdir "$RIG/empty"

begins emfile full "$BIN/hidden_locks" emfile emfile
held emfile
begins chroot inside "$BIN/hidden_locks" chroot chroot "$RIG/empty"
held chroot
held_for $((3 * TTL * 1000))
# Nobody could be asked when this lock ends; the other one has a keeper from before.
ends emfile emfile $((TTL * 1000 + 300))
ends chroot chroot 1000
rig_empty 5

# --- a first lock where nothing can be looked at ----------------------------

begins late ENOLCK "$BIN/hidden_locks" late late "$RIG/empty"
ok 'late: no lease' lease_is_gone late
ok 'late: no kernel lock' on A flock -n late true
ok 'late: free for the other host' dl B flock -n late true
say late go

# --- no descriptor is left --------------------------------------------------

peer full dl A "$BIN/hidden_locks" full full
hear full
is "$HEARD" closed 'no descriptor is left, one of the two is closed'
on B touch "$MNT/full"
ok 'bare, the other host is granted it (control)' on B flock -n full true
is "$(dl B flock -n full echo got)" '' 'dlock: refused, for the lock is there'
ask full go
is "$HEARD" unlocked 'unlocked by the other one'
ok 'and the other host gets it, by the next renewal' \
	until_true 5 dl B flock -n full true
say full go
rig_empty

# --- record locks that cannot be listed -------------------------------------

# What is not read, for want of a descriptor, of memory, of leave, is not gone.
are_kept()
{
	[ "$(scripts_called)" -ge $((calls + 4)) ]
}

# unlisted COMMAND WORD BYTE WHAT
unlisted()
{
	peer "$1" dl A "$BIN/hidden_locks" "$1" "$1"
	hear "$1"
	until_true 5 has_keeper || rig_die "$1: no keeper"
	ask "$1" go
	is "$HEARD" "$2" "records: $4"
	calls=$(scripts_called)
	until_true 15 are_kept
	ask b "open f $1"
	ask b "range f F_WRLCK $3 1"
	is "$RESULT" EAGAIN '... and they are renewed'
	is "$(on A "$BIN/hidden_locks" try "$1" "$3")" EAGAIN '... and locked'
	say "$1" go
	peer_end "$1"
	ask b "range f F_WRLCK $3 1 WAIT"
	is "$RESULT" 0 '... until it ends'
	ask b 'close f'
}

has_keeper()
{
	[ -n "$(keepers A)" ]
}

locker b dl B
unlisted one one 0 'one descriptor is left, and two are needed to read them'
unlisted memory none 398 'no memory is left for the list of 200'
unlisted sealed sealed 0 'its list of descriptors is refused amidst'
unlisted exec ENOLCK 0 'it locks more, and cannot read what it had before an exec'
like "$(cat "$RIG/exec.err")" 'left cannot be read: .*ENOLCK' '... a line'

# Who may never read them (Landlock, AppArmor) locks nevertheless.
peer denied dl A strace -f -qq -o "$RIG/strace" -P /proc/thread-self/fd \
	-e trace=openat -e inject=openat:error=EACCES "$BIN/locker"
ask denied 'open f denied'
ask denied 'range f F_WRLCK 0 1'
is "$RESULT" 0 'records: who may not read his descriptors is granted a lock'
like "$(cat "$RIG/strace")" 'thread-self/fd".*EACCES .*INJECTED' '... (control)'
ask b 'open f denied'
ask b 'range f F_WRLCK 0 1'
is "$RESULT" EAGAIN '... which keeps the other host out'
ask denied 'range f F_UNLCK 0 1'
ask b 'range f F_WRLCK 0 1'
is "$RESULT" 0 '... until it is unlocked'

# So does who may not read what he has by flock, which is known by its number.
unread=()
for fd in {3..40}; do
	unread+=(-P "/proc/thread-self/fdinfo/$fd")
done
peer unread dl A strace -qq -o "$RIG/strace" "${unread[@]}" \
	-e trace=openat -e inject=openat:error=EACCES "$BIN/locker"
ask unread 'open f unread'
ask b 'open g unread'
ask unread 'lock f EX NB'
is "$RESULT" 0 'flock: who may not read what he has is granted a lock'
ask unread 'lock f EX NB'
is "$RESULT" 0 '... and once more'
like "$(cat "$RIG/strace")" 'fdinfo/.*EACCES .*INJECTED' '... (control)'
is "$(on A flock -n unread echo got)" '' '... which is in the kernel'
ask b 'lock g EX NB'
is "$RESULT" EAGAIN '... and keeps the other host out'
ask unread 'lock f SH NB'
is "$RESULT" 0 '... weakened'
ask b 'lock g SH NB'
is "$RESULT" 0 '... it lets the other host read'
ask b 'lock g UN'
ask unread 'lock f EX NB'
is "$RESULT" 0 "... made a writer's"
ask unread 'lock f UN'
ask b 'lock g EX NB'
is "$RESULT" 0 '... and unlocked, it is free'
peer_end denied unread b
rig_empty $((TTL + 3))

# --- a thread has a table of its own ------------------------------------------

peer threads dl A "$BIN/hidden_locks" threads threads
hear threads
is "$HEARD" closed 'a thread closes by CLOSE_RANGE_UNSHARE what others have'
is "$(on A flock -n threads echo got)" '' '... which stays locked (control)'
locker b dl B
ask b 'open f threads'
ask b 'lock f EX NB'
is "$RESULT" EAGAIN '... and its lease as well'
ask b 'range f F_WRLCK 0 1'
is "$RESULT" EAGAIN '... of record locks, too'
ask threads go
is "$HEARD" unlocked '... until the others unlock'
ask b 'lock f EX' 10
is "$RESULT" 0 'then the other host gets it'
ask b 'range f F_WRLCK 0 1 WAIT' 10
is "$RESULT" 0 '... and the records'
say threads go
peer_end threads b
rig_empty $((TTL + 3))

# --- as bare ----------------------------------------------------------------

on A mkdir "$MNT/root"
for run in on dl; do
	is "$($run A "$BIN/hidden_locks" leaves leaves "$MNT/root" 2>"$RIG/err")" \
		'goes on' "$run: no /proc, and a thread leaves by SYS_exit"
	$run A timeout 30 "$BIN/hidden_locks" ends ends "$MNT/root" 2>"$RIG/err"
	is $? 7 "$run: all do"
	for way in table marked; do
		is "$($run A "$BIN/hidden_locks" $way $way)" 'the end
locked' "$run: closed in a table of its own ($way)"
	done
done
rig_empty 2
rig_end
