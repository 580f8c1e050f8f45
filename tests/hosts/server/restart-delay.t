#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Delayed restart (L5): a server that has forgotten everything grants nothing
# until all that it had granted is surely over; holders put theirs back.
. "${0%/*}/../../lib/rig.sh"

DELAY=6000			# ms: the holder's lease outlives the restart

key_is_back()
{
	[ "$(rr get "$KEY")" = "$token" ]
}

rig_start disks
rig_configs ttl=$((DELAY / 1000))s timeout=3s restart_delay=$((DELAY / 1000))s
KEY=dlock:$MNT/f
until_true 9 redis_is_old 7

locker a dl A
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'an old server grants'
token=$(rr get "$KEY")

# Who asks is there before: the server is young for so long only.
locker w dl B
ask w 'open a free'
locker n dl B
ask n 'open a free2'
peer q dl B "$BIN/records" tell
ask q "open a $MNT/free3"

redis_kill
born=$(now)
redis_up
up=$(now)
# (It has begun empty; the holder's own may be back already.)
unlike "$(rr keys '*')" "$MNT/free" 'restarted, and nothing else is there'

# A waiter for another file, which nobody holds, and a LOCK_NB.
say w 'lock a EX'
ask n 'lock a EX NB'
is "$RESULT" ENOLCK 'LOCK_NB: ENOLCK while the server is young'
in_time $(((END - START) / 1000000)) 1200 'and within the timeout (ms)' 200
is "$(grep -c . "$RIG/n.err")" 1 'one log line'
like "$(cat "$RIG/n.err")" '[0-9]' 'which says how long'
ask q 'get a W 0 1'
is "$RESULT" ENOLCK 'F_GETLK: nobody knows whether somebody has it'

ok "the holder puts its lease back within the window" \
	until_true 2 key_is_back
in_time $((($(now) - up) / 1000000)) $DELAY 'before the window ends (ms)'

hear w 10
is "$RESULT" 0 'the waiter is granted its lock in the end'
note "granted $(((END - born) / 1000000)) ms after the restart"
at_least $(((END - born) / 1000000)) $DELAY \
	'not before the delay is over (ms)'
in_time $(((END - up) / 1000000)) $((DELAY + 1500)) 'nor long after it (ms)' 1500
is "$(grep -c . "$RIG/w.err")" 1 'the waiter logged one line'
diag_log=$(cat "$RIG/w.err")
note "$diag_log"
like "$diag_log" '[0-9]+ ?m?s' 'which says how long'

key_is_back
is "$(rr get "$KEY")" "$token" 'the holder holds as before'
ask n 'open b f'
ask n 'lock b EX NB'
is "$RESULT" EAGAIN 'and excludes'
ask a 'lock a UN'
ask w 'lock a UN'
rig_end
