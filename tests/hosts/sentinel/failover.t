#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# By Sentinels: the master is found, and followed.  Who holds a lock keeps it over
# a failover and back; nothing is granted for one restart delay after each, though
# a master that was one before has its scripts still.
RIG_MODE=sentinel
. "${0%/*}/../../lib/rig.sh"

# Four are asked within it, and A's lease outlives a failover.
DELAY=10

# The key is there, at server I.
has()
{
	[ "$(m "$1" exists "dlock:$MNT/$2")" = 1 ]
}

# promoted I: when it became a master, by its log (ms)
promoted()
{
	local log=$RIG/redis$1.log at

	[ "$1" != 1 ] || log=$RIG/redis.log
	at=$(sed -n 's/^[^ ]* \(.*\) \* MASTER MODE enabled.*/\1/p' "$log" |
		tail -n 1)
	date +%s%3N -d "${at:-tomorrow}"
}

rig_start disks
rig_configs ttl=${DELAY}s timeout=5s connect_timeout=1500ms \
	restart_delay=${DELAY}s
until_true 20 redis_is_old $((DELAY + 1))
locker a dl A
ask a 'open a f'
ask a 'lock a EX' 20
is "$RESULT" 0 'A has a lock, by the master that is named'
is "$(m 1 exists "dlock:$MNT/f")" 1 '... at that one'
dl B flock -n f true
ok 'B does not get it' test "$?" != 0
dl B flock -n free true
is "$?" 0 'B gets another one'
locker b dl B
ask b 'open b g'
ask b 'lock b EX'
is "$RESULT" 0 '... and one that goes on'
ask b 'lock b UN'

for to in 2 1; do
	failover
	is "$MASTER" "$to" "server $to is the master"
	is "$(info_of $((3 - to)) role)" master \
		'... and who was it before takes itself for one (control)'
	ask b 'lock b EX NB'
	is "$RESULT" ENOLCK '... by whom nobody is granted anything'
	dl B flock -n free true 2>"$RIG/err"
	ok '... nobody is granted what nobody holds' test "$?" != 0
	like "$(cat "$RIG/err")" 'grants nothing' '... and is told why'
	ok "A's lease is there" until_true 5 has "$to" f
	dl B flock -w 30 free true 2>"$RIG/err"
	is "$?" 0 '... who waits has it in the end'
	at_least $(($(date +%s%3N) - $(promoted "$to"))) $((DELAY * 1000 - 100)) \
		'... after one delay (ms)'
	dl B flock -n f true 2>/dev/null
	ok "A's lock is held as before" test "$?" != 0
	demote
done
ask a 'lock a UN'
is "$RESULT" 0 'A unlocks'
is "$(cat "$RIG/a.err")" '' '... and was never told of a loss'
dl B flock -n f true
is "$?" 0 'B has it then'
done_testing
