#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Processes that share a description have one lock (flock(2)): whoever of them is
# granted it, the others that wait for it have it as well.  By a shadow each has a
# description of its own, and is not to wait for what is his already (DESIGN L1,
# 6.8).
# shellcheck disable=SC2016 # the jobs' shells expand these
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

rig_start disks
for h in A B; do
	rig_config "$h" ttl=5s connect_timeout=400ms \
		path_more='local = "shadow"'
	echo "state_dir = \"$RIG/state.$h\"" >>"$RIG/$h.conf"
done
cp_new all go
KEY=dlock:$MNT/f # (of queue_is)

# wait_here N: so many wait in the kernel, for a lock that somebody has; the holder's
# keeper is one of them
wait_here()
{
	[ "$(on A grep -c -- '-> FLOCK' /proc/locks)" -ge "$1" ]
}

# siblings RUN HOST WAIT [STRANGER]: somebody on that host has the lock while three
# of them begin to wait, as WAIT sees; and then a stranger to all of them, perhaps.
siblings()
{
	local run=$1 name="$1, $2${4:+, among strangers}"

	locker s "$run" "$2"
	ask s 'open f f'
	ask s 'lock f EX'
	is "$RESULT" 0 "$name: somebody has it"
	# (Each has it while the others get it, or none says so.)
	"$run" A env both="$RIG/cp/all" go="$RIG/cp/go" bash -c 'exec 9>f
		for i in 1 2 3; do
			flock 9 && echo $i >$both &
		done
		wait; read x <$go' 2>"$RIG/siblings.err" &
	ok "$name: three siblings wait" until_true 10 "$3" 3
	if [ -n "${4-}" ]; then
		locker other "$run" A
		ask other 'open f f'
		say other 'lock f EX'
		ok "$name: and a stranger" until_true 10 wait_here 2
	fi
	ask s 'lock f UN'
	for i in 1 2 3; do
		ok "$name: $i of them have it" cp_wait all 10
	done
	ask s 'lock f EX NB'
	is "$RESULT" EAGAIN "$name: nobody else has"
	cp_reach go
	if [ -n "${4-}" ]; then
		hear other
		is "$RESULT" 0 "$name: the other stranger has it after them"
		ask other 'lock f UN'
	fi
	say s 'lock f EX'
	ok "$name: it is free with the last of them" hear s
	is "$RESULT" 0 "$name: and granted"
	peer_end s ${4:+other}
	wait
}

siblings on A wait_here
siblings dl A queue_is
siblings dl B queue_is
siblings dl A queue_is stranger
rig_end
