#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# More processes share a lock than their keeper may open descriptors: all of them
# are dead before another host has it, for the keeper needs none but for those that
# it is about to kill.
. "${0%/*}/../../lib/rig.sh"

MANY=100 FILES=64

# Each is a child that has the descriptor.
sharers()
{
	on A pgrep -xc sleep
}

have_all()
{
	[ "$(sharers)" = "$MANY" ]
}

none_is_left()
{
	[ "$(sharers)" = 0 ]
}

rig_start disks
: >"$RIG/log"
rig_configs ttl=6s
# shellcheck disable=SC2016 # sh's
peer holder dl A env DLOCK_LOG="warning:$RIG/log" bash -c \
	'ulimit -n "$1"; exec 9>f; flock 9
	for ((i = 0; i < $0; i++)); do sleep 1000 & done; echo held; wait' \
	"$MANY" "$FILES"
hear holder
ok "$MANY share the lock, and $FILES descriptors are allowed" \
	until_true 20 have_all
until_true 5 have_standbys A 1
kill -STOP "$REDIS_PID"
ok 'the server is silent: all of them die' until_true 10 none_is_left
kill -CONT "$REDIS_PID"
ok 'which is said' until_true 5 \
	grep -q 'these who have its lock are killed' "$RIG/log"
unlike "$(cat "$RIG/log")" 'nobody is found' 'and it is not said that there is nobody'
note "$(cat "$RIG/log")"
peer_end holder
rig_end
