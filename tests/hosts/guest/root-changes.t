#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A program locks and makes another directory its root at once, where there is
# neither a keeper to be started nor /proc to look at locks (L4).  It has a keeper
# before: so what a child of it has is held when it is killed, and for as long as the
# child lives; and so is what it locks in there later.  The call itself is as bare,
# and who has locked nothing has no keeper by it.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/held.sh"

TTL=6				# s

rig_start disks
rig_configs ttl=${TTL}s
on A mkdir -p empty/old jail/old jail/proc
on A mount --bind empty "$MNT/empty"
on A mount --bind jail "$MNT/jail"
on A mount -t proc proc "$MNT/jail/proc"

# root NAME HOW DIR RUN [PREFIX...]: on A by RUN, with a lock of the file NAME
root()
{
	local name=$1 how=$2 dir=$3 run=$4

	shift 4
	peer "$name" "$run" A "$@" "$BIN/another_root" "$how" "$MNT/$dir" "$name"
	hear "$name"
}

# --- as bare -------------------------------------------------------------------

# (A mount namespace of its own, or the host would have another root.)
for how in chroot pivot; do
	for n in '' '#'; do
		for dir in empty nowhere; do
			[ "$how$dir" != pivotnowhere ] || continue
			root bare "$how$n" "$dir" on unshare -m
			bare=$HEARD
			root dlock "$how$n" "$dir" dl unshare -m
			is "$HEARD" "$bare" "$how$n $dir: $bare, as bare"
			peer_end bare dlock
		done
	done
done
like "$bare" '77$' 'errno is left alone (control)'
root refused chroot nowhere dl
is "$HEARD" '-1 ENOENT' 'its own errno, where it fails'
peer_end refused
rig_empty 5
# (The keeper of the one before releases its lease, and ends after that.)
until_true 10 no_keeper A || rig_die "a keeper is left: $(all_keepers A)"

peer never dl A "$BIN/another_root" chroot "$MNT/empty"
hear never
is "$HEARD" '0 77' 'who has locked nothing'
ok '... has no keeper by it' no_keeper A
peer_end never

# --- held by a child --------------------------------------------------------------

for how in chroot 'chroot#' pivot 'pivot#'; do
	root "$how" "$how" empty dl unshare -m
	is "$HEARD" '0 77' "$how: another root"
	held "$how"
	ask "$how" child
	is "$HEARD" alone "$how: it is killed, and has left a child"
done
held_for $((2 * TTL * 1000))
for how in chroot 'chroot#' pivot 'pivot#'; do
	ends "$how" "$how" 1000
done

# --- locked later -----------------------------------------------------------------

has_keeper()
{
	keepers A >/dev/null
}

# later NAME: what it has is unlocked there, and locked again.  (A keeper
# without a lease would end after 1 s.)
later()
{
	is "$HEARD" '0 77' "$1: another root, with /proc"
	ask "$1" unlock
	is "$HEARD" 0 "$1: unlocks"
	ok '... and has a keeper' throughout 2500 10 has_keeper
	ask "$1" lock
	is "$HEARD" 0 '... locks again'
	files=()
	held "$1"
	ask "$1" child
	is "$HEARD" alone "$1: it is killed, and has left a child"
	held_for $((2 * TTL * 1000))
	ends "$1" "$1" 1000
	ok '... and no keeper is left' until_true 5 no_keeper A
}

root later chroot jail dl
later later
# Of another mount namespace the root is another one, too.
root other pivot jail on unshare -m
is "$HEARD" '0 77' 'another one has a mount namespace'
peer joins dl A "$BIN/another_root" setns \
	"/proc/$(on A pgrep -nx another_root)/ns/mnt" joins
hear joins
later joins
peer_end other
is "$(grep -h '^dlock' "$RIG"/{later,joins,chroot,pivot}*.err)" '' 'nothing to say'
rig_empty 5
rig_end
