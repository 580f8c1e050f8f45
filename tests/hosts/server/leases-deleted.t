#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A keyspace that lost its leases (DESIGN 5.4): FLUSHALL, FLUSHDB and SWAPDB take
# them away and leave a server that is old and knows all scripts.  What A holds B
# is not granted, as after a restart, and A has it back before anybody is.
. "${0%/*}/../../lib/rig.sh"

DELAY=6				# s

it_is_back()
{
	[ "$(rr get "$KEY")" = "$token" ]
}

# granted HOST FILE: at once
granted()
{
	dl "$1" flock -n "$2" true 2>>"$RIG/$1.log"
}

refused()
{
	! granted "$@"
}

# never_granted NAME: B asks for what A has until that is back, and once more
never_granted()
{
	local n=0

	until it_is_back; do
		refused B f || { diag "$1: granted"; return 1; }
		n=$((n + 1))
		[ "$n" -lt 2000 ] || { diag "$1: not back; $(rr --scan) a: $(cat "$RIG/a.err")"; return 1; }
	done
	note "$1: $n attempts until it was back"
	refused B f
}

rig_start disks
rig_configs ttl=${DELAY}s timeout=6s restart_delay=${DELAY}s
KEY=dlock:$MNT/f
until_true $((DELAY + 4)) redis_is_old $((DELAY + 1))

locker a dl A
ask a 'open a f'
ask a 'open b range'
ask a 'lock a EX'
is "$RESULT" 0 'A has a lock'
peer p dl A "$BIN/records" tell
ask p 'open a range'
ask p 'set a W 0 9'
is "$RESULT" 0 '... and another process of A a range'
token=$(rr get "$KEY")
is "$(rr exists "dlock%run:0:${DELAY}000")" 1 'the gate is there'

# --- the control: who wants no delay knows of nothing -----------------------
rig_config B ttl=${DELAY}s timeout=6s
locker b dl B
ask b 'open f f'
ask b 'lock f EX NB'
is "$RESULT" EAGAIN 'control: B is not granted it'
# (A would put it back with its next renewal.)
ask a pid
pid=$RESULT
# shellcheck disable=SC2046 # numbers
on A kill -STOP "$pid" $(all_keepers A)
rr flushall >/dev/null
ask b 'lock f EX NB'
is "$RESULT" 0 'control: without a delay there are two holders'
ask b 'lock f UN'
# shellcheck disable=SC2046 # numbers
on A kill -CONT "$pid" $(all_keepers A)
peer_end b
rig_config B ttl=${DELAY}s timeout=6s restart_delay=${DELAY}s
ok 'A has it back' until_true 3 it_is_back

# --- each way to lose all ---------------------------------------------------
range_is_held()
{
	dl B "$BIN/records" tell <<<$'open a range\nset a W 5 5' 2>/dev/null |
		grep -q '^EAGAIN'
}
# waited_for NAME: the first one says why, and the delay is not endless
waited_for()
{
	local from

	from=$(now)
	dl B flock free true 2>"$RIG/w.err"
	is "$?" 0 "$1: who waits has what is free in the end"
	in_time $((($(now) - from) / 1000000)) $((DELAY * 1000 + 500)) \
		"$1: ... after the delay (ms)" 1500
}

# (Where A has it back before B has asked, B is refused without a word: once more.)
is_told_why()
{
	: >"$RIG/B.log"
	rr flushall >/dev/null
	refused B f || early=$((early + 1))
	[ -s "$RIG/B.log" ]
}
early=0
ok 'FLUSHALL: B asks before A has it back' until_true 20 is_told_why
is "$early" 0 'FLUSHALL: ... and is not granted it'
ok 'FLUSHALL: B is never granted what A has' never_granted FLUSHALL
like "$(head -n 1 "$RIG/B.log")" \
	'its leases were deleted.*grants nothing for another [0-9]+ ms' \
	'FLUSHALL: ... and is told why'
waited_for FLUSHALL
ok 'FLUSHALL: nor is the range free' range_is_held
like "$(cat "$RIG/a.err")" 'its leases were deleted.*are put back' \
	'FLUSHALL: A is told that somebody deletes them'
is "$(grep -c LOST "$RIG/a.err" "$RIG/p.err" | tr '\n' ' ')" \
	"$RIG/a.err:0 $RIG/p.err:0 " 'FLUSHALL: nothing is lost'

rr flushdb >/dev/null
ok 'FLUSHDB: B is never granted what A has' never_granted FLUSHDB
waited_for FLUSHDB

# The other database has been used by dlock as well.
rig_config B ttl=${DELAY}s timeout=6s \
	restart_delay=${DELAY}s url="redis://127.0.0.1:$PORT/1"
ok 'another database is open from the start' granted B f
other_is_free()
{
	[ "$(rr -n 1 exists "$KEY")" = 0 ]
}
ok '... and nothing is held there' until_true 3 other_is_free
rig_config B ttl=${DELAY}s timeout=6s restart_delay=${DELAY}s
rr swapdb 0 1 >/dev/null
ok 'SWAPDB: B is never granted what A has' never_granted SWAPDB
waited_for SWAPDB
ok 'SWAPDB: nor is the range free' range_is_held

# --- and what is not that ---------------------------------------------------
r script flush >/dev/null
ok 'SCRIPT FLUSH costs nothing' granted B free
rr del "dlock%run:0" >/dev/null
ok 'nor does a mark that somebody deletes, while the gate is there' \
	granted B free
ask a 'lock a UN'
is "$RESULT" 0 'A unlocks'
ok '... and B is granted it' granted B f
peer_end p
rr -n 1 flushdb >/dev/null
rig_end
