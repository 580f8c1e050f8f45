#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A locked file is replaced, the usual safe rewrite, under a key of its name
# (%p).  Who locks the new file and has the old one locked itself is told so at
# once; of another process `dlockctl list` tells that it holds an old one.
. "${0%/*}/../../lib/rig.sh"

replace()
{
	on A sh -c 'echo new >new && chmod 666 new && mv new f'
}

# step PEER LINE WANTED TITLE
step()
{
	ask "$1" "$2" 8
	is "$RESULT" "$3" "$4"
}

lines()
{
	grep -c 'this process itself holds the key' "$RIG/a.err"
}

# own FAMILY LOCK-OLD LOCK-NEW-AND-WAIT LOCK-NEW-WITHOUT UNLOCK-OLD UNLOCK-NEW
own()
{
	local how title

	for how in on dl; do
		title="$1: $how"
		locker a "$how" A
		ask a 'open a f'
		step a "$2" 0 "$title: the old file"
		replace
		ask a 'open b f'
		if [ "$how" = on ]; then
			step a "$3" 0 "$title: the new one too (control)"
		else
			step a "$3" EDEADLK "$title: a wait for ourselves"
			step a "$4" EAGAIN "$title: without a wait"
			is "$(lines)" 1 "$title: it is said, once"
			ask a "$5"
			step a "$3" 0 "$title: once the old one is unlocked"
		fi
		ask a "$6"
		peer_end a
		rig_empty 2 "$title: no key is left"
	done
}

rig_start disks
own flock 'lock a EX' 'lock b EX' 'lock b EX NB' 'lock a UN' 'lock b UN'
own 'flock, shared' 'lock a SH' 'lock b EX' 'lock b EX NB' 'lock a UN' \
	'lock b UN'
own fcntl 'range a F_WRLCK 0 10' 'range b F_WRLCK 9 5 WAIT' \
	'range b F_RDLCK 0 1' 'range a F_UNLCK 0 0' 'range b F_UNLCK 0 0'
own OFD 'range a F_RDLCK 0 10 OFD' 'range b F_WRLCK 9 5 WAIT OFD' \
	'range b F_WRLCK 0 1 OFD' 'range a F_UNLCK 0 0 OFD' \
	'range b F_UNLCK 0 0 OFD'

# What does not conflict is granted; so is what a file has that was closed
# where no library saw it.
locker a dl A
ask a 'open a f'
step a 'lock a SH' 0 'the old file, shared'
replace
ask a 'open b f'
step a 'lock b SH' 0 'the new one, shared'
step a 'range a F_WRLCK 0 5' 0 'bytes of the old file'
step a 'range b F_WRLCK 5 5' 0 'other bytes of the new one'
peer_end a
rig_empty
for ofd in '' ofd; do
	peer a dl A "$BIN/records" tell
	ask a 'open a f'
	step a "${ofd}set a W 0 10" 0 "${ofd:-posix}: bytes of the old file"
	replace
	ask a 'open b f'
	ask a 'unseen a'
	step a "${ofd}wait b W 0 10" 0 \
		"${ofd:-posix}: the old one was closed unseen: the new one"
	peer_end a
	rig_empty
done

# A daemon that has the old file still.
list()
{
	on A "$BUILD/dlockctl" -c "$RIG/A.conf" "$@" list
}

marked()
{
	list | grep -q "^$MNT/f .*no more under this name" &&
		[[ $(list --json) == *'"moved": true'* ]]
}

unmarked()
{
	! list | grep 'no more under' && [[ $(list --json) != *moved* ]]
}

# daemon TITLE [AS...]: it and its successor, who waits
daemon()
{
	peer a dl A "${@:2}" "$BIN/locker"
	peer b dl A "${@:2}" "$BIN/locker"
	ask a 'open a f'
	step a 'lock a EX' 0 "$1: a daemon"
	ok "$1: is not marked (control)" unmarked
	on A mv f g
	ok "$1: renamed, it is" marked
	on A mv g f
	ok "$1: renamed back, it is not" unmarked
	replace
	ok "$1: replaced, it is" marked
	ask b 'open a f'
	say b 'lock a EX'
	ok "$1: so it is while its successor waits" until_true 5 waits
	ok "$1: and" marked
	on A rm f
	ok "$1: removed, it is" marked
	say a 'exit 0'
	hear b 10
	is "$RESULT" 0 "$1: it ends: its successor has the lock"
	peer_end b a
	rig_empty 8
	on A touch f
}

waits()
{
	[[ $(list --json) == *'"waiters": 1'* ]]
}

daemon 'the file'
rig_configs path_more='local = "shadow"'
for h in A B; do
	echo "state_dir = \"$RIG/state.$h\"" >>"$RIG/$h.conf"
done
daemon 'its shadow'
# A user without a place in state_dir has that of the login.
chmod 755 "$RIG" "$MNT"
sed -i 's,^state_dir = .*,state_dir = "/run/none",' "$RIG"/[AB].conf
chmod 644 "$RIG"/[AB].conf
on A mount -t tmpfs run /run
on A mkdir -p /run/user/65534
on A mount -t tmpfs -o uid=65534,mode=700 user /run/user/65534
on A chmod 666 f
daemon "its shadow in a user's directory" setpriv --reuid 65534 --regid 65534 \
	--clear-groups
ok '... that was used (control)' on A test -d /run/user/65534/dlock
rig_configs

# A container of this host_id has a file of its own under this name, or here is
# none; and its pids are not ours.
peer c on A unshare -m -p -f --mount-proc sh -c "mount -t tmpfs own $MNT && cd $MNT &&
	touch f && LD_PRELOAD=$SHIM DLOCK_CONFIG=$RIG/A.conf flock f sh -c \
	'echo locked; read -r _; exit'; exit"
hear c
ok "in a container: not marked, where the name is another file's" unmarked
on A rm f
ok '... nor where it is nobody'"'s" unmarked
like "$(list)" "$MNT/f .* flock" '... it is there (control)'
peer_end c
rig_empty 8

# flock(1) has ended long since; the shell holds it.
on A touch f
peer shell dl A bash
say shell 'exec 9>>f; flock 9; echo locked'
hear shell
ok 'a shell whose flock(1) is gone is not marked (control)' unmarked
replace
ok 'it is, replaced' marked
peer_end shell
rig_empty 8
rig_end
