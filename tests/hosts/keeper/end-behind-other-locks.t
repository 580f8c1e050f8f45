#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# A lock that its keeper is to see the end of, and that is followed at once by
# another of its host, a reader's or a writer's, for longer than a lease lives:
# the keeper's own wait in the kernel goes on, and it does not see the end.  Nobody
# is said to have lost anything, and nobody is stopped: also if the server forgets
# all, and the keeper is the first one who puts something back.
. "${0%/*}/../../lib/rig.sh"

# waits_in_kernel PID: and not the keeper, who waits as well
waits_in_kernel()
{
	on A grep -q -- "-> FLOCK .* $1 " /proc/locks
}

is_carried()
{
	grep -q "the keeper's to carry on, too" "$RIG/said"
}

# Its renewal was just now: so a server is away for no longer than until the next one
# but one.
is_fresh()
{
	[ "$(rr pttl "dlock:$MNT/$1")" -gt $((TTL * 1000 - 800)) ]
}

# followed_by SH|EX [forgets]
followed_by()
{
	local name="$1, $on_lost${2:+, the server forgets}" pid

	: >"$RIG/said"
	locker first dl A
	locker next dl A
	ask next pid
	pid=$RESULT
	ask first "open f $1"
	ask next "open f $1"
	ask first 'lock f EX'
	is "$RESULT" 0 "$name: the first one has the lock"
	say next "lock f $1"
	ok "$name: its keeper has it, too" until_true 5 is_carried
	ok "$name: the next one waits for it" until_true 5 waits_in_kernel "$pid"
	ask first 'close f'
	hear next
	is "$RESULT" 0 "$name: it is closed, and the next one has it"
	if [ -n "${2-}" ]; then
		until_true 10 is_fresh "$1"
		redis_kill
		redis_up
		until_true 15 redis_is_old $((TTL + 2))
	fi
	# (What has not been renewed for a TTL is lost; and a server that is begun anew
	# is there before that, on a busy machine as well.)
	sleep $((TTL * 3 / 2))
	is "$(grep LOST "$RIG"/first.err "$RIG"/next.err "$RIG/said")" '' \
		"$name: nobody has lost anything"
	is "$(rr xlen "{dlock:$MNT/$1}%h")" 0 "$name: nor is that kept"
	ok "$name: and nobody is stopped" on A kill -0 "$pid"
	ask next 'lock f UN'
	is "$RESULT" 0 "$name: it unlocks"
	peer_end first next
	ok "$name: no key is left" until_true 5 db_is_empty
}

TTL=6
export DLOCK_LOG
rig_start disks
until_true 15 redis_is_old $((TTL + 2))
DLOCK_LOG=debug:$RIG/said
for on_lost in kill hold report; do
	rig_configs ttl=${TTL}s restart_delay=${TTL}s \
		path_more="on_lost = \"$on_lost\""
	followed_by SH
	followed_by EX
	followed_by SH forgets
	followed_by EX forgets
done
rig_end
