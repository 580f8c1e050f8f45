#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A master that has had no replica for repl-backlog-ttl frees its backlog, and goes by
# another replication id from then on.  It is the same memory: who was granted locks
# by it before is granted the next one at once, not after restart_delay.
RIG_MODE=sentinel
. "${0%/*}/../../lib/rig.sh"

history()
{
	m 1 info replication | sed -n 's/^master_replid:\([0-9a-f]*\).*/\1/p'
}

is_another()
{
	[ "$(history)" != "$1" ]
}

rig_start disks
rig_configs ttl=20s connect_timeout=3s restart_delay=6s timeout=20s
locker d dl A
ask d 'open x f'
ask d 'lock x EX' 30
is "$RESULT" 0 'granted, once the master is old enough'
ask d 'lock x UN'
before=$(history)
m 1 config set repl-backlog-ttl 1 >/dev/null
master_kill 2
ok 'without a replica the master has another history' \
	until_true 20 is_another "$before"
m 1 client kill type normal skipme yes >/dev/null
ask d 'lock x EX NB' 30
is "$RESULT" 0 'the next one is granted at once'
peer_end d
rig_end
