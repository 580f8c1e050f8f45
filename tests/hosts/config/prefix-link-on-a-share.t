#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A program that starts asks no share where the prefixes lead: the server may
# be away, and the program may have no business there.  A link that lies on a
# share is followed when a file of that share is locked.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
SHARE=$RIG/srv
for h in A B; do
	share_at "$h" "$SHARE" -o attr_timeout=0,entry_timeout=0,negative_timeout=0
done
mkdir -p "$RIG/share/releases/1/data"
ln -s releases/1 "$RIG/share/current"

# --- the share's server is away -----------------------------------------------

rig_configs prefix="$SHARE/current/data/"
server=$(on A pgrep -f "bindfs.*$SHARE\$")
like "$server" '^[0-9]+$' "the server of A's share"

# What hangs in a request cannot be killed before it is answered: bounded.
starts()
{
	"$@" /bin/true &
	STARTED=$!
	until_true 10 is_over
}

# shellcheck disable=SC2317 # by name
is_over()
{
	! kill -0 "$STARTED" 2>/dev/null
}

# shellcheck disable=SC2317 # by name
asks_the_share()
{
	on A stat -c %F "$SHARE/current/data" >/dev/null &
	STARTED=$!
	sleep 0.5
	! is_over
}

on A kill -STOP "$server"
ok 'control: who asks the share waits' asks_the_share
asker=$STARTED
ok 'a preloaded program starts all the same' starts dl A
on A kill -CONT "$server"
wait "$asker" 2>/dev/null

# --- and back -------------------------------------------------------------------

for p in a b; do
	locker "$p" dl "${p^}"
done
ask a 'open d /dev/null'
ask a "open f $SHARE/releases/1/data/f"
ask b "open f $SHARE/current/data/f"
ask a 'lock f EX NB'
is "$RESULT" 0 'A locks it, by where the link leads'
is "$(rr exists "dlock:$SHARE/current/data/f")" 1 \
	'... and the key is as the configuration spells it'
ask b 'lock f EX NB'
is "$RESULT" EAGAIN 'B, by the link, is refused'
ask a 'lock f UN'
ask b 'lock f EX NB'
is "$RESULT" 0 'and has it then'
ask b 'lock f UN'
peer_end a b

# --- what is no share -------------------------------------------------------------

# (The place is known at the start: a program may chroot before it locks.)
rig_configs prefix="$RIG/link/"
on A sh -c "mkdir -p '$RIG/disk' && mount -t tmpfs disk '$RIG/disk' &&
	mkdir '$RIG/disk/real' && ln -s disk/real '$RIG/link'"
locker a dl A
ask a "open f $RIG/disk/real/f"
ask a 'lock f EX NB'
is "$RESULT" 0 'a link to a tmpfs'
is "$(rr exists "dlock:$RIG/link/f")" 1 '... is followed'
ask a 'lock f UN'
rig_end
