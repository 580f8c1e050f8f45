#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A server that two URLs of a section name has one vote (DESIGN 5.7), also the
# first time that a process asks, whichever of the two answers first.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"

rig_start disks
master_kill 3
on A touch f

# asked_by_way MS: a first lock, where the first URL's answer takes so long
asked_by_way()
{
	ask proxy "delay $1"
	dl A flock -n f true 2>"$RIG/err"
	is $? 71 "refused, the first URL's answer taking $1 ms"
	# (The last try may end before the first URL has answered once more.)
	like "$(cat "$RIG/err")" '[01] of 3 masters answered.*another URL' \
		'... and it says why'
}

proxy proxy
two=${MASTER_PORT[2]}
MASTER_PORT[2]=$PORT
rig_config A url="redis://127.0.0.1:$PROXY/0" timeout=5s
asked_by_way 0
asked_by_way 50
MASTER_PORT[2]=$two
rig_config A url="redis://127.0.0.1:$PROXY/0" timeout=5s
ask proxy 'delay 50'
ok 'control: two servers are a majority' dl A flock -n f true
peer_end proxy
master_up 3
rig_end
