#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# What seldom happens to a lock: two threads that share it, no descriptor that
# is left, a stop of longer than the ttl, no /proc, a table of descriptors of
# its own (L4, L5, L7).
. "${0%/*}/../../lib/rig.sh"

rig_start disks
edges=$BIN/edges

# --- two threads of one process ---------------------------------------------

# A downgrade keeps its token: whoever reads beside it must leave it alone.
peer both dl A "$edges" readers both
rounds=0 without=0
while [ "$rounds" -lt 250 ] && ask both again; do
	# Whatever is wrong is sent a moment later.
	sleep 0.003
	[ "$(rr hlen "dlock:$MNT/both")" = 3 ] || without=$((without + 1))
	say both again
	rounds=$((rounds + 1))
done
is "$rounds" 250 'a writer becomes a reader while another waits: 250 times'
is "$without" 0 'and both have a lease, each time'
peer_end both
rig_empty

# --- no descriptor is left --------------------------------------------------

peer full dl A "$edges" full full
hear full
is "$HEARD" closed 'no descriptor is left, one of the two is closed'
on B touch "$MNT/full"
ok 'bare, the other host is granted it (control)' on B flock -n full true
is "$(dl B flock -n full echo got)" '' 'dlock: refused, for the lock is there'
ask full go
is "$HEARD" unlocked 'unlocked by the other one'
free_on_b()
{
	dl B flock -n full true
}
ok 'and the other host gets it, by the next renewal' until_true 5 free_on_b
say full go
rig_empty

# --- stopped for longer than the ttl ----------------------------------------

rig_configs ttl=2s connect_timeout=150ms
for try in 1 2 3; do
	peer stopped dl A "$edges" stopped "stopped$try"
	hear stopped
	pid=$(pgrep -f "^$edges stopped stopped$try\$")
	kill -STOP "$pid"
	mapfile -t keepers < <(on A pgrep -x dlock-keeper)
	[ "${#keepers[@]}" = 0 ] || on A kill -STOP "${keepers[@]}"
	peer other dl B flock "stopped$try" sh -c 'echo got; read -r _'
	hear other
	is "$HEARD" got "$try: stopped, and its lease has run out"
	kill -CONT "$pid"
	hear stopped
	is "$HEARD" 'Resource temporarily unavailable' \
		"$try: it is not granted what another has by now"
	[ "${#keepers[@]}" = 0 ] || on A kill -CONT "${keepers[@]}"
	say other go
	say stopped go
done
rig_empty

# --- as bare ----------------------------------------------------------------

on A mkdir "$MNT/root"
for run in on dl; do
	is "$($run A "$edges" leaves leaves "$MNT/root" 2>"$RIG/err")" \
		'goes on' "$run: no /proc, and a thread leaves by SYS_exit"
	$run A timeout 5 "$edges" ends ends "$MNT/root" 2>"$RIG/err"
	is $? 7 "$run: all do"
	is "$($run A "$edges" table table)" 'the end
locked' "$run: closed in a table of its own"
done
# Without /proc no keeper can be started: those leases end by their ttl, of 2 s,
# and DBSIZE counts a key until the server's next round of expiry.
rig_empty 4
rig_end
