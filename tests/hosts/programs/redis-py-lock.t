#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A program of another lock library (python3-redis) and flock(2) at one key:
# each keeps the other out, under load, and neither starves.  HERD_SECONDS is
# how long each pair is watched.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

SECONDS_EACH=${HERD_SECONDS:-3}
LEAST=5				# per cent of all grants

# python HOLD_US SLEEP: one that locks by redis-py.
python()
{
	"${HOW_PYTHON:-/usr/bin/python3}" "$TOP/tests/programs/herd_redis.py" \
		"$RIG/herd.out" py. "$RIG/redis.sock" "$KEY" "$1" \
		"$SECONDS_EACH" "$2" &
}

# Four of each, on hosts of their own.
both()
{
	local sleep=$1

	herd_new
	herd one "$RUN" A
	herd two "$RUN" B
	python 1000 "$sleep"
	python 5000 "$sleep"
	python 1000 "$sleep"
	python 5000 "$sleep"
	drive one 1 EX 1000 "${SECONDS_EACH}s" h
	drive two 1 EX 5000 "${SECONDS_EACH}s" h
	drive one 1 EX 5000 "${SECONDS_EACH}s" h
	drive two 1 EX 1000 "${SECONDS_EACH}s" h
	each_done 8 $((SECONDS_EACH + 15)) || return 1
	wait
	herd_report
	theirs=$(grep -c '^+ py\.' "$RIG/herd.out")
	ours=$((GRANTS - theirs))
	note "$RUN, sleep=$sleep: $ours ours, $theirs theirs, $OVERLAPS at" \
		"the same time, the longest wait $WORST_MS ms"
	[ "$OVERLAPS" = 0 ]
}

# per_cent PART: of GRANTS
per_cent()
{
	echo $((100 * $1 / GRANTS))
}

# again SLEEP: those who poll look some hundred times in a round, which is few:
# who has less than it should have has two rounds more.
again()
{
	local try

	for try in 1 2; do
		if [ "$(per_cent "$theirs")" -ge "$LEAST" ] &&
		   [ "$(per_cent "$ours")" -ge "$LEAST" ]; then
			return
		fi
		both "$1" || fail "one at a time, in round $((try + 1)) too"
	done
}

rig_start disks
KEY=shared-with-others
rig_configs ttl=5s connect_timeout=300ms "path_more=key = \"$KEY\"
    interop = true"

# --- one at a time ------------------------------------------------------------

locker a dl A
ask a 'open f f'
ask a 'lock f EX'
is "$RESULT" 0 'ours is granted'
is "$(r set "$KEY" theirs NX PX 60000)" '(nil)' '... and keeps theirs out'
ask a 'lock f UN'
is "$(r set "$KEY" theirs NX PX 60000)" OK 'theirs is granted'
ask a 'lock f EX NB'
is "$RESULT" EAGAIN '... and keeps ours out'
say a 'lock f EX'
until_true 5 queue_is 1
begin=$(now)
r del "$KEY" >/dev/null
hear a
is "$RESULT" 0 '... and ours has it when theirs is released'
in_time $(((END - begin) / 1000000)) 300 '... soon (ms)'
ask a 'lock f UN'
rig_empty 2 '... no key is left'

# --- a local program in the way -----------------------------------------------

# The first waiter is told to ask, and cannot: the next one is.
for name in b c; do
	locker "$name" dl B
	ask "$name" 'open f f'
done
ask b 'lock f EX'
say a 'lock f EX'
until_true 5 queue_is 1 || rig_die 'no waiter'
locker bare on A
ask bare 'open f f'
ask bare 'lock f EX NB'
is "$RESULT" 0 'a program without dlock locks while ours waits'
say c 'lock f EX'
begin=$(now)
ask b 'lock f UN'
hear c 5
is "$RESULT" 0 '... another host has the lock all the same'
in_time $(((END - begin) / 1000000)) 2000 '... within a claim (ms)' 500
ask c 'lock f UN'
ask bare 'lock f UN'
hear a
is "$RESULT" 0 '... and ours, when that is gone'
ask a 'lock f UN'
peer_end bare
rig_empty 2 '... no key is left'

# --- under load ---------------------------------------------------------------

three_ways 'redis-py (sleep=0.1) and flock' both 0.1
again 0.1
at_least "$(per_cent "$theirs")" $LEAST '... theirs do not starve (per cent)'
at_least "$(per_cent "$ours")" $LEAST '... nor ours (per cent)'
RUN=dl
ok 'redis-py (sleep=0.01) and flock' both 0.01
again 0.01
at_least "$(per_cent "$theirs")" $LEAST '... theirs do not starve (per cent)'
at_least "$(per_cent "$ours")" $LEAST '... nor ours (per cent)'
rig_empty 2 'no key is left'

# Without interop theirs are excluded as well.
rig_configs ttl=5s connect_timeout=300ms "path_more=key = \"$KEY\""
locker a dl A
ask a 'open f f'
r set "$KEY" theirs PX 60000 >/dev/null
say a 'lock f EX'
until_true 5 queue_is 1
begin=$(now)
r del "$KEY" >/dev/null
hear a
is "$RESULT" 0 'without interop: ours has it when theirs is released'
in_time $(((END - begin) / 1000000)) 250 '... soon (ms)'
ask a 'lock f UN'
ok 'redis-py (sleep=0.1) and flock without interop' both 0.1
at_least "$(per_cent "$ours")" $LEAST '... ours do not starve (per cent)'
rig_end
