#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# The description of a lock moves (moved_descriptions.c): to another process, to
# another number, or only a child has it yet; or the connection is gone when the
# lock is given back.  While the kernel lock lives so does its lease, unchanged,
# and the other host is refused; then it is gone (L4).
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/held.sh"

rig_start disks
rig_configs ttl=6s

for ms in 0 200; do
	begins "take$ms" listening "$BIN/moved_descriptions" take "$RIG/sock$ms"
	begins "give$ms" given "$BIN/moved_descriptions" give "give$ms" "$RIG/sock$ms" "$ms"
	hear "take$ms"
	is "$HEARD" connected "take$ms: connected"
	hear "take$ms"
	is "$HEARD" got "take$ms: got"
	held "give$ms"
done
for how in 0 49 50 51 '0 kill' '50 kill'; do
	name=orphan${how// /-}
	# shellcheck disable=SC2086 # two words
	begins "$name" locked "$BIN/moved_descriptions" orphan "$name" $how
	hear "$name"
	is "$HEARD" alone "$name: alone"
	held "$name"
done
begins freopen moved "$BIN/moved_descriptions" freopen freopen other
held freopen

held_for 18000
for ms in 0 200; do
	ends "take$ms" "give$ms"
	hear "take$ms"
	is "$HEARD" closed "take$ms: the receiver lives on"
	say "take$ms" go
	say "give$ms" go
done
for how in 0 49 50 51 0-kill 50-kill; do
	ends "orphan$how" "orphan$how"
done
goes_on freopen childless
ok 'freopen: held without the child' still_held freopen
ends freopen freopen
hear freopen
is "$HEARD" closed 'freopen: lives on'
say freopen go
rig_empty 5 'all of these are gone'

# --- the connection is gone when the lock is given back ----------------------

for ms in 0 200; do
	begins "unlock$ms" locked "$BIN/moved_descriptions" unlock "unlock$ms"
	held "unlock$ms"
	sleep "0.$ms"
	ok "unlock$ms: held" still_held "unlock$ms"
	at_least "$(rr client kill type normal skipme yes)" 1 \
		"unlock$ms: its connection is killed"
	ends "unlock$ms" "unlock$ms"
done
rig_end
