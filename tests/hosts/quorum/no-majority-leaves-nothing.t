#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Who gets some masters and no majority gives up what he got, everywhere: also
# where he had no answer.  And a killed holder's next local waiter has the lock
# at once, by proof at each master.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"

KEY=
foreign()
{
	local i

	for i; do
		m "$i" set "$KEY" somebody px 60000 >/dev/null
	done
}

gone()
{
	local i

	for i; do
		m "$i" del "$KEY" >/dev/null
	done
}

has_no_key()
{
	[ "$(m "$1" exists "$KEY")" = 0 ]
}

rig_start disks
rig_configs ttl=60s timeout=5s connect_timeout=300ms restart_delay=0s
KEY=dlock:$MNT/f
locker a dl A
ask a 'open a f'
ask a 'lock a EX'	# all know the scripts
ask a 'lock a UN'

foreign 1 2
ask a 'lock a EX NB'
is "$RESULT" EAGAIN 'two of three are somebody else'\''s: refused'
ok 'and nothing is left at the third' until_true 2 has_no_key 3
is "$(m 1 get "$KEY")" somebody 'nor taken from the others'
say a 'lock a EX'
gone 1 2
hear a 5
is "$RESULT" 0 '... has it when they are gone'
ask a 'lock a UN'
ok 'it is free' until_true 2 has_votes f 0

foreign 2
ask a 'lock a EX NB'
is "$RESULT" 0 'one of three is: granted'
is "$(m 2 get "$KEY")" somebody 'and that one stays as it is'
ask a 'lock a UN'
gone 2

foreign 1
master_stop 3
ask a 'lock a EX NB'
is "$RESULT" EAGAIN 'one is, and one hangs: perhaps somebody has both'
master_cont 3
ok 'nothing is left there, by what was not answered' \
	until_true 5 has_no_key 3
ok 'nor at the second' until_true 5 has_no_key 2
gone 1

# --- proof of death -------------------------------------------------------------

peer_end a	# to whom one of them is away yet
locker a dl A
ask a 'open a f'
locker h dl A
ask h 'open h f'
ask h 'lock h EX'
ask h pid
pid=$RESULT
say a 'lock a EX'
ok 'a local waiter waits in the kernel' until_true 5 \
	on A grep -q -- '-> FLOCK' /proc/locks
on A kill -KILL "$pid"
killed=$(now)
hear a 5
is "$RESULT" 0 'its holder is killed, and the waiter has the lock'
in_time $(((END - killed) / 1000000)) 300 'in milliseconds'
ok 'at a majority at least' [ "$(votes f)" -ge 2 ]
ask a 'lock a UN'
rig_end
