#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# The node that a slot leaves takes no key that it has not.  So no script deletes
# there what it is to write: what was held before is held after, whatever is asked,
# and nobody is told that he was granted what is not there.
#
# Each script is called as the library calls it, with all its keys at that node.
RIG_MODE=cluster NODE_TIMEOUT=15000 # no node fails here
. "${0%/*}/../../lib/rig.sh"

K=dlock:/k Q="{dlock:/k}%q"
RK=dlock:/k%rec RR="{dlock:/k%rec}%r" RQ="{dlock:/k%rec}%q"
TTL=30000 NEVER=18446744073709551615
WAITS=60000 # ms: how long a waiter is believed
ALL=00000000000000000009223372036854775807

# token N [SINCE]: of process N of its own host, and its file
token()
{
	printf 'dlock1 %032d host%d 1:2:- %s 1 h c' "$1" "$1" \
		"${2:-0000000000000000000$1}"
}

claim()
{
	token "$1" $NEVER
}

# A script as the server gets it: with what it includes, once.
script()
{
	awk -v dir="$TOP/shim/lease/scripts/" '
		function take(name, line) {
			if (name in taken)
				return
			taken[name] = 1
			while ((getline line <(dir name)) > 0)
				if (line ~ /^--include /)
					take(substr(line, 11))
				else
					print line
		}
		BEGIN { take(ARGV[1]) }' "$1.lua"
}

# from_node SCRIPT N_KEYS WORD...: the answer, its parts with a blank between
from_node()
{
	m "$from" eval "$(script "$1")" "${@:2}" | tr '\n' ' ' | sed 's/ *$//'
}

# By a question that is sent on.
to_node()
{
	printf 'asking\nevalsha %s' "$(m "$to" script load "$(script "$1")")" \
		>"$RIG/words"
	printf ' "%s"' "${@:2}" >>"$RIG/words"
	echo >>"$RIG/words"
	m "$to" <"$RIG/words" | tail -n +2 | tr '\n' ' ' | sed 's/ *$//'
}

# waits N EX|SH: in the queue, for long, and hears what is said to it
waits()
{
	from_node queue 2 $K "$Q" heartbeat "$2" "$(claim "$1")" '' \
		"$(printf '%032x.1' "$1")" $WAITS " host$1 1:2:- " '' >/dev/null
}

# What has been said to those who wait.
said()
{
	local n

	n=$(m "$from" info commandstats |
		sed -n 's/^cmdstat_publish:calls=\([0-9]*\),.*/\1/p')
	echo "${n:-0}"
}

# it_moves KEY / it_stays KEY: the slot of that
it_moves()
{
	slot_opens "$(slot_of "$1")" "$to"
	m "$from" config resetstat >/dev/null
}

it_stays()
{
	slot_stays "$(slot_of "$1")"
}

# scene WORDS: nothing is held, and nobody waits
scene()
{
	it_stays $K
	it_stays $RK
	m "$from" del $K "$Q" >/dev/null
	m "$r_from" del $RK "$RR" "$RQ" >/dev/null
	note "$*"
}

holds()
{
	m "$from" set $K "$(token "$1")" px $TTL >/dev/null
}

# ask N EX|SH [SINCE [SUPERSEDED]]
asks()
{
	from_node acquire 2 $K "$Q" "$(token "$1")" $TTL " host$1 1:2:- " \
		"${3-}" "$2" "${4-}" '' "$(claim "$1")" '' \
		"$(printf '%032x.1' "$1")" $WAITS
}

rig_start disks
# Who is granted something is told by PUBLISH here, which is counted: to somebody
# who hears it.
from=$(owner_of "$(slot_of $K)") to=$(($(owner_of "$(slot_of $K)") % 3 + 1))
r_from=$(owner_of "$(slot_of $RK)")
for n in 2 3; do
	redis-cli -s "$(master_sock "$from")" subscribe \
		"dlock%wake:$(printf %032x $n)" >"$RIG/heard$n" &
	PEER_PID[heard$n]=$!
	disown $!
done
hears()
{
	[ "$(m "$from" pubsub numsub "dlock%wake:$(printf %032x 2)" \
		"dlock%wake:$(printf %032x 3)" | grep -c '^1$')" = 2 ]
}
is_gone()
{
	[ "$(m "$from" exists $K)" = "ASK $(slot_of $K) \
127.0.0.1:${MASTER_PORT[to]}" ]
}
ok 'who waits hears' until_true 10 hears

scene 'a writer that the queue has granted'
m "$from" set $K "$(claim 1)" px $TTL >/dev/null
it_moves $K
is "$(m "$from" set "other:{$K}" x)" \
	"ASK $(slot_of $K) 127.0.0.1:${MASTER_PORT[to]}" \
	'control: no other key is taken'
is "$(from_node renew 1 $K "$(token 1)" $TTL)" '1 EX' 'it is confirmed'
is "$(m "$from" get $K)" "$(token 1)" '... and there'
is "$(from_node renew 1 $K "$(token 1)" $TTL)" '1 EX' '... and renewed'

