#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A server's name moves to another one: after a planned switch, in which the old
# one is made a replica and closes no connection, holders go on at the new one; and
# nobody asks the old one any more that came back with an empty memory.
# shellcheck disable=SC2119,SC2016 # no options; expanded later
. "${0%/*}/../../lib/rig.sh"

OLD=127.0.0.1 NEW=127.0.0.2

# named ADDRESS: what getent(1) says of moves.example from now on
named()
{
	printf '#!/bin/sh\necho "%s STREAM moves.example"\n' "$1" \
		>"$RIG/getent.new"
	chmod +x "$RIG/getent.new"
	cat "$RIG/getent.new" >"$RIG/getent"
}

new()
{
	redis-cli -s "$RIG/new.sock" --raw "$@" 2>/dev/null
}

new_is_up()
{
	[ "$(new ping)" = PONG ]
}

follows()
{
	new info replication | tr -d '\r' | grep -q '^master_link_status:up$'
}

# By the new one: its ttl has grown since the last look.
is_renewed()
{
	local was=$left

	left=$(new pttl "$KEY")
	[ "$left" -gt "$was" ]
}

begins_to_end()
{
	left=$(new pttl "$KEY")
	[ "$left" -gt 0 ] && [ "$left" -lt 8000 ]
}

both_are_there()
{
	[ "$(rr client list | grep -c ' name=dlock-')" -ge 2 ]
}

is_gone()
{
	[ "$(new exists "$KEY")" = 0 ]
}

rig_start disks
KEY=dlock:$MNT/f
redis_start "$PORT" "$RIG/new.sock" "$RIG/new.log" --bind "$NEW" \
	--repl-diskless-sync-delay 0
ok 'there are two servers' until_true 10 new_is_up
new replicaof "$OLD" "$PORT" >/dev/null
ok 'one of them is a replica' until_true 20 follows
: >"$RIG/getent"
named "$OLD"
chmod +x "$RIG/getent"
on A mount --bind "$RIG/getent" /usr/bin/getent
# (Half of connect_timeout is waited for an answer to where the name leads: it is to
# come on a busy machine, too.)
rig_config A url="redis://moves.example:$PORT/0" ttl=9s timeout=5s \
	connect_timeout=1500ms restart_delay=0s

# --- a planned switch ---
locker a dl A
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'a lock, at the old one'
has_it()
{
	[ "$(new exists "$KEY")" = 1 ]
}
ok 'the replica has it, too' until_true 5 has_it
ok 'its keeper has a connection as well' until_true 20 both_are_there
new replicaof no one >/dev/null
named "$NEW"
r replicaof "$NEW" "$PORT" >/dev/null
ok 'switched: its lease runs' until_true 9 begins_to_end
ok '... and is renewed at the new one' until_true 9 is_renewed
ask a 'lock a UN'
is "$RESULT" 0 'it is unlocked'
ok '... there' until_true 5 is_gone
peer_end a

# --- the old one comes back empty ---
r replicaof no one >/dev/null
named "$OLD"
rig_config A url="redis://moves.example:$PORT/0" ttl=60s timeout=30s \
	connect_timeout=10s restart_delay=0s
locker b dl A
ask b 'open b f'
ask b 'lock b EX' 30
is "$(rr exists "$KEY")" 1 'a lock, at the old one'
ask b 'lock b UN'
ok 'its release has arrived' until_true 5 db_is_empty
named "$NEW"
redis_kill
redis_up
ask b 'lock b EX' 30
is "$RESULT" 0 'restarted, and its name has moved: locked again'
ok '... at the new one' has_it
is "$(rr exists "$KEY")" 0 '... and not at the old one'
ask b 'lock b UN'
ok '... where it is released' until_true 5 is_gone

# --- nobody says where the name leads ---
for says in 'exit 2' 'exec sleep 60'; do
	printf '#!/bin/sh\n%s\n' "$says" >"$RIG/getent"
	new client kill type normal >/dev/null
	ask b 'lock b EX' 30
	is "$RESULT" 0 "getent: $says: locked"
	ok '... where it led to before' has_it
	ask b 'lock b UN'
	ok '... and released' until_true 5 is_gone
done
peer_end b
rig_end
