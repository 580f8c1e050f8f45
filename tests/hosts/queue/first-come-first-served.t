#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# The queue of flock waiters (DESIGN section 4): first come, first served, over
# as many hosts as there are waiters; whoever of them dies, stops or is kept by
# a local program, the others wait no longer than a ttl and one claim.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

TTL=5000			# ms
CLAIM=2000			# a claim's life, and that of a place
BOUND=$((TTL + CLAIM))
SLACK=400			# of a busy machine

# --- exclusion --------------------------------------------------------------

# Eight hosts, each at once.
contend()
{
	herd_new
	herd one "$RUN" A
	herd two "$RUN" B
	drive one 4 EX 4000 10 h
	drive two 4 EX 4000 10 h
	each_done 8 20 || return 1
	herd_report
	note "$RUN: $GRANTS grants, $OVERLAPS at the same time, the longest" \
		"wait $WORST_MS ms"
	[ "$GRANTS" = 80 ] && [ "$OVERLAPS" = 0 ]
}

# --- a holder, and who waits ------------------------------------------------

# The holder h on B has the file.
hold()
{
	locker h dl B
	ask h pid
	holder=$RESULT
	ask h 'open f f'
	ask h 'lock f EX'
	[ "$RESULT" = 0 ] || rig_die "no holder: $HEARD"
	herd_new
}

let_go()
{
	ask h 'lock f UN'
}

