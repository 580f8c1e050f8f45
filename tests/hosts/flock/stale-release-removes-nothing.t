#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# A release by an owner whose lease is no longer there removes nothing
# (DESIGN L9: compare and delete).
. "${0%/*}/../../lib/rig.sh"

# $1: how A loses its lease.  A is stopped meanwhile, so that nobody tells it.
stale()
{
	local name=$1 pid token

	shift
	locker a dl A
	locker b dl B
	ask a 'open a f'
	ask b 'open a f'
	ask a pid
	pid=$RESULT
	ask a 'lock a EX'
	is "$RESULT" 0 "$name: A holds"
	"$@"
	ask b 'lock a EX'
	is "$RESULT" 0 "$name: B holds"
	token=$(rr get "$KEY")
	like "$token" '^dlock1 [0-9a-f]{32} [0-9a-f]+:B ' \
		"$name: the key holds B's token"
	if on A kill -0 "$pid" 2>/dev/null; then
		ask a 'lock a UN'
		is "$RESULT" 0 "$name: A's unlock, too late, succeeds"
	fi
	# A's release is on its way; a round trip of A's connection later it
	# has arrived: a lock of another file needs one.
	locker c dl A
	ask c 'open a other'
	ask c 'lock a EX'
	ask c 'lock a UN'
	is "$(rr get "$KEY")" "$token" "$name: B's token is untouched"
	ask a 'close a' 1
	peer_end a
	is "$(rr get "$KEY")" "$token" "$name: nor does A's end touch it"
	ask b 'lock a UN'
	rig_empty 2 "$name: B's unlock removes it"
	peer_end b c
}

deleted()
{
	r del "$KEY" >/dev/null
}

# Its ttl runs out at the server, as after a step of the server's clock.
expired()
{
	r pexpire "$KEY" 1 >/dev/null
	until_true 2 db_is_empty
}

rig_start disks
# A long ttl: no renewal of A's comes in between and finds out.
rig_configs ttl=60s
KEY=dlock:$MNT/f
stale 'deleted' deleted
stale 'expired' expired
rig_end
