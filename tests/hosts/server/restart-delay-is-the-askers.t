#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Delayed restart (L5): how long a restarted server grants nothing is the word
# of whoever asks.  A service with short leases at the same server has locks
# again soon, and that opens nothing to those whose leases are long.
. "${0%/*}/../../lib/rig.sh"

# s, of those with long leases: a holder that is stopped has it all the while
TTL=15

# C is a service of host B's, with short leases and names of its own.
as_c()
{
	on B env LD_PRELOAD="$BUILD/libdlock-preload.so" \
		DLOCK_CONFIG="$RIG/C.conf" "$@"
}

# stop|go: the holder and its keeper
holder()
{
	# shellcheck disable=SC2046 # numbers
	on A kill "-$1" "$pid" $(all_keepers A)
}

# try KIND: what B is told when it asks for what A holds
try_it()
{
	if [ "$1" = flock ]; then
		ask b 'lock a EX NB'
	else
		ask b 'range b F_WRLCK 5 1'
	fi
}

rig_start disks
mkdir -p "$RIG/short"
rig_configs ttl=${TTL}s restart_delay=${TTL}s
# (The delay is the short one: a lease of a second is lost on a busy machine.)
rig_config C restart_delay=1s prefix="$RIG/short/"
until_true $((TTL + 2)) redis_is_old $((TTL + 1))

for p in a b; do
	locker "$p" dl "${p^}"
	ask "$p" 'open a f'
	ask "$p" 'open b g'
done
ask a pid
pid=$RESULT
ask a 'lock a EX'
ask a 'range b F_WRLCK 0 10'
is "$RESULT" 0 'A holds a lock, and a range'
ask b 'lock a EX NB'
is "$RESULT" EAGAIN 'B does not (control)'

# Without A's own part in it, which is tested below.
until_true 5 have_standbys A 1
is_fresh()
{
	[ "$(rr pttl "dlock:$MNT/f")" -gt $((TTL * 1000 - 1500)) ]
}
ok 'A has just renewed it' until_true $TTL is_fresh
holder STOP
redis_kill
born=$(now)
redis_up
up=$(now)
peer c as_c "$BIN/locker"
ask c "open a $RIG/short/f"
ask c "open b $RIG/short/g"
ask c 'lock a EX' && ask c 'range b F_WRLCK 0 10 WAIT'
is "$RESULT" 0 'C has locks again'
in_time $(((END - up) / 1000000)) 2500 '... long before the others may (ms)'
for kind in flock range; do
	try_it "$kind"
	is "$RESULT" ENOLCK "$kind: B is granted nothing after that"
done
say b 'lock a EX'
holder CONT
is_back()
{
	[ "$(rr exists "dlock:$MNT/f" "dlock:$MNT/g%rec")" = 2 ]
}
ok 'A, in its time, has what it had' until_true 3 is_back
hear b 1
is "$RESULT" silence '... and B waits'
ask a 'lock a UN'
hear b $((TTL + 2))
is "$RESULT" 0 'B has it after A'
at_least $(((END - born) / 1000000)) $((TTL * 1000)) \
	'... and not before the delay is over (ms)'
in_time $(((END - up) / 1000000)) $((TTL * 1000 + 2500)) \
	'... nor is it counted twice (ms)' 2500
ask a 'range b F_UNLCK 0 10'
ask b 'lock a UN'
ask c 'lock a UN'
ask c 'range b F_UNLCK 0 10'
rig_end
