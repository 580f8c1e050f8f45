#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# The timer that kills a holder in time (L6), in processes where it is not alone,
# or cannot be: beside the program's own timers, which go on; deleted by the
# program; forbidden by RLIMIT_SIGPENDING, which is said once; and in process 1
# of a container, which a timer does not kill.  Cut off from Redis each holder is
# dead before its deadline all the same.
#
# A holder that has a handler of SIGTERM is asked to end at two thirds of its ttl,
# and has the time for it; one that stays is killed, one without is not disturbed.
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/losers.sh"

DEADLINE=5938 # ms, of a ttl of 6 s; the timer comes 200 before it

configs()
{
	rig_configs ttl=6s
	rig_config A ttl=6s url="redis://127.0.0.1:$PROXY/0"
}

# cut_off FILE PID: the holder dies; $TOOK ms after it was cut off
cut_off()
{
	PIDS=("$2")
	watch_deaths
	ask proxy hang >/dev/null
	CUT=$(now) # (until then it may be renewed)
	hear deaths 20 || rig_die "$1 lives"
	TOOK=$(((START - CUT) / 1000000))
	ask proxy pass >/dev/null
}

# in_good_time NAME
in_good_time()
{
	in_time "$TOOK" $((DEADLINE - 1)) \
		"$1: dead before its deadline, $TOOK ms after the cut" 200
}

# dies NAME FILE PID
dies()
{
	cut_off "$2" "$3"
	in_good_time "$1"
	ok '... and not long before it' test "$TOOK" -gt 1400
}

rig_start disks
proxy proxy
configs

# --- the program's own timers -------------------------------------------------

bare=$(on A "$BIN/guest_timers" bare)
like "$bare" 'both came.*both came' 'bare: timers come'
is "$(dl A "$BIN/guest_timers" beside)" "$bare" \
	'beside a lock its own timers are as they are bare'
peer all dl A "$BIN/guest_timers" all all
hear all
at_least "$START" 2 'one deletes all timers, its own and another one, and holds on'
# (It, and not what has its name yet and will be a keeper.)
pid=$(pgrep -o -f "^$BIN/guest_timers all all")
has_timer()
{
	grep -q '^signal: 9/' "/proc/$pid/timers"
}
ok '... there is one again' until_true 5 has_timer
kill -STOP "$pid"
dies 'deleted, made anew, and the program stopped' all "$pid"
peer_end all
rr flushall >/dev/null

# --- no timer -----------------------------------------------------------------

survivor_of()
{
	local name=$1

	shift
	peer "$name" dl A "$@" "$BIN/lease_loser" plain "$MNT/$name" \
		"$MNT/$name.journal"
	hear "$name"
	is "$HEARD" held "$name: holds"
}

survivor_of limit prlimit --sigpending=0
pid=$(survivor_pid limit)
is "$(cat "/proc/$pid/timers")" '' 'RLIMIT_SIGPENDING of 0: it has no timer'
said()
{
	[ "$(grep -c 'no timer that would stop this process.*RLIMIT_SIGPENDING' \
		"$RIG/limit.err")" = 1 ]
}
ok '... and says so once' until_true 5 said
dies 'without a timer' limit "$pid"
ok '... said once' said

survivor_of first unshare -p -f --mount-proc --kill-child
pid=$(survivor_pid first)
like "$(grep NSpid "/proc/$pid/status")" '[[:space:]]1$' 'it is process 1'
is "$(cat "/proc/$pid/timers")" '' '... and has no timer'
dies 'process 1' first "$pid"
like "$(cat "$RIG/first.err")" 'is LOST: .* killed' \
	'... by its own word'

# --- SIGTERM ------------------------------------------------------------------

# asked HOW: $ASKED ms after the cut it was asked to end
asked()
{
	survivor "$1" "$1" "$1"
	cut_off "$1" "$(survivor_pid "$1")"
	hear "$1" || return 1
	ASKED=$(((START - CUT) / 1000000))
	note "$1: asked after $ASKED ms, dead after $TOOK"
	[ "$RESULT" = asked ]
}

# (From there to its end there are less than two seconds: it has a core for them.)
SURVIVOR_BY='nice -n -20'
ok 'a handler of SIGTERM is called' asked handler
in_time "$ASKED" 4200 '... when two thirds of the ttl are over'
hear handler
is "$HEARD" ended '... and has the time to unlock and to end'
unlike "$(cat "$RIG/handler.log")" LOST '... so nothing was lost'
like "$(cat "$RIG/handler.log")" 'SIGTERM was sent' '... and the log says why'
ok 'one that stays is called, too' asked stays
ok '... and killed a second later' test $((TOOK - ASKED)) -gt 700
in_good_time stays
survivor plain plain plain
cut_off plain "$(survivor_pid plain)"
# (By whom, the thread or the keeper: who kills it says so afterwards.)
ok 'one without a handler is killed, at the end' until_true 5 grep -q \
	'is LOST: .* killed' "$RIG/plain.log"
unlike "$(cat "$RIG/plain.log")" SIGTERM '... and no SIGTERM is sent'
rig_empty 20
done_testing
