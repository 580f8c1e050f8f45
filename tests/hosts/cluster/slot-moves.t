#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A slot of the cluster moves to another node while its locks are held, asked for
# and waited for: never two holders, no lease is lost, and the new node, which has
# been there for the delay, is no restarted one.
RIG_MODE=cluster NODE_TIMEOUT=15000 # no node fails here
. "${0%/*}/../../lib/rig.sh"

TTL=6			# s
next_of()
{
	echo $(($(owner_of "$1") % 3 + 1))
}

rig_start disks
rig_configs ttl=${TTL}s timeout=20s connect_timeout=1s restart_delay=${TTL}s
sees_two 10
ok 'the nodes are old' until_true 20 masters_are_old $((TTL + 1))

export DLOCK_LOG=warning:$RIG/log
# --- a slot that is to move, while all of it is where it was -------------------

# begins FILE: A has it, B waits for it, and its slot, $slot, is to move
begins()
{
	locker a dl A
	locker b dl B
	ask a "open f $1"
	ask b "open f $1"
	ask a 'lock f EX'
	is "$RESULT" 0 "A has $1"
	say b 'lock f EX'
	ok '... B waits for it' until_true 10 has_queue "$1"
	key=$(key_of "$1")
	slot=$(slot_of "$key")
	from=$(owner_of "$slot")
	slot_opens "$slot" "$(next_of "$slot")"
}

has_queue()
{
	[ "$(rr exists "{$(key_of "$1")}%q")" = 1 ]
}

# there: who has it at the node that its slot leaves, EX or SH, since when (if it is
# alone; of a claim $NEVER), and until when
NEVER=18446744073709551615
there()
{
	local at

	at=$(m "$from" get "$key")
	case $at in
	dlock1*)
		read -r _ _ at _ since _ <<<"$at"
		echo "EX ${at##*:} $since $(m "$from" pexpiretime "$key")" ;;
	WRONGTYPE*)
		m "$from" hgetall "$key" | paste - - | grep ^dlock1 |
			sed 's/^dlock1 [^ ]* [^ ]*:\([^ ]*\) .*\t\([0-9]*\) *\([A-Z]*\).*/\3 \1 \2/' ;;
	esac
}

is_confirmed()
{
	[[ $(there) == "EX B "* && $(there) != *" $NEVER "* ]]
}

# The lock goes from A to B while the slot is open; and the slot, and B's lock.
is_handed_on()
{
	ask a 'lock f UN'
	ok 'A unlocks: B has it' hear b
	is "$RESULT" 0 '... by the node that it leaves'
	ok '... which has its lease' until_true 5 is_confirmed
}
and_moves()
{
	slot_move "$slot" "$(next_of "$slot")"
	ask a 'lock f EX NB'
	is "$RESULT" EAGAIN '... and so has the new one'
	ask b 'lock f UN'
	is "$RESULT" 0 '... until B unlocks'
	peer_end b a
}

begins handed
is_handed_on
and_moves

# What the library has asked of that node.
questions()
{
	m "$from" info commandstats |
		sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\),.*/\1/p'
}

was_asked()
{
	[ "$(questions)" -ge $((before + 3)) ]
}

begins weakened
is_there=$(there) before=$(questions)
say a 'lock f SH'
ok 'A is to read from now on, and asks' until_true 10 was_asked
is_now=$(there) # (but for its expiry: it may have been renewed)
is "${is_now% *}" "${is_there% *}" '... of a node that has its lease as it was'
slot_move "$slot" "$(next_of "$slot")"
ok '... and it reads, by the new one' hear a
is "$RESULT" 0 '... as it is told'
locker c dl B
ask c 'open f weakened'
may_read()
{
	ask c 'lock f SH NB' && [ "$RESULT" = 0 ]
}
ok '... and another one does' until_true 10 may_read
ask c 'lock f UN'
ask a 'lock f UN'
ok '... until B has it' hear b
is "$RESULT" 0 '... to write'
peer_end c b a

rig_configs ttl=${TTL}s timeout=20s connect_timeout=1s restart_delay=${TTL}s \
	path_more='on_lost = "pause"'
is_renewed()
{
	[[ $(there) == *" $who "* && $(there) != "$is_there" ]]
}

begins paused
for who in A B; do
	for n in 1 2; do
		is_there=$(there)
		ok "it is paused if it is lost, and $who has it renewed ($n)" \
			until_true $TTL is_renewed
	done
	[ "$who" = A ] || break
	is_handed_on
done
and_moves
rig_configs ttl=${TTL}s timeout=20s connect_timeout=1s restart_delay=${TTL}s

# --- slots that move under load ------------------------------------------------

locker a dl A
ask a 'open a held'
ask a 'lock a EX'
is "$RESULT" 0 'A has a lock'
load_begin "$BUILD/libdlock-preload.so"
for key in l0 r%rec; do
	slot=$(slot_of "$(key_of "$key")")
	to=$(next_of "$slot")
	slot_move "$slot" "$to" 20
	is "$(owner_of "$slot")" "$to" "the slot of $key is at another node"
	ok '... and all goes on' load_goes_on
done

# For longer than a ttl, so that each is renewed where it was, and by ASK: a lease
# of a whole file, a string and a hash of record locks.
ask a 'open w whole'
ask a 'record w F_WRLCK'
is "$RESULT" 0 'A has another, of records'
ask a 'open p part'
ask a 'range p F_WRLCK 10 10'
is "$RESULT" 0 '... and one of a range'
began=$(now) moving=()
for key in held whole%rec part%rec; do
	slot=$(slot_of "$(key_of "$key")")
	to=$(next_of "$slot")
	slot_move "$slot" "$to" $((TTL * 650)) &
	moving+=("$!:$slot:$to")
done
for one in "${moving[@]}"; do
	IFS=: read -r pid slot to <<<"$one"
	wait "$pid"
	is "$(owner_of "$slot")" "$to" "slot $slot is at another node"
done
at_least $((($(now) - began) / 1000000)) $((TTL * 1000)) \
	'... after longer than a ttl (ms)'
locker c dl B
for one in 'whole F_WRLCK 5 1' 'part F_RDLCK 15 1'; do
	read -r file type from n <<<"$one"
	ask c "open x $file"
	ask c "range x $type $from $n"
	is "$RESULT" EAGAIN "A has what it had of $file"
	ask c 'close x'
done
locker b dl B
ask b 'open b held'
ask b 'lock b EX NB'
is "$RESULT" EAGAIN 'A has it'
say b 'lock b EX'
ok '... B waits for it' test "$(hear b 0.3 || echo silent)" = silent
ask a 'lock a UN'
is "$RESULT" 0 'A unlocks'
ok 'B has it' hear b
is "$RESULT" 0 '... by the new node'
ask b 'lock b UN'
# (Each has the ends of those before it.)
peer_end b c a

load_end
is "$overlaps $broken $lost" '0 0 0' 'never two holders'
is "$died $errors" '0 0' 'nobody has ended, and no lock has failed'
is "$(grep -c LOST "$LOAD/dlock.log" "$RIG/log" 2>/dev/null | grep -v ':0$')" '' \
	'no lease is lost'
rig_empty 10
done_testing
