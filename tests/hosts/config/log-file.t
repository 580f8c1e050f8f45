#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# The file that DLOCK_LOG names: a regular one or none, opened once, when the
# process begins, and written to whatever the program does with its
# descriptors, its root directory and its privileges.
. "${0%/*}/../../lib/rig.sh"

LOCK='open f f
lock f EX NB'

# tells LEVEL:FILE: a locker whose lock fails, and so has to say it; it may hang
tells()
{
	printf '%s\n' "$LOCK" |
		dl A env DLOCK_LOG="$1" timeout -k 1 30 \
			"$BIN/locker" >"$RIG/out" 2>"$RIG/err"
}

# refused FILE REASON NAME
refused()
{
	ok "$3: the lock call returns" tells "warning:$1"
	like "$(tail -1 "$RIG/out")" '^ENOLCK ' '... with what it has to say'
	like "$(cat "$RIG/err")" "DLOCK_LOG: $1 is not written: $2" \
		'... and why it is not said there'
	like "$(cat "$RIG/err")" 'fails with ENOLCK' \
		'... but on standard error'
}

lines()
{
	grep -c 'fails with ENOLCK' "$LOG"
}

rig_start disks
rig_config A url="unix://$RIG/no.sock" timeout=100ms
chmod 711 "$RIG"
mkdir -m 700 "$RIG/log"
LOG=$RIG/log/file

tells "warning:$LOG"
is "$(lines)" 1 'a file is written (control)'
is "$(stat -c '%a %u' "$LOG")" '600 0' '... which is its own alone'
mkfifo "$RIG/fifo"
refused "$RIG/fifo" 'it is no regular file' 'a FIFO that nobody reads'
exec {reader}<>"$RIG/fifo"
refused "$RIG/fifo" 'it is no regular file' 'a FIFO that somebody reads'
exec {reader}<&-
ln -s "$RIG/victim" "$RIG/link"
refused "$RIG/link" 'it is a symbolic link' 'a symbolic link'
ok '... nothing is made where it leads' [ ! -e "$RIG/victim" ]
refused /dev/null 'it is no regular file' 'a device'
refused "$RIG/none/file" 'No such file' 'a directory that is not there'

# By one who closes whatever he has, and opens files of his own.
: >"$LOG"
printf '%s\n' 'closeall' 'open a own1' 'open b own2' "$LOCK" fds |
	dl A env DLOCK_LOG="warning:$LOG" "$BIN/locker" >"$RIG/out"
is "$(lines)" 1 'after close(2) of all descriptors it is written'
is "$(on A cat own1 own2)" '' "... and none of the program's files"

# Past libc: the same file is opened anew, but none that stands in its place.
: >"$LOG"
printf '%s\n' 'closeraw' 'open a own1' 'open b own2' "$LOCK" |
	dl A env DLOCK_LOG="warning:$LOG" "$BIN/locker" 2>"$RIG/err" >"$RIG/out"
is "$(lines)" 1 'closed behind our back: it is opened anew'
is "$(on A cat own1 own2)" '' "... and none of the program's files is written"
peer m dl A env DLOCK_LOG="warning:$LOG" "$BIN/locker"
ask m closeraw
mv "$LOG" "$LOG.1"
echo mine >"$RIG/victim"
ln "$RIG/victim" "$LOG"
ask m 'open f f'
ask m 'lock f EX NB'
is "$RESULT $(cat "$RIG/victim" "$LOG.1" | wc -l)" 'ENOLCK 2' \
	'... but not if another stands there now'
like "$(cat "$RIG/m.err")" 'fails with ENOLCK' '... then it is said elsewhere'
peer_end m
rm "$LOG" "$LOG.1"
: >"$LOG"
peer m dl A env DLOCK_LOG="warning:$LOG" "$BIN/locker"
ask m closeraw
mv "$LOG" "$LOG.1"
ask m 'open f f'
ask m 'lock f EX NB'
is "$RESULT" ENOLCK 'closed behind our back, and renamed'
ok '... no other is made in its place' [ ! -e "$LOG" ]
peer_end m

# By one who forks, gives up root, and leaves its root directory.
: >"$LOG"
on A touch f
on A chmod 666 f
cat >"$RIG/drop.pl" <<'END'
use Fcntl qw(:flock); use POSIX ();
sub try { open my $f, '>>', $_[0] or die "$_[0]: $!"; flock $f, LOCK_EX | LOCK_NB }
try("f");
unless (fork) { try("f"); POSIX::_exit(0) }
wait;
chroot "." or die; chdir "/";
try("/f");
POSIX::setgid(65534); POSIX::setuid(65534);
try("/f");
END
dl A env DLOCK_LOG="warning:$LOG" perl "$RIG/drop.pl" 2>"$RIG/err"
is "$(lines)" 4 'in a child, in another root, as nobody: all is written'
diag_unless_empty()
{
	[ ! -s "$RIG/err" ] || diag "$(cat "$RIG/err")"
}
diag_unless_empty

# The keeper has it from who began it: as nobody it could not open it.
rig_config A
: >"$LOG"
cat >"$RIG/hold.pl" <<'END'
use Fcntl qw(:flock); use POSIX ();
POSIX::setgid(65534); POSIX::setuid(65534);
open my $f, '>>', "f" or die; flock $f, LOCK_EX or die;
system("true");
END
dl A env DLOCK_LOG="debug:$LOG" perl "$RIG/hold.pl"
ok 'the keeper of one who gave up root writes to it' \
	until_true 5 grep -q 'is carried on: ' "$LOG"
rig_end
