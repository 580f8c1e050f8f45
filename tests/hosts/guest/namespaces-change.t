#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Namespaces change while locks are held, and before (L4, L7).  After
# unshare(CLONE_NEWPID) there can be no thread, and the next child is process 1
# of the new namespace: the program's own, never a helper of ours.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
TTL=6				# s
rig_configs ttl=${TTL}s timeout=3s

# priv NAME [COMMAND...]: on A, with a file of its name.
priv()
{
	local name=$1

	shift
	peer "$name" dl A "$@" "$BIN/privileges" obey "$name"
}

# does NAME LINE ANSWER
does()
{
	ask "$1" "$2"
	is "$HEARD" "$3" "$1: $2: $3"
}

files=()
declare -A token

held()
{
	files+=("$1")
	token[$1]=$(token_of "$1")
	like "${token[$1]}" '^dlock1 ' "$1: has a lease"
}

# ends NAME: unlocks, and the lease is gone.
ends()
{
	local begin took

	begin=$(now)
	does "$1" unlock 0
	ok "$1: its lease ends" until_true 2 lease_is_gone "$1"
	took=$((($(now) - begin) / 1000000))
	in_time "$took" 1000 "$1: its lease is gone in $took ms"
}

# What is bare: the first child is process 1, the namespace ends with it.
peer bare on B "$BIN/privileges" obey bare
does bare 'call unshare newpid' '0 77'
does bare 'fork bare.child' 'pid 1 0'
does bare 'fork bare.child' '-1 ENOMEM'
peer_end bare

# --- locked before -----------------------------------------------------------

priv before
does before lock 0
held before
does before 'call unshare newpid' '0 77'
does before 'fork before.child' 'pid 1 0'
does before 'fork before.child' '-1 ENOMEM'
does before threads 1

# --- nothing locked before ----------------------------------------------------

priv after
does after 'call unshare newpid' '0 77'
does after lock 0
held after
does after 'fork after.child' 'pid 1 0'

# One that locks nothing: its child is process 1 as well.
priv never
does never 'call unshare newpid' '0 77'
does never 'fork never.child' 'pid 1 0'
peer_end never

# With a thread that lingers, and a keeper that would have ended.
priv between
does between lock 0
does between unlock 0
does between 'call unshare newpid' '0 77'
sleep 1.2
does between lock 0
held between

# --- into another's, and back ---------------------------------------------------

# (Without the input of peers.)
(tap_close_inherited; on A unshare -p -f --kill-child=KILL sleep infinity) &
disown $!
inner_is_there()
{
	inner=$(on A pgrep -x sleep)
}
ok 'another namespace' until_true 2 inner_is_there
priv into
does into lock 0
held into
does into "call setns newpid /proc/$inner/ns/pid" '0 77'
does into threads 1
does into 'fork into.child' 'pid N 0'
priv back
does back "call setns newpid /proc/$inner/ns/pid" '0 77'
does back lock 0
does back 'call setns newpid' '0 77'
held back
does back threads 2

# --- all that the keeper has in the old ones ------------------------------------

# The connections are cut: in the new network namespace there is no other.
priv net
does net lock 0
held net
does net 'call unshare newnet newns' '0 77'
at_least "$(rr client kill type normal skipme yes)" 1 'the connections are cut'

# Process 1 of a container.
priv first unshare -p -f --kill-child=KILL --mount-proc
does first lock 0
held first

ok 'refused on the other host for 3.2 x ttl' \
	refused_for $((3200 * TTL)) "${files[@]}"
for name in "${files[@]}"; do
	is "$(token_of "$name")" "${token[$name]}" "$name: the same lease"
done
for name in before after between into back net; do
	ends "$name"
done
for name in before after into back; do
	does "$name" lock 0
	ends "$name"
	is "$(cat "$RIG/$name.err")" '' "$name: nothing to say"
done
is "$(cat "$RIG/net.err")" '' 'net: nothing to say yet'
does net lock '-1 ENOLCK'
like "$(cat "$RIG/net.err")" 'ENOLCK' 'net: cannot reach Redis, and says so'

# --- no keeper, and none can be made --------------------------------------------

priv lost
does lost 'call unshare newpid' '0 77'
# (They are a process group.)
group=$(ps -o pgid= -p "$(pids_of A -n -x dlock-keeper)" | tr -d ' ')
ok 'its keeper, the latest, is killed, and the standby' kill -KILL -- "-$group"
does lost lock '-1 ENOLCK'
like "$(cat "$RIG/lost.err")" 'children are of another pid namespace' \
	'lost: says why'
does lost 'fork lost.child' 'pid 1 0'
peer_end lost

# Another program in a process whose children go elsewhere.
priv become unshare -p
does become lock '-1 ENOLCK'
does become 'fork become.child' 'pid 1 0'
like "$(cat "$RIG/become.err")" 'children are of another pid namespace' \
	'become: says why'
peer_end become

# --- process 1 -------------------------------------------------------------------

# A child's lease, whose keeper is process 1's child by then.
does first 'fork first.child' 'pid N 0'
ok 'first: the lease of its child ends' until_true 1 lease_is_gone first.child
# Its own, by proof of death on its host; the kernel has killed the keeper.
pid=$(on A pgrep -oxf "$BIN/privileges obey first")
on A kill -KILL "$pid"
begin=$(now)
granted()
{
	dl "$1" flock -n first true
}
ok 'first: killed, it is granted on its host' until_true 2 granted A
took=$((($(now) - begin) / 1000000))
in_time "$took" 1000 "first: after $took ms, not by its ttl"
rig_empty $((TTL + 2)) 'and nothing of it stays'

# And without anybody there, by its ttl.
priv first unshare -p -f --kill-child=KILL --mount-proc
does first lock 0
pid=$(on A pgrep -oxf "$BIN/privileges obey first")
sleep 0.2
on A kill -KILL "$pid"
begin=$(now)
ok 'first: killed, it is granted on the other host' \
	until_true $((TTL + 2)) granted B
took=$((($(now) - begin) / 1000000))
in_time "$took" $((TTL * 1000 + 300)) "first: after $took ms, by its ttl" \
	300

# --- wait(2) ------------------------------------------------------------------------

# A parent sees no keeper, and does not wait for one.  To a subreaper they are
# orphans as any: its own, and that of its child; they end with their locks.
is "$(on A timeout 60 "$BIN/privileges" waits w)" '1 1' 'wait: bare, one child'
is "$(dl A timeout 60 "$BIN/privileges" waits w)" '1 1' 'wait: one child, no keeper'
is "$(on A timeout 60 "$BIN/privileges" waits w reaper)" '1 1' 'reaper: bare, one child'
like "$(dl A timeout 60 "$BIN/privileges" waits w reaper)" '^[1-5] [1-5]$' \
	'reaper: its children end, and two pairs of keepers at most'
peer_end "${!PEER_IN[@]}"
rig_end
