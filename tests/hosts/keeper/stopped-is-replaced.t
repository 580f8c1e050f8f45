#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A keeper that does not answer is in nobody's way (DESIGN L4): the process goes
# on renewing, the keeper is killed and replaced, and whoever waits for its word
# waits for a twelfth of the ttl.  It is stopped; or a file of its is on a file
# server that does not answer.
. "${0%/*}/../../lib/rig.sh"

TTL=6000

guest()
{
	peer "$1" dl A env DLOCK_LOG="debug:$RIG/log" \
		/usr/bin/python3 "$TOP/tests/programs/obey.py"
}

keepers_stop()
{
	on A pkill -STOP -x dlock-keeper
}

are_renewed()
{
	local file left

	for file; do
		left=$(rr pttl "dlock:$MNT/$file")
		[ "$left" -ge "$least" ] || least=$left
		[ "$(token_of "$file")" = "${token[$file]}" ] ||
			{ diag "$file: another lease"; return 1; }
	done
	are_refused "$@"
}

# stay FILE...: for longer than the ttl, each is the same lease, is renewed early
# enough, and the other host is refused.
stay()
{
	local least=$TTL file
	local -A token

	for file; do
		token[$file]=$(token_of "$file")
		[ -n "${token[$file]}" ] || return 1
	done
	throughout $((TTL * 4 / 3)) 4 are_renewed "$@" || return 1
	note "never less than $least ms of $TTL left"
}

is_other_keeper()
{
	keepers A | grep -qvx "$1"
}

rig_start disks
: >"$RIG/log"
rig_configs ttl=${TTL}ms path_more='coherence = "off"'

# --- it is stopped -----------------------------------------------------------

guest a
ask a 'lock("f")'
ok 'a keeper carries the first lock' until_true 5 are_carried 1
old=$(keepers A)
on A kill -STOP "$old"
ask a 'lock("g")'
like "$RESULT" '^[0-9]+$' 'stopped: a second lock is had'
ok 'stopped: the first one stays, and so does the second' stay f g
ok 'stopped: there is another keeper' until_true 5 is_other_keeper "$old"
ok 'stopped: and the old one is dead' until_true 5 pid_is_gone_on A "$old"
ok 'stopped: which has both' until_true 5 are_carried 3
# Both die, and their locks live on in a child: who else renews them?
ask a 'child()'
child=$RESULT
ask a 'os.getpid()'
on A kill -KILL "$RESULT"
ok 'stopped: the new keeper renews them when the process is gone' stay f g
on A kill -KILL "$child"
rig_empty 10 'stopped: they end with the child'
ok 'its keeper ends' until_true 5 no_keeper A

# --- who waits for its word --------------------------------------------------

# took_ms NAME MS: the guest says how long.  The keeper has a twelfth of the ttl,
# 500 ms, and a moment; then the next one must be started.
took_ms()
{
	like "$RESULT" '^[0-9]+$' "$1: $RESULT"
	in_time "${RESULT//[!0-9]/9}" "$2" "$1: after $RESULT ms"
}

locks()
{
	ask a "ofd($1, $2)"
	[ "$RESULT" = 0 ]
}

# A description that may be shared is closed while the keeper
# is stopped and has not got it yet; the next description, by the same number,
# is another owner.
closes()
{
	: >"$RIG/log"
	guest a
	ask a 'child()'
	child=$RESULT
	ask a 'lock("f")'
	ok 'close: a keeper is there' until_true 5 are_carried 1
	keepers_stop
	ask a 'os.open("h", os.O_RDWR | os.O_CREAT)'
	fd=$RESULT
	ask a "(ofd($fd, 5), took(os.close, $fd))[1]"
	took_ms 'close: of what may be shared' 1500
	ask a 'os.open("h", os.O_RDWR)'
	is "$RESULT" "$fd" 'close: the next one has its number'
	# The kernel drops what a dead keeper had not read yet in its own time.
	ok 'close: and can lock the same byte' until_true 5 locks "$fd" 5
	ask a "ofd($fd, 7)"
	is "$RESULT" 0 'close: and another'
	ask a "free($fd, 5)"
	ask a "free($fd, 7)"
	ok 'close: no lease is left' until_true 5 is_free h%rec
	unlike "$(cat "$RIG/log")" 'LOST' 'close: none was lost'
	keepers_stop
	ask a '(lock("k"), took(child))[1]'
	took_ms 'fork: what is held goes to another keeper first' 1500
	peer_end a
	on A pkill -KILL -x python3
}

is_free()
{
	[ "$(rr exists "dlock:$MNT/$1")" = 0 ]
}
closes
rig_empty 10 'close: all is over'
ok 'close: and no keeper is left' until_true 10 no_keeper A

# --- its file server is ------------------------------------------------------

: >"$RIG/log"
mkdir "$RIG/away"
on A mkdir away
on B mkdir away
on A bindfs -o attr_timeout=0,entry_timeout=0,negative_timeout=0 \
	"$RIG/away" "$MNT/away"
server=$(on A pgrep -x bindfs)
guest a
ask a 'lock("f")'
ok 'away: a keeper carries the first lock' until_true 5 are_carried 1
old=$(keepers A)
# Before the keeper hears of it, the server is stopped.
ask a "(lock('away/g'), stop($server))[1]"
is "$RESULT" 0 'away: a second lock is had, and its server stopped'
ok 'away: the first one stays, and so does the other' stay f away/g
is "$(keepers A)" "$old" 'away: by the same keeper'
ask a 'took(child)'
took_ms 'away: fork does not wait' 500
ask a 'lock("h")'
ok 'away: a third lock is carried' until_true 5 are_carried 3
on A kill -CONT "$server"
ask a 'os.getpid()'
on A kill -KILL "$RESULT"
ok 'away: the lease goes on when the server is there again' stay away/g
on A pkill -KILL -x python3
rig_empty 10 'away: and all of them end'
rig_end
