#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Who is told of a close, and tries at once, has the lock: also if a keeper has
# the lease, for the process has made a child, or has held the lock for long.
# A server that is away delays no close.
. "${0%/*}/../../lib/rig.sh"

TRIES=30
FEW=8 # without a wait for the keeper: 16 and more

granted()
{
	[ "$RESULT" = 0 ] || ask q "$1"
	[ "$RESULT" = 0 ]
}

# tries NAME LOCK TRY UNLOCK PAUSE
tries()
{
	local i refused=0 spent=0

	for ((i = 0; i < TRIES; i++)); do
		ask p "open a $MNT/f"
		ask p "$2"
		[ "$RESULT" = 0 ] || diag "$1: $2: $RESULT"
		[ "$5" = 0 ] || sleep "$5"
		ask p 'close a'
		spent=$((spent + END - START))
		ask q "$3"
		[ "$RESULT" = 0 ] || refused=$((refused + 1))
		until_true 3 granted "$3" || break
		ask q "$4"
	done
	note "$1: $refused of $TRIES refused; a close takes" \
		"$((spent / (i + 1) / 1000)) us"
	is "$RESULT" 0 "$1: granted in the end"
	at_most "$refused" "$FEW" "$1: granted at once"
}

both()
{
	tries "flock, $1" 'lock a EX' 'lock a EX NB' 'lock a UN' "$2"
	tries "flock SH, $1" 'lock a SH' 'lock a EX NB' 'lock a UN' "$2"
	tries "OFD, $1" 'range a F_WRLCK 5 1 OFD' 'range a F_WRLCK 5 1' \
		'range a F_UNLCK 5 1' "$2"
}

rig_start disks
rig_configs ttl=20s
locker far dl A
locker p dl A
locker q dl B
ask far "open a $MNT/f"
ask far 'range a F_WRLCK 1000 1'
ask q "open a $MNT/f"
both 'held for 0.1 s' 0.1
ask p fork
child=$RESULT
both 'by who has made a child' 0

# The child has the description, too.
ask p "open a $MNT/f"
ask p 'range a F_WRLCK 5 1 OFD'
ask p 'lock a EX'
ask p fork
sharer=$RESULT
ask p 'close a'
ask q 'range a F_WRLCK 5 1'
is "$RESULT" EAGAIN 'another process has the description: refused'
ask q 'lock a EX NB'
is "$RESULT" EAGAIN 'and by flock(2)'
ask p "reap $sharer"
ask q 'range a F_WRLCK 5 1 WAIT'
is "$RESULT" 0 'granted when it is killed'
ask q 'range a F_UNLCK 5 1'

ask p "open a $MNT/f"
ask p 'range a F_WRLCK 5 1 OFD'
kill -STOP "$REDIS_PID"
ask p 'close a' 5
took=$(((END - START) / 1000000))
kill -CONT "$REDIS_PID"
is "$RESULT" 0 'closed while the server hangs'
in_time "$took" 500 "in $took ms"
ask p "reap $child"
for name in far p q; do
	say "$name" 'exit 0'
done
rig_empty 5
done_testing
