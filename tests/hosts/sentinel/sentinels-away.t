#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# No Sentinel answers, by hanging or by being gone, and every connection to the
# master breaks: the one that they named last is a master still, by its own word, so
# leases are renewed there and locks are granted.
RIG_MODE=sentinel
. "${0%/*}/../../lib/rig.sh"

# Its ttl has grown since the last look.
is_renewed()
{
	local was=$left

	left=$(m 1 pttl "$KEY")
	[ "$left" -gt "$was" ]
}

begins_to_end()
{
	left=$(m 1 pttl "$KEY")
	[ "$left" -gt 0 ] && [ "$left" -lt 8500 ]
}

both_are_there()
{
	[ "$(m 1 client list | grep -c ' name=dlock-')" -ge 2 ]
}

is_free()
{
	[ "$(m 1 exists "$KEY")" = 0 ]
}

# breaks HOW
breaks()
{
	m 1 client kill type normal >/dev/null
	ok "$1: a connection breaks, and the lease runs" until_true 9 begins_to_end
	ok '... and is renewed' until_true 9 is_renewed
	ask a 'lock a UN'
	is "$RESULT" 0 '... and is released'
	ok '... there' until_true 9 is_free
	m 1 client kill type normal >/dev/null
	ask a 'lock a EX' 20
	is "$RESULT" 0 '... and granted anew'
	is "$(m 1 exists "$KEY")" 1 '... there'
}

rig_start disks
KEY=dlock:$MNT/f
rig_configs ttl=9s timeout=8s connect_timeout=1s restart_delay=0s
locker a dl A
ask a 'open a f'
ask a 'lock a EX' 20
is "$RESULT" 0 'a lock'
ok 'its keeper has a connection, too' until_true 20 both_are_there
kill -STOP "${SENTINEL_PID[@]}"
breaks 'they hang'
kill -KILL "${SENTINEL_PID[@]}"
breaks 'they are gone'
is "$(cat "$RIG/a.err")" '' 'nothing is said'
ask a 'lock a UN'
peer_end a
done_testing
