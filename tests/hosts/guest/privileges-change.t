#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Privileges change while a lock is held (L7): each call does and answers what
# it does bare, the lease goes on and ends with its lock.  glibc aborts where
# threads answer differently, unshare() and setns() refuse threads: so there
# is none of ours.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=6s
on A chmod 755 "$RIG" "$MNT"

# NAME=CALL; CALL; ... of privileges.c.  Capability 7 is CAP_SETUID.
declare -A CALLS=(
	[setuid]='setuid 65534'
	[seteuid]='seteuid 65534; seteuid 0; seteuid 65534'
	[setreuid]='setreuid 65534 0; setreuid -1 65534; setreuid -1 0'
	[setresuid]='setresuid 65534 65534 65534; setresuid 0 0 0'
	[setgid]='setgid 65534; setgid 7'
	[setegid]='setegid 65534; setegid 0'
	[setregid]='setregid 65534 65534'
	[setresgid]='setresgid 1 2 3; setresgid 3 2 1'
	[setgroups]='setgroups 4 5 6; setgroups 65534'
	[initgroups]='initgroups nobody 65534; initgroups root 0'
	[nobody]='setgroups 65534; setresgid 65534 65534 65534
		setresuid 65534 65534 65534; setgroups 1; setuid 0'
	[capset]='drop 7; setuid 65534; setresuid 1 1 1; setuid 0'
	[keepcaps]='keepcaps 1; setresuid 65534 65534 65534; drop 0 1 2
		setuid 0; drop 7; setuid 65534; setgroups 1'
	[newuser]='unshare newuser; setuid 65534; setgroups 1'
	[newns]='unshare newns; setns newns; setns newuser'
	[newnet]='unshare newnet; setns newnet'
	[newuts]='unshare newuts newipc; setns newuts'
	[files]='unshare files; unshare files fs'
	[refused]='setuid 65534; unshare newuts; setns newuts; setgroups 1'
)
names=("${!CALLS[@]}")

