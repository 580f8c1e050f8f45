#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Twenty wait in the queue, on 20 hosts, and the server is killed, or cuts or
# pauses its connections, or cannot be reached: all have the lock in bounded
# time, one at a time; or fail with ENOLCK within the rule's timeout (L8).
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

TTL=6000			# ms
CLAIM=2000
TIMEOUT=6000
SLACK=500			# of a busy machine
N=20

configure()
{
	rig_config A ttl=${TTL}ms connect_timeout=300ms \
		timeout=${TIMEOUT}ms "$@"
	rig_config B ttl=${TTL}ms connect_timeout=300ms timeout=${TIMEOUT}ms
}

# h on B holds, N on A wait.
queue_up()
{
	locker h dl B
	ask h 'open f f'
	ask h 'lock f EX'
	[ "$RESULT" = 0 ] || rig_die "no holder: $HEARD"
	herd one dl A
	herd_new
	drive one $N EX 1000 1 h
	until_true 10 queue_is $N || rig_die "$N do not wait: $(queued)"
}

# all_have_it NAME MS: from now on
all_have_it()
{
	local begin

	begin=$(now)
	ok "$1: all have it" each_done $N 30
	took=$((($(now) - begin) / 1000000))
	herd_report
	note "$1: the last of $N after $took ms"
	in_time "$took" "$2" "$1: in time (ms)" "$SLACK"
	is "$OVERLAPS" 0 "$1: one at a time"
	is "$(grep -c . "$RIG/one.err")" "${3:-0}" "$1: what was logged"
	rig_empty 3 "$1: no key is left"
}

rig_start disks
KEY=dlock:$MNT/f
configure

# --- the control: nothing happens -------------------------------------------

queue_up
ask h 'lock f UN'
all_have_it 'nothing happens' 1000

# --- connections --------------------------------------------------------------

queue_up
is "$(rr client kill type pubsub)" $N 'the server closes those who listen'
ask h 'lock f UN'
all_have_it 'nobody listens' $((CLAIM + SLACK))

# While one after the other is granted it.
queue_up
ask h 'lock f UN'
for i in 1 2 3; do
	rr client kill type pubsub >/dev/null
	sleep 0.01
done
all_have_it 'cut while they are served' $((2 * CLAIM + SLACK))

queue_up
rr client kill type normal >/dev/null
rr client kill type pubsub >/dev/null
ask h 'lock f UN'
all_have_it 'all connections cut' $((CLAIM + SLACK))

queue_up
rr client pause 400 all >/dev/null
say h 'lock f UN'
all_have_it 'the server pauses for 400 ms' $((400 + 2 * CLAIM + SLACK))
hear h

# --- the queue itself ----------------------------------------------------------

queue_up
rr del "{$KEY}%q" >/dev/null
ask h 'lock f UN'
all_have_it 'the queue is deleted' $((CLAIM + SLACK))

queue_up
rr script flush >/dev/null
ask h 'lock f UN'
all_have_it 'the scripts are forgotten' $((CLAIM + SLACK))

# Somebody else's key: nobody is granted anything, and it is said why.
queue_up
rr del "{$KEY}%q" >/dev/null
rr set "{$KEY}%q" "somebody's" >/dev/null
ask h 'lock f UN'
is "$RESULT" 0 'a foreign key in the place of the queue: the unlock works'
logged()
{
	[ "$(grep -c ENOLCK "$RIG/one.err")" = $N ]
}
ok '... the waiters end with ENOLCK' until_true 5 logged
like "$(head -n 1 "$RIG/one.err")" "WRONGTYPE .*\{$KEY\}%q" \
	'... and say which key it is'
note "$(head -n 1 "$RIG/one.err")"
is "$(rr get "{$KEY}%q")" "somebody's" '... which is not touched'
rr del "{$KEY}%q" >/dev/null
rig_empty 3 '... no key is left'

# --- restart ------------------------------------------------------------------

# The server is old enough for this delay by now; after the restart it is not.
rig_configs ttl=${TTL}ms connect_timeout=300ms timeout=${TIMEOUT}ms \
	restart_delay=${TTL}ms
queue_up
redis_kill
redis_up
until_true 5 eval '! lease_is_gone f' # the holder has put it back
herd_report
is "$GRANTS" 0 'killed and restarted, empty: nobody overtakes the holder'
ask h 'lock f UN'
all_have_it 'killed and restarted, empty' $((TTL + CLAIM + SLACK)) $N
configure

# --- out of reach -------------------------------------------------------------

proxy p
configure url="redis://127.0.0.1:$PROXY/0"
queue_up
ask p hang
sleep 0.5
ask p pass
ask h 'lock f UN'
all_have_it 'out of reach for 500 ms' $((2 * CLAIM + SLACK))

queue_up
ask p hang
begin=$(now)
ok 'out of reach: the waiters end with ENOLCK' until_true 15 logged
took=$((($(now) - begin) / 1000000))
# Each tells of its place four times in a claim: then it finds out.
in_time "$took" $((CLAIM / 4 + 200 + TIMEOUT + SLACK)) \
	'... within the timeout (ms)' "$SLACK"
herd_report
is "$GRANTS" 0 '... and none is granted'
ask p pass
ask h 'lock f UN'
is "$RESULT" 0 '... the holder unlocks'
rig_empty 3 '... no key is left'
rig_end
