#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# What happens amidst a record lock's call.  The kernel sees a cycle of waits
# that goes by bytes which another thread only asks Redis for: it is none.  No
# memory is there when the kernel has granted: nothing stays locked.  A handler
# jumps out of a call that waits behind another thread's: nothing leaks.
. "${0%/*}/../../lib/rig.sh"

# cycle HOLDERS_HOST: byte 50 of f is another's
cycle()
{
	locker h "$RUN" "$1"
	ask h "open f $MNT/f"
	ask h 'range f F_WRLCK 50 1'
	seen_cycle
	peer_end h
	[ "$RESULT $START" = 'EAGAIN 0' ]
}

# RESULT: of who tries byte 50; START: of who waits for byte 0 of g, after END us
seen_cycle()
{
	peer t "$RUN" A "$BIN/record_races" cycle "$MNT/f" "$MNT/g"
	hear t
	if [ "$RUN" = on ] && [ "${PEER_IN[h]-}" ]; then
		until_true 5 both_wait
		say h 'range f F_UNLCK 50 1'
	fi
	hear t 5
	note "$RUN: byte 50: $RESULT; byte 0: $START after $END us"
	peer_end t
	until_true 5 all_ended
}

# Of A's processes, in the kernel.
both_wait()
{
	[ "$(on A grep -c -e '->' /proc/locks)" = 2 ]
}

# Until then its locks are in the next one's way.
all_ended()
{
	! on A pgrep -x record_races >/dev/null
}

rig_start disks
RUN=on
ok 'one host, bare: who only asks closes no cycle' cycle A
seen_cycle
is "$RESULT $START" '0 EDEADLK' 'one host, bare: who holds does'
proxy slow
rig_config A url="redis://127.0.0.1:$PROXY/0" timeout=5s
RUN=dl
seen_cycle
is "$RESULT $START" '0 EDEADLK' 'who holds closes a cycle'
in_time_us "$END" 100000 '... which is seen soon (us)'
ask slow 'delay 120'
ok 'who only asks closes no cycle' cycle B
ask slow pass
until_true 5 all_ended

rig_config A url="redis://127.0.0.1:$PROXY/0" timeout=300ms \
	connect_timeout=500ms
peer m dl A "$BIN/record_races" memory "$MNT/f" "$MNT/g"
hear m
ask slow hang
ask m go 5
is "$RESULT $START" 'ENOLCK f' 'no memory: the call fails, with nothing locked'
peer_end m
ask slow pass
until_true 5 all_ended

peer j dl A "$BIN/record_races" jump "$MNT/f" 8
hear j
ask slow hang
ask j go 15
is "$RESULT" 0 'jumps out of calls behind another thread leak no memory (pages)'
peer_end j
ask slow pass

# A file system that is none of ours does not answer.
share_at A "$RIG/other"
server=$(on A pgrep -f "bindfs.*$RIG/other")
locker l dl A
ask l 'open f f'
ask l 'open g g'
ask l "open o $RIG/other/o"
ask l 'lock f EX'
on A kill -STOP "$server"
ask l 'record g F_WRLCK' 4
is "$RESULT" 0 'a file of a server that is away is in no way of the first call'
on A kill -CONT "$server"
peer_end l

rig_config A url="redis://127.0.0.1:$PROXY/0" timeout=100ms \
	connect_timeout=50ms
peer u dl A "$BIN/record_races" unlock "$MNT/u"
hear u
ask slow hang
ask u go 15
is "$RESULT" 0 'unlocks behind who asks in vain for what an exec has left'
ask slow pass
peer_end u
rig_empty 6 'no key is left'
rig_end
