#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# key = "...%i": a lock on a share is the file's, by whatever name it is known:
# after a rename, by a hard link, in the place of another file, and when the
# name is gone.  (By %p it is the name's; that is said, not hidden.)
. "${0%/*}/../../lib/rig.sh"

# Of a file that A locks by one name and B by another, does only one have it?
# The steps between: $1; B's name: $2.  FAMILY is lock or range.
family=''
lock_step()
{
	case $family in
	flock) echo "lock $1 EX NB" ;;
	fcntl) echo "range $1 F_WRLCK 0 0" ;;
	ofd) echo "range $1 F_WRLCK 0 0 OFD" ;;
	esac
}

unlock_step()
{
	case $family in
	flock) echo "lock $1 UN" ;;
	fcntl) echo "range $1 F_UNLCK 0 0" ;;
	ofd) echo "range $1 F_UNLCK 0 0 OFD" ;;
	esac
}

# refused FILE: B is, until A has unlocked.  (B's open comes first where the
# name goes away.)
refused()
{
	ask b "$(lock_step a)"
	[ "$RESULT" = EAGAIN ] || return 1
	ask a "$(unlock_step a)"
	[ "$RESULT" = 0 ] || return 1
	until_true 2 b_gets
}

b_gets()
{
	ask b "$(lock_step a)" && [ "$RESULT" = 0 ]
}

begin()
{
	on A rm -rf dir
	on A mkdir dir
	on A sh -c 'echo 1 >dir/f'
	locker a "$RUN" A
	locker b "$RUN" B
	ask a 'open a dir/f'
}

a_locks()
{
	ask a "$(lock_step a)"
	[ "$RESULT" = 0 ] || diag "A: $RESULT"
}

by_hard_link()
{
	begin
	on A ln dir/f dir/g
	a_locks
	ask b 'open a dir/g'
	refused
}

after_rename()
{
	begin
	a_locks
	on A mv dir/f dir/g
	ask b 'open a dir/g'
	refused
}

# The other host renames what we have.
after_rename_there()
{
	begin
	a_locks
	on B mv dir/f dir/g
	ask b 'open a dir/g'
	refused
}

after_unlink_there()
{
	begin
	ask b 'open a dir/f'
	on B ln dir/f dir/g
	a_locks
	on B rm dir/f
	refused
}

# The old file is A's still, for who has it open.
after_replace()
{
	begin
	ask b 'open a dir/f'
	a_locks
	on A sh -c 'echo 2 >dir/new && mv dir/new dir/f'
	refused
}

# And the new one is free.
replaced_is_free()
{
	begin
	a_locks
	on A sh -c 'echo 2 >dir/new && mv dir/new dir/f'
	ask b 'open a dir/f'
	ask b "$(lock_step a)"
	[ "$RESULT" = 0 ]
}

end()
{
	ask a "$(unlock_step a)"
	ask b "$(unlock_step a)"
	peer_end a b
	until_true 3 db_is_empty
}

held()
{
	local rc

	"$1"
	rc=$?
	end
	return "$rc"
}

rig_start share
rig_configs path_more='key = "dlock:share:%i"'
for family in flock fcntl ofd; do
	for case in by_hard_link after_rename after_rename_there \
		after_unlink_there after_replace; do
		three_ways "$family: ${case//_/ }" held "$case"
	done
	RUN=dl
	ok "$family: what replaced a locked file is free" \
		held replaced_is_free
done

family=flock
RUN=dl
begin
a_locks
inode=$(on A stat -c %i dir/f)
is "$(rr keys '*')" "dlock:share:$inode" 'the key is the inode'
list=$(on B "$BUILD/dlockctl" -c "$RIG/B.conf" list)
ok 'dlockctl list shows the path' grep -q "^$MNT/dir/f " <<<"$list" ||
	diag "$list"
is "$(on B "$BUILD/dlockctl" -c "$RIG/B.conf" --json list |
	grep -o '"path": *"[^"]*"')" "\"path\": \"$MNT/dir/f\"" 'so does --json'
ok 'dlockctl explain tells the key' \
	grep -q "^flock key  *dlock:share:$inode\$" \
	<<<"$(on B "$BUILD/dlockctl" -c "$RIG/B.conf" explain "$MNT/dir/f")"
end

# Where hosts do not agree on inodes, nothing is locked, and it is said.
on A mkdir dir/disk
on A mount -t tmpfs disk dir/disk
locker a dl A
ask a 'open a dir/disk/f'
ask a 'lock a EX NB'
is "$RESULT" ENOLCK 'a file system of one host: ENOLCK'
ok 'and a line says why' grep -q 'type tmpfs is not known' "$RIG/a.err"
peer_end a
on A umount dir/disk
on A bindfs -o subtype=bindfs "$RIG" dir/disk
locker a dl A
ask a 'open a dir/disk/f'
ask a 'lock a EX NB'
is "$RESULT" ENOLCK 'another share below the prefix: ENOLCK'
ok 'and a line says what to do' \
	grep -q 'mounted below the prefix: give it' "$RIG/a.err"
peer_end a
on A umount dir/disk
rig_end
