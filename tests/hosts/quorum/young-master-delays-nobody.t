#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Of three masters one was restarted empty, and one has somebody's lease: who asks
# is refused by that, and granted when it has gone, and does not wait until the
# young one is old.  Where two are young, that is waited for.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"

DELAY=60	# s

# Somebody has it at the first master, by whom nobody is notified.
someone_at_one()
{
	m 1 set "dlock:$MNT/$1" somebody px 60000 >/dev/null
}

# Its uptime is not yet what the delay is.
is_young()
{
	[ "$(m "$1" info server | sed -n 's/^uptime_in_seconds:\([0-9]*\).*/\1/p')" -lt \
		$((DELAY - 1)) ]
}

asked()
{
	m 1 info commandstats | sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\).*/\1/p'
}

asked_more_than()
{
	[ "$(asked)" -gt "$1" ]
}

# The first master has refused it so often since.
is_refused()
{
	until_true 5 asked_more_than $(($(asked) + $1))
}

# They were started an hour ago.
SERVER_BY="env LD_PRELOAD=$BIN/old_server.so"
rig_start disks
SERVER_BY=
rig_configs ttl=5s restart_delay=${DELAY}s timeout=30s
ok 'the masters are old' until_true 15 masters_are_old $((DELAY + 1))
locker a dl A
ask a 'open f f'
ask a 'open g g'
ask a 'lock f EX'
is "$RESULT" 0 'granted (control)'
ask a 'lock f UN'
ask a 'range g F_WRLCK 0 10'
is "$RESULT" 0 '... and a range'
ask a 'range g F_UNLCK 0 10'
master_kill 3
master_up 3

someone_at_one f
ask a 'lock f EX NB'
is "$RESULT" EAGAIN 'one has it at a master, another one is young: it is his'
say a 'lock f EX'
is_refused 3
m 1 del "dlock:$MNT/f" >/dev/null
hear a
is "$RESULT" 0 '... and is granted when he has gone'
someone_at_one g%rec
say a 'range g F_WRLCK 0 10 WAIT'
is_refused 3
m 1 del "dlock:$MNT/g%rec" >/dev/null
hear a
is "$RESULT" 0 '... of a range, too'
ok '... though it is young still' is_young 3
ask a 'lock f UN'
ask a 'range g F_UNLCK 0 10'

master_kill 2
master_up 2
master_kill 3
master_up 3
ask a 'lock f EX NB'
is "$RESULT" ENOLCK 'two are young: nobody can tell (control)'
peer_end a
rig_end
