#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A server that is away has taken its unix socket along: what it could not be told
# is told again after a pause each time, and not without end; and when it is back
# the release is the ordinary one, which wakes who waits.
. "${0%/*}/../../lib/rig.sh"

RESEND=100			# ms

# By the holder's process and its threads.
connects()
{
	grep -c 'connect(' "$RIG/strace"
}

has_tried()
{
	[ "$(connects)" -ge "$1" ]
}

# The script by its name, and not by its text: that one wakes nobody.
released_by()
{
	rr info commandstats | tr -d '\r' |
		sed -n "s/^cmdstat_$1:calls=\([0-9]*\),.*/\1/p"
}

rig_start disks
# (Its memory is the same one, as after a restart with all that it had.)
ln -s "$RIG/redis.sock" "$RIG/by.sock"
rig_configs url="unix://$RIG/by.sock" ttl=30s timeout=10s
peer a on A strace -f -qq -e trace=connect -e signal=none \
	-o "$RIG/strace" -E LD_PRELOAD="$SHIM" -E DLOCK_CONFIG="$RIG/A.conf" "$BIN/locker"
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'a lock'
rm "$RIG/by.sock"
r client kill type normal >/dev/null
before=$(connects)
began=$(now)
ask a 'lock a UN'
is "$RESULT" 0 'is unlocked while there is no socket'
ok 'the server is asked for again' until_true 10 has_tried $((before + 5))
pause 500
tries=$(($(connects) - before))
# (Each attempt is made of two at most: an unlock's, a look of the thread's.)
at_most "$tries" $((2 * ($(now) - began) / 1000000 / RESEND + 4)) \
	'... after a pause each time'
r config resetstat >/dev/null
ln -s "$RIG/redis.sock" "$RIG/by.sock"
rig_empty 10 'it is back: released'
is "$(released_by eval)" '' '... by no text of a script'
at_least "$(released_by evalsha)" 1 '... but by its name'
peer_end a
rig_end
