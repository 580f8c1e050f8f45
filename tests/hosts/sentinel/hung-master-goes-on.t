#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A master hangs while a process has two connections to it; by one of them it gets no
# answer, and so finds the next master.  Then the first one goes on, and takes itself
# for the master: by the other connection it is asked for nothing more.
RIG_MODE=sentinel
. "${0%/*}/../../lib/rig.sh"

# Who locks a file asks Redis with the kernel's lock in hand.
is_asked_for()
{
	! on A flock -n "$1" true
}

# thread_locks NAME: and nobody waits for it
THREAD="__import__('threading').Thread"
thread_locks()
{
	ask a "[t for t in [$THREAD(target=lock, args=('$1',))] if not t.start()]"
}

# It has ended, and what was locked is free.
thread_ends()
{
	ask a "[t.join() for t in __import__('threading').enumerate()[1:]]" 40
	ask a 'os.closerange(3, 1024)'
}

# Two threads, each by a connection, ask a server that grants nothing meanwhile.
has_two()
{
	m 1 client pause 60000 WRITE >/dev/null
	thread_locks x
	until_true 5 is_asked_for x
	say a "lock('y')"
	until_true 5 are_two
	m 1 client unpause >/dev/null
	hear a 40
	thread_ends
	are_two
}

are_two()
{
	[ "$(m 1 client list | grep -c "name=dlock-$P ")" = 2 ]
}

is_free_at_first()
{
	[ "$(m 1 exists "dlock:$MNT/x" "dlock:$MNT/y")" = 0 ]
}

gets()
{
	ask a "lock('$1')" 40
	[[ $RESULT != *[!0-9]* ]]
}

# Who would refuse a lock?  (What asks for nothing is not taken back, which any open
# connection would do for.)
WHOLE="struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)"
probes()
{
	ask a "fcntl.fcntl($Z, fcntl.F_GETLK, $WHOLE)[0]" 40
	[ "$RESULT" = 2 ] # F_UNLCK
}

rig_start disks
rig_configs ttl=30s timeout=5s connect_timeout=3s restart_delay=1s
peer a dl A /usr/bin/python3 "$TOP/tests/programs/obey.py"
ask a 'os.getpid()'
P=$RESULT
until_true 20 gets x
thread_ends
# (What a Sentinel publishes waits for the end of a pause, too, and its ping behind it:
# none is to take the master for dead.)
each_sentinel sentinel set rig down-after-milliseconds 600000
ok 'a process has two connections to the master' until_true 60 has_two
each_sentinel sentinel set rig down-after-milliseconds "$DOWN_MS"
# (What it has given up to wait for may be granted when the pause is over: for a ttl.)
ok '... and has given back what it locked by them' until_true 40 is_free_at_first
ask a "os.open('z', 66)"
Z=$RESULT
kill -STOP "$REDIS_PID"
probes
is "$RESULT" ENOLCK '... which hangs'
ok 'another one is made the master' until_true 40 failed_over 2
ok '... and the process finds it' until_true 30 probes

# Nobody tells the first one; and the new one takes its time.
kill -STOP "${SENTINEL_PID[@]}"
kill -CONT "$REDIS_PID"
is "$(info_of 1 role)" master 'the first one goes on as a master (control)'
m 2 client pause 60000 WRITE >/dev/null
thread_locks x
until_true 5 is_asked_for x
ask a "lock('y')" 40
is "$RESULT" ENOLCK '... and is not asked by who has a connection to it still'
thread_ends
is "$(m 1 exists "dlock:$MNT/x" "dlock:$MNT/y")" 0 '... nor has granted anything'
m 2 client unpause >/dev/null
kill -CONT "${SENTINEL_PID[@]}"
peer_end a
done_testing