for rest in "$WAITS -" $WAITS; do
	scene "the same, and it lingers for $rest"
	m "$from" set $K "$(claim 1)" px $TTL >/dev/null
	it_moves $K
	for what in confirmed renewed; do
		is "$(from_node renew 1 $K "$(token 1)" $TTL "$rest")" '1 EX' \
			"it is $what"
		is "$(m "$from" get $K)" "$(token 1)" '... and there'
	done
	it_stays $K
	is "$(from_node renew 1 $K "$(token 1)" $TTL "$rest")" '1 EX' \
		'the slot stays: it is renewed'
	like "$(m "$from" hget $K "$(token 1)")" ' EX ' '... and lingers'
	it_moves $K
	is "$(from_node renew 1 $K "$(token 1)" $TTL "$rest")" '1 EX' \
		'the slot is to move again: it is renewed'
	like "$(m "$from" hget $K "$(token 1)")" ' EX ' '... and lingers on'
	is "$(from_node weaken 1 $K "$(token 1)" $TTL "$rest")" 1 \
		'... and is weakened'
	like "$(m "$from" hget $K "$(token 1)")" ' SH ' '... to a reader that does'
done

scene 'a reader that the queue has granted'
m "$from" hset $K dlock 1 "$(claim 1)" 9999999999999 >/dev/null
it_moves $K
is "$(from_node renew 1 $K "$(token 1)" $TTL)" 1 'it is confirmed'
is "$(m "$from" hlen $K)" 2 '... and there'

scene 'a writer is weakened'
holds 1
it_moves $K
like "$(from_node weaken 1 $K "$(token 1)" $TTL)" '^TRYAGAIN ' 'later'
is "$(m "$from" get $K)" "$(token 1)" '... and is there'
it_stays $K
is "$(from_node weaken 1 $K "$(token 1)" $TTL)" 1 'the slot stays: it is done'
is "$(m "$from" hexists $K "$(token 1)")" 1 '... and it reads'

scene 'a writer that others wait for asks to read'
holds 1
waits 2 EX
it_moves $K
like "$(asks 1 SH)" '^TRYAGAIN ' 'later'
is "$(m "$from" get $K)" "$(token 1)" '... and it writes'
is "$(asks 3 EX | cut -c1-2)" '0 ' 'another one is refused at once'
is "$(from_node queue 2 $K "$Q" look EX "$(claim 3)" '' - 1 ' x ' '' |
	grep -c "$(token 1)")" 1 '... by whom it sees'

scene 'a reader that others wait for asks to write'
m "$from" hset $K dlock 1 "$(token 1)" 9999999999999 >/dev/null
waits 2 EX
it_moves $K
is "$(asks 3 SH)" '1 0  0 0' 'another one reads as well'
is "$(asks 4 EX '' "$(token 1)" | cut -c1-2)" '0 ' '... so it does not write'
is "$(m "$from" hget $K "$(token 1)")" 9999999999999 '... and reads'
is "$(from_node release 2 $K "$Q" "$(token 3)" '' '')" 1 'it reads alone'
is "$(asks 4 EX '' "$(token 1)" | cut -c1-2)" '0 ' \
	'... and does not write before who waits'
is "$(m "$from" hget $K "$(token 1)")" 9999999999999 '... and reads'
is "$(asks 1 EX)" '1 0  0 0' '... and writes as what it was granted'
is "$(m "$from" get $K)" "$(token 1)" '... and has it'

scene 'a dead writer that others wait for is found by proof'
token=$(token 1 00000000000000000001)
m "$from" set $K "${token/host1/host3}" px $TTL >/dev/null
waits 2 EX
it_moves $K
for mode in SH EX; do
	like "$(asks 3 $mode 00000000000000000003)" '^TRYAGAIN ' "later ($mode)"
	is "$(m "$from" get $K)" "${token/host1/host3}" \
		'... for it may read, and be alive'
done

scene 'a reader is dead'
holds 1
waits 2 EX
m "$from" del $K >/dev/null
m "$from" hset $K dlock 1 "$(token 1)" 1 >/dev/null
it_moves $K
is "$(from_node queue 2 $K "$Q" heartbeat EX "$(claim 3)" '' \
	"$(printf '%032x.1' 3)" $WAITS ' host3 1:2:- ' '' | cut -c1-2)" '0 ' \
	'who tells of its place has it'
is "$(said) $(m "$from" get $K)" "1 $(claim 2)" '... and the first one has it'

scene 'the last reader ends'
m "$from" hset $K dlock 1 "$(token 1)" 9999999999999 >/dev/null
waits 2 EX
it_moves $K
is "$(from_node release 2 $K "$Q" "$(token 1)" '' '')" 1 'it is done'
is "$(said) $(m "$from" get $K)" "1 $(claim 2)" '... and who waits has it'

scene 'the last reader ends, and nobody hears it'
m "$from" hset $K dlock 1 "$(token 1)" 9999999999999 >/dev/null
waits 4 EX
it_moves $K
is "$(from_node release 2 $K "$Q" "$(token 1)" '' '')" 1 'it is done'
ok '... and soon nothing is there' until_true 5 is_gone

