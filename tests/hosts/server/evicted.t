#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A server that evicts under maxmemory takes locks away that are held.  So it
# gives none; who allows it (the control) has two holders.
. "${0%/*}/../../lib/rig.sh"

# (None is renewed, and so put back, meanwhile.)
configs()
{
	rig_configs ttl=300s timeout=5s "$@"
}

KEYS=2000
evicted()
{
	[ "$(rr exists "dlock:$MNT/f")" = 0 ]
}

# Others' data, until the lease is gone.
fill()
{
	local i

	for ((i = 0; i < 40; i++)); do
		rr eval 'for i = 1, tonumber(ARGV[2]) do
			redis.call("SET", ARGV[1] .. i, string.rep("x", 500), "PX", 9e6)
			end' 0 "fill$i." $KEYS >/dev/null
		! evicted || return 0
	done
	return 1
}

rig_start disks
configs redis_more='allow_eviction = true'
rr config set maxmemory-policy allkeys-random >/dev/null
used=$(stat_of memory used_memory)
rr config set maxmemory $((used + 2000000)) >/dev/null
locker a dl A
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'control: who allows it is given a lock'
ok 'control: it is evicted' fill
locker b dl B
ask b 'open a f'
ask b 'lock a EX NB'
is "$RESULT" 0 'control: and there are two holders'
ask b 'lock a UN'
ask a 'lock a UN'
peer_end a b

configs
locker b dl B
ask b 'open a f'
ask b 'lock a EX'
is "$RESULT" ENOLCK 'it gives none'
like "$(cat "$RIG/b.err")" \
	'it may evict locks that are held: maxmemory-policy is allkeys-random' \
	'... and says why'
is "$(grep -c . "$RIG/b.err")" 1 '... once a call'
rr config set maxmemory-policy noeviction >/dev/null
rr config set maxmemory 0 >/dev/null
ask b 'lock a EX'
is "$RESULT" 0 'mended, it gives them to the same process'
locker c dl A
ask c 'open a f'
ask c 'lock a EX NB'
is "$RESULT" EAGAIN '... and to one only'
ask b 'lock a UN'
rr flushall >/dev/null
rig_end
