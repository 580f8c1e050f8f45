#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Two of three masters are away: nobody is granted anything, within the timeout,
# and who holds a lock is told in time.  And of a holder that is cut off from
# two of them nobody gets the lock before it has been told that it has not.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"

ms()
{
	echo $(((END - START) / 1000000))
}

says()
{
	grep -q "$2" "$RIG/$1"
}

# Masters that stand still for less are there.
TIMEOUT=3 # s
# ... and so is who has a lease, until he is cut off.
TTL=6 # s

rig_start disks
: >"$RIG/log"
rig_configs ttl=${TTL}s timeout=${TIMEOUT}s connect_timeout=300ms restart_delay=0s \
	path_more='on_lost = "report"'
export DLOCK_LOG=warning

# --- two are dead, or hang ----------------------------------------------------

for how in kill stop; do
	locker a dl A
	locker b dl B
	ask a 'open a f'
	ask b 'open b f'
	ask a 'lock a EX'
	is "$RESULT" 0 "$how: a lock is held"
	"master_$how" 2
	"master_$how" 3
	for mode in '' ' NB'; do
		ask b "lock b EX$mode"
		is "$RESULT" ENOLCK "$how: ENOLCK${mode:+, LOCK_NB}"
		in_time "$(ms)" $((TIMEOUT * 1000 + 200)) "$how: within the timeout (ms)" 200
	done
	like "$(cat "$RIG/b.err")" ' of 3 masters answered, 2 must: ' \
		"$how: it is said which"
	ok "$how: the holder is told" until_true $((TTL + 3)) says a.err 'is LOST'
	if [ "$how" = kill ]; then
		master_up 2
		master_up 3
	else
		master_cont 2
		master_cont 3
	fi
	ask a 'lock a UN'
	ask b 'lock b EX' 20
	is "$RESULT" 0 "$how: they are back, and it is granted"
	ask b 'lock b UN'
	peer_end b a
done
rig_empty $((TTL + 3))

# --- a holder in a minority ----------------------------------------------------

real=("${MASTER_PORT[@]}")
for i in 2 3; do
	proxy "p$i" "${MASTER_PORT[i]}"
	MASTER_PORT[i]=$PROXY
done
rig_config A ttl=${TTL}s timeout=${TIMEOUT}s connect_timeout=300ms restart_delay=0s \
	path_more='on_lost = "report"'
MASTER_PORT=("${real[@]}")
MASTER_PORT[0]=0
for how in hang refuse; do
	locker a dl A
	locker b dl B
	ask a 'open a f'
	ask b 'open b f'
	ask a 'lock a EX'
	is "$RESULT" 0 "$how: a lock is held"
	ok "$how: by all" until_true 5 has_votes f 3
	say b 'lock b EX'
	for i in 2 3; do
		ask "p$i" "$how"
	done
	hear b 20
	is "$RESULT" 0 "$how: cut off from two, another host is granted it"
	ok "$how: ... and the holder is told" until_true 3 says a.err 'is LOST'
	ok "$how: ... for it was no majority's any more" [ "$(votes f)" -ge 2 ]
	for i in 2 3; do
		ask "p$i" pass
	done
	ask b 'lock b UN'
	peer_end b a
	ok "$how: nothing is left" until_true 10 db_is_empty
done
rig_end
