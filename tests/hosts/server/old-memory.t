#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A server that comes back with the memory of a while ago (a snapshot, a file that
# is written each second; a replica that was promoted is the same) has leases that
# were given up since, and lacks what was granted since.  Nothing of that is lost,
# and nothing granted twice: while it grants nobody anything, who holds a lock waits
# for what is there to end, and a process, or its keeper alone, puts its ranges back.
. "${0%/*}/../../lib/rig.sh"

TTL=12				# s: what is saved lasts until the server is back

# refused QUESTION...: by host B
refused()
{
	ask b "$@"
	[ "$RESULT" = EAGAIN ]
}

granted()
{
	ask b "$@"
	[ "$RESULT" = 0 ]
}

is_owner()
{
	[ "$(rr get "dlock:$MNT/$1")" = "$2" ]
}

# Each range is three members (DESIGN 6.5).
ranges()
{
	echo $(($(rr zcard "{dlock:$MNT/$1%rec}%r") / 3))
}

is_forgotten()
{
	[ "$(rr exists "dlock:$MNT/$1%rec")" = 0 ]
}

# A keeper has asked what an owner has.
has_listed()
{
	rr info commandstats | grep -q '^cmdstat_hget:'
}

rig_start disks
rig_configs ttl=${TTL}s timeout=5s restart_delay=${TTL}s
until_true 20 redis_is_old $((TTL + 1))
for name in a c d e; do
	locker $name dl A
done
locker b dl B
for name in a b c d e; do
	ask $name 'open w f'
	ask $name 'open v e'
	ask $name 'open r g'
	ask $name 'open s h'
	ask $name 'open u i'
done

# What the memory has.
ask a 'range r F_WRLCK 0 10'
ask a 'range r F_WRLCK 40 10'
ask e 'range r F_WRLCK 80 10'
ask b 'range s F_WRLCK 0 10'
ask d 'lock u EX'
ask b 'lock v SH'
ask b 'lock w EX'
is "$RESULT" 0 'host B has two locks, and a range'
old=$(rr get "dlock:$MNT/f")
rr save >/dev/null

# What came a moment later.
ask b 'lock w UN'
ask b 'lock v UN'
ask b 'range s F_UNLCK 0 0'
ask c 'lock w EX'
is "$RESULT" 0 'host A has the one'
ask c 'lock v EX'
is "$RESULT" 0 '... the other, that was shared'
ask d 'range s F_WRLCK 5 10'
is "$RESULT" 0 '... and the range'
ask c 'lock u SH NB'
not_yet=$RESULT
ask d 'lock u SH'
ask b 'lock u SH'
is "$not_yet $RESULT" 'EAGAIN 0' '... and who had one alone shares it'
new=$(rr get "dlock:$MNT/f")
ask a 'range r F_WRLCK 20 10'
ask a 'range r F_UNLCK 40 10'
ask e 'range r F_WRLCK 100 10'
is "$RESULT $(ranges g)" '0 4' '... and ranges more, and one less'
rr config resetstat >/dev/null
ask e 'exec'
ok 'one is another program now, so that its keeper alone has its ranges' \
	until_true 10 has_listed

redis_kill
redis_up
ok 'the server is back, and what it has is old' is_owner f "$old"
for what in 'lock w EX NB' 'lock v EX NB' 'range s F_WRLCK 5 1' \
	'range r F_WRLCK 20 1' 'range r F_WRLCK 40 1'; do
	ask b "$what"
	is "$RESULT" ENOLCK "it grants nothing: $what"
done
ok 'who had the lock at last gets it back' until_true $((2 * TTL)) is_owner f "$new"
ok 'the delay is over' until_true $((2 * TTL)) granted 'range r F_WRLCK 40 10'
for what in 'lock w EX NB' 'lock v SH NB' 'range s F_WRLCK 5 1' \
	'range r F_WRLCK 0 1' 'range r F_WRLCK 29 1' 'range r F_WRLCK 100 1' \
	'range r F_WRLCK 80 1'; do
	ok "host B is refused: $what" refused "$what"
done
is "$(ranges g)" 5 'all ranges are there, and B has the one that was given up'
for name in a b c d e; do
	ask $name pid
	at_least "${RESULT:-0}" 1 "$name lives"
done
is "$(grep -h LOST "$RIG"/*.err)" '' 'nothing was lost'
peer_end a b c d e
# (Of B's old range a part was in nobody's way.)
ok 'what is left of the old memory ends by itself' \
	until_true $((2 * TTL)) is_forgotten h
rig_end
