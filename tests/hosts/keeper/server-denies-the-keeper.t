#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# The server takes no new connection, or not the keeper's password, while the
# process renews on the connection that it has: nothing is lost (DESIGN L4).
# Two processes share the lock: when the one that renews is gone, the keeper
# carries the lease on.  A lease that is another's is LOST, and that is said.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
# (Who was not answered within connect_timeout needs another connection.)
rig_configs ttl=6s connect_timeout=1s

# One connection for all of the test's questions.
admin()
{
	ask admin "$1" 5
}

# Its own connection is there, by which it has renewed.
keeper_is_connected()
{
	[ -n "$(keeper_client)" ]
}

keeper_client()
{
	rr client list | sed -n "s/^id=\([0-9]*\) .* name=dlock-$KEEPER .*/\1/p"
}

# stays MS: it is the same lease all the time.
stays()
{
	throughout "$1" 20 is_the_same
}

is_the_same()
{
	admin "get dlock:$MNT/f"
	[ "$HEARD" = "$TOKEN" ] || { diag "now: $HEARD"; return 1; }
}

holder_starts()
{
	: >"$RIG/log"
	peer a dl A env DLOCK_LOG="debug:$RIG/log" \
		/usr/bin/python3 "$TOP/tests/programs/obey.py"
	ask a 'lock("f")'
	ok "$1: a keeper carries the lease" until_true 5 are_carried 1
	KEEPER=$(keepers A)
	ok "$1: and has a connection" until_true 10 keeper_is_connected
	ask a 'child()'
	CHILD=$RESULT
	admin "get dlock:$MNT/f"
	TOKEN=$HEARD
	like "$TOKEN" '^dlock1 ' "$1: there is a lease"
}

# denied NAME DENY ALLOW
denied()
{
	local id

	holder_starts "$1"
	id=$(keeper_client)
	admin "$2"
	is "$HEARD" OK "$1: $2"
	admin "client kill id $id"
	is "$HEARD" 1 "$1: the keeper must connect anew"
	ok "$1: the lease stays for twice the ttl" stays 12000
	unlike "$(cat "$RIG/log")" LOST "$1: nobody calls it lost"
	is "$(keepers A)" "$KEEPER" "$1: it is the same keeper"
	admin "$3"
	ask a 'os.getpid()'
	on A kill -KILL "$RESULT"
	ok "$1: the process is gone, the child has the lock, the lease stays" \
		stays 9000
	unlike "$(cat "$RIG/log")" LOST "$1: and is not lost"
}

ends()
{
	on A kill -KILL "$CHILD"
	ok "$1: the keeper ends" until_true 5 no_keeper A
}

peer admin redis-cli -s "$RIG/redis.sock"
denied maxclients 'config set maxclients 1' 'config set maxclients 1000'
ends maxclients
rig_empty 5 'maxclients: no key is left'
denied password 'config set requirepass other' 'config set requirepass ""'

# --- lost it is ---------------------------------------------------------------

is_lost()
{
	grep -q 'LOST: it is another.s.* are killed: ' "$RIG/log"
}

admin "set dlock:$MNT/f another px 60000"
ok 'another has it: that is said' until_true 10 is_lost
ends 'another has it'
is "$(rr get "dlock:$MNT/f")" another 'and it stays the other'\''s'
rr del "dlock:$MNT/f" >/dev/null
rig_end
