#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Packets to Redis are dropped for two seconds.  A lock that is asked for meanwhile fails,
# and what it asked is not sent on by the kernel when they pass again (tcp(7)): it would
# be granted then, behind its release, to nobody.
. "${0%/*}/../../lib/rig.sh"

table=dlock_rig_$$
trap 'nft delete table inet "$table" 2>/dev/null; rig_cleanup' EXIT

cut()
{
	nft add table inet "$table" &&
		nft add chain inet "$table" in \
			'{ type filter hook input priority 0; }' &&
		nft add rule inet "$table" in iif lo tcp dport "$PORT" drop
	CUT=$(now)
}

# (A retransmission has failed 1.4 s after the first one, and the next comes at 3 s.)
is_between_two()
{
	[ $(($(now) - CUT)) -ge 1700000000 ]
}

nobody_has_it()
{
	[ "$(rr exists "dlock:$MNT/f")" = 0 ]
}

rig_start disks
rig_configs ttl=30s timeout=1s connect_timeout=500ms
rig_config A ttl=30s timeout=1s connect_timeout=500ms \
	url="redis://127.0.0.1:$PORT/0"
locker a dl A
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'a process has a connection'
ask a 'lock a UN'
ok '... and nothing locked' until_true 5 nobody_has_it
cut || rig_die 'no nftables'
ask a 'lock a EX' 20
is "$RESULT" ENOLCK 'nothing passes: a lock fails'
until_true 10 is_between_two
nft delete table inet "$table"
ok 'all passes again: nobody has it, nor gets it later' \
	throughout 8000 1 nobody_has_it
is "$(dl B flock -n f echo free)" free '... and another host can lock it'
peer_end a
rig_end