scene 'a writer that lingers ends'
m "$from" set $K "$(token 1)" px $TTL >/dev/null
waits 2 EX
from_node renew 1 $K "$(token 1)" $TTL "$WAITS -" >/dev/null
it_moves $K
is "$(from_node release 2 $K "$Q" "$(token 1)" '' '')" 1 'it is done'
is "$(said) $(m "$from" get $K)" "1 $(claim 2)" '... and who waits has it'

scene 'a writer ends'
holds 1
waits 2 EX
it_moves $K
is "$(from_node release 2 $K "$Q" "$(token 1)" '' '')" 1 'it is done'
is "$(said) $(m "$from" get $K)" "1 $(claim 2)" '... and who waits has it'

scene 'a writer ends that readers wait for'
holds 1
waits 2 SH
it_moves $K
is "$(from_node release 2 $K "$Q" "$(token 1)" '' '')" 1 'it is done'
is "$(said)" 0 '... and nobody is told that he has what is not there'

scene 'a writer is put back over another one, which is as old as the memory'
for mode in EX SH; do
	it_stays $K
	holds 1
	it_moves $K
	answer=$(from_node reclaim 1 $K "$(token 2)" $TTL $mode 9999999999999)
	if [ $mode = EX ]; then
		is "$answer $(m "$from" get $K)" "1 $(token 2)" 'it is there'
	else
		like "$answer" '^TRYAGAIN ' 'a reader: later'
		is "$(m "$from" get $K)" "$(token 1)" \
			'... and what was there is there'
	fi
done

scene 'what is on its way to a node is written there'
holds 1
it_moves $K
m "$from" migrate 127.0.0.1 "${MASTER_PORT[to]}" '' 0 5000 keys $K >/dev/null
is "$(to_node renew 1 $K "$(token 1)" $TTL "$WAITS -")" '1 EX' 'it is renewed'
is "$(to_node weaken 1 $K "$(token 1)" $TTL "$WAITS -")" 1 '... and weakened'
slot_move "$(slot_of $K)" "$to"
like "$(m "$to" hget $K "$(token 1)")" ' SH ' '... and is there'
m "$to" del $K >/dev/null

# --- ranges -------------------------------------------------------------------

from=$r_from to=$((r_from % 3 + 1))

# ask_range N RANGE [CLAIM [HOW]]
ask_range()
{
	from_node records_acquire 3 $RK "$RR" "$RQ" "$(token "$1")" $TTL \
		" host$1 1:2:- " "$(printf %020d "$1")" "${4-}" \
		"$(printf %020d 2)" '' "$2" '' "${3-}" '' '' $WAITS - "${5-}"
}

# wait_for_range N RANGE
wait_for_range()
{
	from_node records_queue 3 $RK "$RR" "$RQ" heartbeat \
		"$2$(printf '%032d' 0 | tr 0 -)-" "$(claim "$1")" '' - $WAITS ''
}

# ranges_of N: what it has, and whether it is there
ranges_of()
{
	m "$from" zrangebylex "$RR" "[O$(printf %032d "$1")" \
		"[O$(printf %032d "$1"):" | cut -c34-
	m "$from" hexists $RK "$(printf %032d "$1")"
}

scene 'a range that the queue has granted'
ask_range 1 W$ALL >/dev/null
wait_for_range 2 W$ALL >/dev/null
wait_for_range 3 W$ALL >/dev/null
from_node records_set 3 $RK "$RR" "$RQ" "$(token 1)" "$(printf %020d 3)" $ALL '' \
	'' >/dev/null
has=$(ranges_of 2)
like "$has" "${ALL}W" 'control: it is there'
it_moves $RK
like "$(ask_range 2 W$ALL "$(claim 2)")" '^TRYAGAIN ' 'it is confirmed later'
is "$(ranges_of 2)" "$has" '... and there'

scene 'what one has who shares the description'
ask_range 1 W$ALL >/dev/null
wait_for_range 3 W$ALL >/dev/null
has=$(ranges_of 1)
it_moves $RK
token()
{
	printf 'dlock1 %032d host1 1:2:- %s 1 h c' "$1" \
		"${2:-0000000000000000000$1}"
}
like "$(from_node records_acquire 3 $RK "$RR" "$RQ" "$(token 2)" $TTL \
	' host1 1:2:- ' "$(printf %020d 2)" share "$(printf %020d 2)" '' W$ALL \
	'' '' '' '' $WAITS -)" '^TRYAGAIN ' 'it is taken over later'
is "$(ranges_of 1)" "$has" '... and there'

scene 'of a writer of all a part is given back, and old ranges are there'
m "$from" set $RK "$(token 1)" px $TTL >/dev/null
m "$from" zadd "$RR" 0 old >/dev/null
wait_for_range 3 W$ALL >/dev/null
it_moves $RK
from_node records_set 3 $RK "$RR" "$RQ" "$(token 1)" "$(printf %020d 3)" \
	00000000000000000000000000000000000009 '' '' >/dev/null
is "$(m "$from" get $RK)" "$(token 1)" 'later: it is there'

scene 'nobody has anything'
rig_empty 10
done_testing
