#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Waits in the queue that signals end again and again: each call does as the
# kernel's would (signals-in-a-wait.t), who waits keeps its place, nobody else is
# kept waiting, and nothing leaks.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

SIGNALS=${HERD_SIGNALS:-1000}

clients()
{
	rr client list | grep -c 'name=dlock-'
}

# beside HOW: one whose waits are ended, among six that nobody disturbs.
beside()
{
	herd_new
	drive one 1 EX 1000 2s "h$1"
	one=one.${PIDS[0]}
	drive one 3 EX 1000 2s h
	drive two 3 EX 1000 2s h
	ok "$1: all are done" each_done 7 15
	herd_report
	its=$(grep -c "^+ $one " "$RIG/herd.out")
	note "$1: $GRANTS grants, $its of the one; $ENDED waits were ended;" \
		"the longest wait $WORST_MS ms"
	is "$OVERLAPS" 0 "$1: one at a time"
	# A call that fails with EINTR has lost its place, as in the kernel; one
	# that goes on has not.
	case $1 in
	- | r)
		at_least $((700 * its / GRANTS)) 33 \
			"$1: it has a third of its share at least (per cent)"
		;;
	esac
	often "$GRANTS" 200 "$1: and the others go on" 2000
}

first_is_waited_for()
{
	[ "$(rr hlen "{$KEY.first}%q")" -ge 5 ]
}

# Three wait for a holder until they have been ended $SIGNALS times, after they
# have done so for a moment: what is for all of their waits they have by then.
long()
{
	locker h dl B
	ask h 'open f f'
	ask h 'lock f EX'
	is "$RESULT" 0 'long: another host holds it'
	ask h 'open i f.first'
	ask h 'lock i EX'
	herd_new
	for how in e r j; do
		drive one 1 EX 0 2 "hw$how"
	done
	ok 'long: all wait, for the first time' until_true 5 first_is_waited_for
	ask h 'lock i UN'
	ok 'long: and have it' until_true 5 granted 3
	sleep $((SIGNALS * 3 / 1000 + 1))
	had=$(clients)
	ask h 'lock f UN'
	ok 'long: all have it then' each_done 3 5
	herd_report
	note "long: $ENDED waits were ended, $FDS descriptors and $PAGES" \
		"pages more, $had connections"
	often "$ENDED" "$SIGNALS" 'long: it was ended so often' \
		$((SIGNALS * 3 + 1000))
	# (A keeper's socket may be new: one of them had the lock for 50 ms.)
	at_most "$FDS" 1 'long: no descriptor is left of each wait'
	at_most "$PAGES" 64 'long: nor memory (pages)'
	# (On a busy machine each of them has had it for long enough for a keeper.)
	at_most "$had" 11 "long: nor a connection (two each, and a keeper's)"
	rig_empty 4 'long: no key is left'
}

# What a jump leaves on the thread's stack must not be called when it ends; and
# a SIGURG that the program blocks is for whoever waits for it.
odd_signals()
{
	local came=0

	is "$(dl A timeout 100 "$BIN/jump_from_wait" exit f; echo $?)" $'joined\n0' \
		'a thread that jumped out of a wait ends'
	peer u dl A "$BIN/jump_from_wait" urgent f 20
	hear u
	while [ "$came" -lt 20 ] && dl A pkill -URG -x jump_from_wait && hear u 5 &&
		[ "$HEARD" = next ]; do
		came=$((came + 1))
	done
	hear u 5
	is "$came:$HEARD" '20:urgent 20' 'each SIGURG is heard'
	peer_end u
}

# swapped RUN LOCK: a handler lets the descriptor be another file's, and
# the call that goes on is one for that file, as the kernel restarts it.
swapped()
{
	local begin

	locker s "$1" A
	ask s 'open f f'
	ask s 'open g g'
	ask s 'swap f g 200'
	begin=$START
	ask s "${2/SLOT/f}" 5
	is "$RESULT" 0 "$1: $2: who waits with the number of another file has it"
	# (From the alarm's start on; the call's own was a moment later.)
	at_least $(((END - begin) / 1000000)) 200 '... and has waited (ms)'
}

# swapped_on_all LOCK UNLOCK TRY: and all hosts see it
swapped_on_all()
{
	swapped dl "$1"
	locker t dl B
	ask t 'open g g'
	ask t "$3"
	is "$RESULT" EAGAIN '... on all hosts'
	is "$(queued)" 0 '... and waits no more for the first file'
	ask s "$2"
	ask t "$3"
	is "$RESULT" 0 '... until it is unlocked'
	peer_end t s
}

records_swapped()
{
	local begin

	swapped_on_all 'range SLOT F_WRLCK 0 1 WAIT' 'range f F_UNLCK 0 0' \
		'range g F_WRLCK 0 1'
}

rig_start disks
rig_configs ttl=6s connect_timeout=300ms
KEY=dlock:$MNT/f
herd one dl A
herd two dl B
for how in - e r j; do
	beside "$how"
done
long
locker h dl B
ask h 'open f f'
ask h 'lock f EX'
ask h 'range f F_WRLCK 0 1'
on A touch f
swapped_on_all 'lock SLOT EX' 'lock f UN' 'lock g EX NB'
KEY=dlock:$MNT/f%rec
records_swapped
odd_signals
ask h 'lock f UN'
peer_end h
locker h dl A
ask h 'open f f'
ask h 'range f F_WRLCK 0 1'
records_swapped
peer_end h
# By a shadow, the program's descriptor is another one than what is locked.
rig_configs ttl=6s connect_timeout=300ms path_more='local = "shadow"'
KEY=dlock:$MNT/f
locker h dl B
ask h 'open f f'
ask h 'lock f EX'
swapped_on_all 'lock SLOT EX' 'lock f UN' 'lock g EX NB'
peer_end h
locker h dl A
ask h 'open f f'
ask h 'lock f EX'
swapped_on_all 'lock SLOT EX' 'lock f UN' 'lock g EX NB'
peer_end h
locker h on A
ask h 'open f f'
ask h 'lock f EX'
ask h 'range f F_WRLCK 0 1'
is "$RESULT" 0 'a bare holder'
swapped on 'lock SLOT EX'
peer_end s
swapped on 'range SLOT F_WRLCK 0 1 WAIT'
peer_end s h
rig_end