# line_up N [HOW]: one after the other, each in the queue before the next.
LINE=()
line_up()
{
	local i had=${#LINE[@]}

	for ((i = had + 1; i <= had + $1; i++)); do
		drive one 1 EX "${HOLD:-1000}" 1 "${2:-h}"
		LINE+=("${PIDS[0]}")
		until_true 5 queue_is "$i" || rig_die "no $i in the queue"
	done
}

# How long the last one took from the moment T, ms.
since()
{
	echo $((($(now) - $1) / 1000000))
}

order_of()
{
	local IFS=,

	echo "$*"
}

# The waiter has told of its place so often since.
places_told()
{
	local now

	read -r _ _ now _ < <(rr hget "{$KEY}%q" 1)
	[ "${now#*.}" -ge $((${channel#*.} + $1)) ]
}

rig_start disks
rig_configs ttl=${TTL}ms connect_timeout=300ms
KEY=dlock:$MNT/f
three_ways 'contenders on eight hosts exclude each other' contend

# --- in order ---------------------------------------------------------------

herd one dl A
hold
line_up 10
let_go
ok 'ten waiters on ten hosts: all have it' each_done 10 5
herd_report
is "$ORDER" "$(order_of "${LINE[@]/#/one.}")" '... in the order of coming'
is "$OVERLAPS" 0 '... and one at a time'
rig_empty 2 '... no key is left'

hold
drive one 3 EX 0 1 hn
sleep 0.3
is "$(queued)" 0 'who tries without a wait is never queued'
let_go
each_done 3 5
rig_empty 2 '... no key is left'

herd_new
herd two dl B
drive one 3 EX 500 20 hu
drive two 3 EX 500 20 hu
ok 'six that convert from shared to exclusive: all have it' each_done 6 20
herd_report
is "$OVERLAPS" 0 '... and one at a time'
is "$GRANTS" 120 '... each time'
rig_empty 2 '... no key is left'

# --- a word that is late ----------------------------------------------------

# The word of an older grant, as it could come of a claim that has ended; and
# one without a number.
hold
LINE=()
line_up 1
read -r _ _ channel _ _ digits _ < <(rr hget "{$KEY}%q" 1)
for last in $((${channel#*.} - 1)) 0; do
	is "$(rr publish "dlock%wake:${channel%.*}" "granted $digits $last")" 1 \
		'the waiter hears an old word'
done
rr publish "dlock%wake:${channel%.*}" "granted $digits" >/dev/null
until_true 5 places_told 2
is "$(grep -c '^+' "$RIG/herd.out")" 0 '... and does not believe it'
let_go
ok '... but the right one' each_done 1 5
rig_empty 2 '... no key is left'

# --- a local program in the way ---------------------------------------------

# Its lock is the kernel's only.  The first waiter, of the same host and file,
# is granted the lease while that has the kernel's: it passes, and is the first
# one again when it comes back.
hold
LINE=()
line_up 1 -
HOLD=4000000 line_up 1
line_up 1
locker bare on A
ask bare 'open f f'
ask bare 'lock f EX NB'
is "$RESULT" 0 'a program without dlock locks while three wait'
begin=$(now)
let_go
ok 'the first waiter passes, the next one has it' until_true 5 granted 1
in_time "$(since "$begin")" $((CLAIM / 2)) '... at once (ms)'
ask bare 'lock f UN'
ok '... all have it when that is gone' each_done 3 10
herd_report
is "$ORDER" "one.${LINE[1]},one.${LINE[0]},one.${LINE[2]}" \
	'... the first one before the third'
is "$OVERLAPS" 0 '... one at a time'
peer_end bare
rig_empty 2 '... no key is left'

# --- the dead ---------------------------------------------------------------

# stricken HOW WHEN: of 50 waiters the first 40 and the holder are struck.
# kill: KILL.  stop: STOP, as if their host hung; PUBLISH finds them all.
stricken()
{
	local i begin took

	hold
	LINE=()
	drive one 40 EX 500 1 h
	LINE=("${PIDS[@]}")
	until_true 10 queue_is 40 || rig_die "not 40 but $(queued)"
	drive one 10 EX 500 1 h
	until_true 10 queue_is 50 || rig_die "not 50 but $(queued)"
	on A kill "-$1" "${LINE[@]}"
	begin=$(now)
	case $2 in
	holder)
		kill_holder
		;;
	keeper)
		mapfile -t keepers < <(all_keepers B)
		on B kill -KILL "${keepers[@]}"
		kill_holder
		;;
	released)
		let_go
		;;
	esac
	ok "$1, $2: the ten behind have it" each_done 10 15
	took=$(since "$begin")
	herd_report
	note "$1, $2: the last of 10 after $took ms"
	in_time "$took" $((BOUND + SLACK)) \
		"$1, $2: within ttl and claim (ms)" "$SLACK"
	is "$OVERLAPS" 0 "$1, $2: one at a time"
	on A kill -KILL "${LINE[@]}" 2>/dev/null
	rig_empty 3 "$1, $2: no key is left"
}

kill_holder()
{
	on B kill -KILL "$holder"
}

stricken KILL released
stricken KILL holder
stricken KILL keeper
stricken STOP released
stricken STOP keeper

# --- killed on the way ------------------------------------------------------

# It was granted, and never wakes; nobody has seen it die.
for round in 1 2 3; do
	hold
	LINE=()
	line_up 2
	on A kill -STOP "${LINE[0]}"
	begin=$(now)
	let_go
	on A kill -KILL "${LINE[0]}"
	ok "granted and killed: the next one has it ($round)" each_done 1 10
	took=$(since "$begin")
	in_time "$took" $((CLAIM + SLACK)) \
		"... within a claim ($round, ms)" "$SLACK"
	rig_empty 2 "... no key is left ($round)"
done

# While it wakes, or a moment before or after.
for round in 1 2 3; do
	hold
	LINE=()
	HOLD=100000 line_up 1
	HOLD=1000 line_up 2
	begin=$(now)
	say h 'lock f UN'
	on A kill -KILL "${LINE[0]}"
	hear h
	ok "killed while it wakes: the next ones have it ($round)" \
		until_true 15 done_by 2
	took=$(since "$begin")
	in_time "$took" $((BOUND + SLACK)) "... in time ($round, ms)" \
		"$SLACK"
	herd_report
	is "$OVERLAPS" 0 "... one at a time ($round)"
done
rig_end
