#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A master of the cluster dies while its locks are held, asked for and waited for:
# its replica goes on.  Never two holders; who holds a lock has it still; nobody is
# granted anything at the new master for one delay, for it may not know all.
RIG_MODE=cluster
# (None of them becomes a master though a busy machine keeps its own waiting.)
NODE_MORE=(--cluster-replica-no-failover yes)
. "${0%/*}/../../lib/rig.sh"

# A failover takes 2 s, and 3 on a busy machine, of the two thirds of a ttl that
# are left when a lease is due; and one of those who vote may stand still for as long.
TTL=12			# s

# is_master_now N: at $born it was not
is_master_now()
{
	local at

	at=$(now)
	is_master "$1" && return
	born=$at
	return 1
}

rig_start disks
rig_configs ttl=${TTL}s timeout=30s connect_timeout=1s restart_delay=${TTL}s
export DLOCK_LOG=warning:$RIG/log
ok 'the nodes are old' until_true 20 masters_are_old $((TTL + 1))
slot=$(slot_of "$(key_of held)")
master=$(owner_of "$slot")
replica=$((master + 3))
locker a dl A
ask a 'open a held'
ask a 'lock a EX'
is "$RESULT" 0 'A has a lock'
load_begin "$BUILD/libdlock-preload.so"

# Of what came last a replica may know nothing; this one knows next to nothing.
m "$replica" config set replica-read-only no >/dev/null
began=$(now)
is "$(m "$replica" flushall)" OK 'its replica has forgotten all'
m "$replica" config set cluster-replica-no-failover no >/dev/null
master_kill "$master"
born=$began
ok '... and is the master' until_true 20 is_master_now "$replica"
note "after $((($(now) - began) / 1000000)) ms"
has_it()
{
	[ -n "$(m "$replica" get "$(key_of held)")" ]
}
ok 'A puts its lease back' until_true 10 has_it
dl B flock -n "$MNT/held" true 2>"$RIG/new.err"
ok 'B does not get what A has' test "$?" != 0
ok '... and all the others go on, in the end' load_goes_on 100
locker b dl B
ask b 'open b held'
until_granting()
{
	ask b 'lock b EX NB'
	[ "$RESULT" = EAGAIN ]
}
ok 'A has it still, says the new master' until_true 30 until_granting
at_least $((($(now) - born) / 1000000)) $((TTL * 1000)) \
	'... after one whole delay (ms)'
note "$(cat "$RIG/new.err")"
ask a 'lock a UN'
is "$RESULT" 0 'A unlocks'
ask b 'lock b EX NB'
is "$RESULT" 0 'B has it'
ask b 'lock b UN'

load_end
is "$overlaps $broken $lost" '0 0 0' 'never two holders'
is "$died" 0 'nobody has ended'
is "$(cat "$LOAD/dlock.log" "$RIG/log" 2>/dev/null | grep -c LOST)" 0 \
	'no lease is lost'
rig_empty $((TTL + 8))

# The delay is what keeps B out: without one it has what A has, where A is not the
# first to say so.  (It is stopped, and its ttl is long.)
rig_configs ttl=120s timeout=20s connect_timeout=500ms restart_delay=0s
for file in x1 x2 x3 x4 x5 x6 x7 x8 x9; do
	slot=$(slot_of "$(key_of $file)")
	other=$(owner_of "$slot")
	[ "$other" = "$replica" ] || break
done
m $((other + 3)) config set replica-read-only no >/dev/null
locker c dl A
ask c "open c $file"
ask c 'lock c EX'
is "$RESULT" 0 'without a delay: A has a lock'
on A pkill -STOP -x 'locker|dlock-[ks].*'
m $((other + 3)) flushall >/dev/null
m $((other + 3)) config set cluster-replica-no-failover no >/dev/null
master_kill "$other"
ok '... of which the next master knows nothing' until_true 20 \
	is_master $((other + 3))
ok '... and B gets it, too (control)' dl B flock -w 30 "$file" true
on A pkill -KILL -x 'locker|dlock-[ks].*'
done_testing
