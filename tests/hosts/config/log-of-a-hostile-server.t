#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# What a server says of itself stands in a line of ours without its control
# bytes: nobody's terminal obeys it.
. "${0%/*}/../../lib/rig.sh"

# said: what a lock says of the policy
said()
{
	dl A flock -n "$MNT/f" true 2>&1
}

rig_start disks
proxy p
rr config set maxmemory 100mb >/dev/null
rr config set maxmemory-policy volatile-lru >/dev/null
rig_config A "url=redis://127.0.0.1:$PROXY/0"
like "$(said)" 'maxmemory-policy is volatile-lru,' \
	'the policy is told of (control)'
ask p $'change volatile-lru volat\e[2Jlru'
is "$RESULT" ok 'the server says an escape sequence'
like "$(said)" 'maxmemory-policy is volat\\x1b\[2Jlru,' \
	'it stands there as what it is'
rig_end
