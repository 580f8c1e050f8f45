#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# More processes share a lock than their keeper may open descriptors: all of them
# are dead before another host has it, for the keeper needs none but for those that
# it is about to kill.  And while those whom it has killed get no core to die by, it
# finds the others all the same.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/freezer.sh"
. "${0%/*}/../../lib/sharers.sh"

MANY=100 FILES=64

# shellcheck disable=SC2016 # sh's
WORKS='for ((i = 0; i < $0; i++)); do sleep 1000 & done; echo held; wait'

# holds SCRIPT
holds()
{
	: >"$RIG/log"
	peer holder dl A env DLOCK_LOG="warning:$RIG/log" setsid bash -c \
		"ulimit -n $FILES; $1" "$MANY"
	hear holder
	until_true 20 have_all && until_true 5 have_standbys A 1
}

are_killed()
{
	grep -q 'these who have its lock are killed' "$RIG/log"
}

# SIGKILL is pending.
all_are_dying()
{
	# shellcheck disable=SC2046 # numbers
	[ "$(awk '/^SigPnd:.*1..$/ { n++ } END { print n }' \
		$(printf '/proc/%s/status ' $(pids_of A -x sleep)))" = "$MANY" ]
}

is_said()
{
	ok "$1: which is said" until_true 5 are_killed
	are_killed || diag "the log: $(cat "$RIG/log")"
	unlike "$(cat "$RIG/log")" 'nobody is found|runs on' \
		"$1: and it is not said that there is nobody, or that one runs on"
	note "$(cat "$RIG/log")"
	peer_end holder
}

rig_start disks
rig_configs ttl=6s
ok "$MANY share the lock, and $FILES descriptors are allowed" \
	holds "exec 9>f; flock 9; $WORKS"
kill -STOP "$REDIS_PID"
ok 'the server is silent: all of them die' until_true 10 none_is_left
kill -CONT "$REDIS_PID"
is_said 'at once'

# Who works for a holder is found by him, who may be dead by then.
ok "$MANY work under the lock, and have no descriptor of it" \
	holds "exec flock -o f bash -c '$WORKS' $MANY"
kill -STOP "$REDIS_PID"
ok 'the server is silent: they die, too' until_true 10 none_is_left
kill -CONT "$REDIS_PID"
is_said 'below a holder'

rig_configs ttl=6s path_more='on_lost = "pause"'
ok "$MANY share it, who are to be stopped until it is renewed" \
	holds "exec 9>f; flock 9; $WORKS"
kill -STOP "$REDIS_PID"
ok 'the server is silent: there are no descriptors for that, and they die' \
	until_true 10 none_is_left
kill -CONT "$REDIS_PID"
is_said 'to be stopped'
rig_configs ttl=6s

# (By the freezer of cgroup v1: who is killed is dead when he is thawed.)
freezer_start
ok "$MANY share it, who get no core" holds "exec 9>f; flock 9; $WORKS"
# shellcheck disable=SC2046 # numbers
freeze $(pids_of A -x sleep)
kill -STOP "$REDIS_PID"
ok 'the server is silent: all are killed, and none of them is dead' \
	until_true 10 all_are_dying
echo THAWED >"$CGROUP/freezer.state"
ok '... as they are then' until_true 10 none_is_left
kill -CONT "$REDIS_PID"
is_said 'without a core'
rig_end