# calls HOW NAME: each answer, and what the process is after it; in $SAID.
calls()
{
	local one all

	SAID=''
	all=${CALLS[$2]//$'\n'/;}
	while [ -n "$all" ]; do
		one=${all%%;*}
		all=${all#"$one"}
		all=${all#;}
		read -r one <<<"$one"
		ask "$1-$2" "call $one"
		SAID+="$one: $HEARD"$'\n'
		ask "$1-$2" who
		SAID+="  $HEARD"$'\n'
	done
}

declare -A token
for name in "${names[@]}"; do
	peer "on-$name" on B "$BIN/privileges" obey "$name.bare"
	calls on "$name"
	bare=$SAID
	peer_end "on-$name"
	peer "dl-$name" dl A "$BIN/privileges" obey "$name"
	ask "dl-$name" lock
	is "$HEARD" 0 "$name: locks"
	token[$name]=$(token_of "$name")
	like "${token[$name]}" '^dlock1 ' "$name: has a lease"
	calls dl "$name"
	is "$SAID" "$bare" "$name: as bare"
done

ok 'refused on the other host for 3.2 x ttl' \
	refused_for 19200 "${names[@]}"
for name in "${names[@]}"; do
	is "$(token_of "$name")" "${token[$name]}" "$name: the same lease"
	ask "dl-$name" threads
	is "$HEARD" 2 "$name: its thread is there again"
	begin=$(now)
	ask "dl-$name" unlock
	is "$HEARD" 0 "$name: unlocks"
	ok "$name: the lease ends" until_true 5 lease_is_gone "$name"
	took=$((($(now) - begin) / 1000000))
	in_time "$took" 300 "$name: within $took ms"
	is "$(cat "$RIG/dl-$name.err")" '' "$name: nothing to say"
	peer_end "dl-$name"
done

# --- other ids than the real ones ---------------------------------------------

# As a set-user-ID program has them, and many a server.  Its keeper has the effective
# ones, and hears who has them; a descriptor that is left when the process is gone is
# the lock.  (And so it is with ids that have no number in a user namespace.)
declare -A OTHER=([uid]='seteuid(65534)' [gid]='setegid(65534)'
	[back]='setresuid(65534, 0, 0)' [unmapped]='getresuid()')
for name in "${!OTHER[@]}"; do
	on A touch "$name"
	on A chmod 666 "$name"
	by=()
	[ "$name" != unmapped ] || by=(unshare -U)
	peer "$name" dl A "${by[@]}" /usr/bin/python3 -c "import fcntl, os
fd = os.open('$name', os.O_RDWR)
os.${OTHER[$name]}
fcntl.flock(fd, fcntl.LOCK_EX)
os.set_inheritable(fd, True)
os.execvp('env', ['env', '-u', 'LD_PRELOAD', 'sh', '-c', 'echo has it; read -r _'])"
	hear "$name"
	is "$HEARD" 'has it' "${OTHER[$name]}: has the lock, without dlock"
	is "$(cat "$RIG/$name.err")" '' "${OTHER[$name]}: nothing to say"
done
ok 'other ids: refused on the other host beyond the ttl' \
	refused_for 7000 "${!OTHER[@]}"
peer_end "${!OTHER[@]}"
for name in "${!OTHER[@]}"; do
	ok "${OTHER[$name]}: until it ends" until_true 5 lease_is_gone "$name"
done

# --- what changes before the first lock --------------------------------------

# Settings were read at the start; whose they are now does not matter.
chmod 600 "$RIG/A.conf"
peer late dl A "$BIN/privileges" obey late
ask late 'call setgroups 65534'
ask late 'call setresgid 65534 65534 65534'
ask late 'call setresuid 65534 65534 65534'
is "$HEARD" '0 77' 'late: becomes nobody before the first lock'
ask late lock
is "$HEARD" 0 'late: locks'
like "$(token_of late)" '^dlock1 ' 'late: has a lease'
not_granted()
{
	! dl B flock -n "$1" true
}
ok 'late: refused on the other host' not_granted late
ask late unlock
ok 'late: the lease ends' until_true 5 lease_is_gone late
peer_end late

# With /proc the file is known by its name, whatever the root is.
on A mkdir -p jail/proc
on A mount --bind /proc "$MNT/jail/proc"
peer jail dl A "$BIN/privileges" obey jailed
ask jail "call chroot $MNT/jail"
is "$HEARD" '0 77' 'jail: in a chroot with /proc before the first lock'
ask jail lock
is "$HEARD" 0 'jail: locks'
like "$(token_of jailed)" '^dlock1 ' 'jail: has a lease, by its name outside'
ok 'jail: refused on the other host' not_granted jailed
ask jail unlock
ok 'jail: the lease ends' until_true 5 lease_is_gone jailed
peer_end jail
on A mkdir empty
peer jail dl A "$BIN/privileges" obey jailed
ask jail "call chroot $MNT/empty"
ask jail nb
is "$HEARD" '-1 ENOLCK' 'jail: without /proc it is refused'
like "$(cat "$RIG/jail.err")" 'no /proc' 'jail: and says why'
peer_end jail

# --- threads -----------------------------------------------------------------

# A thread locks while main becomes another user and back.
for how in on dl; do
	is "$("$how" A timeout 300 "$BIN/privileges" storm "storm.$how" 300)" \
		'refused 0, failed 0' "storm: 300 rounds ($how)"
done

# The process ends with the last thread of the program's, by exit(0).
ends()
{
	local how=$1 begin

	shift
	begin=$(now)
	SAID=$("$how" A timeout 600 "$BIN/privileges" "$@")
	SAID+=" $?"
	TOOK=$((($(now) - begin) / 1000000))
}
for what in 'dies f' 'leave f 0' 'leave f 30' 'leave f 200'; do
	# shellcheck disable=SC2086 # words
	ends on $what
	is "$SAID" 'bye 0' "$what: bare"
	bare=$TOOK
	# shellcheck disable=SC2086 # words
	ends dl $what
	is "$SAID" 'bye 0' "$what: as bare"
	in_time $((TOOK - bare)) 150 "$what: $((TOOK - bare)) ms later"
done
rig_empty 8 'their leases end with them'

# --- AT_SECURE ---------------------------------------------------------------

# ld.so preloads then only what is set-user-ID in a directory of its own: one
# of the C library's is replaced, as seen on A.  The program runs as nobody,
# for root.
lib=$(on A find /usr/lib -name libmemusage.so | head -n 1)
cp -a /etc "$RIG/etc"
mkdir -p "$RIG/etc/dlock"
cp "$RIG/A.conf" "$RIG/etc/dlock/dlock.conf"
chmod 644 "$RIG/etc/dlock/dlock.conf" "$RIG/A.conf"
sed 's,dlock:,evil:,; s,^path.*,&\n    key = "evil:%p",' "$RIG/A.conf" \
	>"$RIG/evil.conf"
on A mount --bind "$RIG/etc" /etc
on A sh -c "cp '$BUILD/libdlock-preload.so' lib.so && chmod 4755 lib.so &&
	cp '$BIN/locker' secure && chown nobody secure && chmod 4755 secure &&
	mount --bind lib.so '$lib' && touch owned && chown nobody owned"
secure()
{
	peer secure on A env LD_PRELOAD=libmemusage.so \
		DLOCK_CONFIG="$RIG/evil.conf" DLOCK_DISABLE="$2" \
		DLOCK_LOG="debug:$RIG/log$2" "$1"
	ask secure 'open a owned'
	ask secure 'lock a EX NB'
}
on A cp "$BIN/locker" plain
secure ./plain 0
is "$RESULT" 0 'not in secure mode: locks (control)'
like "$(rr keys '*')" '^evil:' 'by the file that DLOCK_CONFIG names'
peer_end secure
rig_empty 8
secure ./secure 1
is "$RESULT" 0 'in secure mode: locks'
is "$(rr keys '*')" "dlock:$MNT/owned" \
	'by the compiled-in file, whatever the environment says'
ok 'a log is written where it says (control)' test -e "$RIG/log0"
ok 'but not then' test ! -e "$RIG/log1"
peer_end secure
rig_end
