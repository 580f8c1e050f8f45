#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A keeper that is killed ends when the last of its threads has had a core for
# that, which may be long on a busy machine: until then its files are open.  It
# counts as dead all the same: its watchdogs kill nobody, and its standby carries
# its leases on.  (Frozen is the thread that waits for a lock's end, by the
# freezer of cgroup v1, which has threads; so is nobody else.)
. "${0%/*}/../../lib/rig.sh"

TTL=3000
CGROUP=/sys/fs/cgroup/freezer/dlock-dying-$$

end_cgroup()
{
	[ -d "$CGROUP" ] || return 0
	echo THAWED >"$CGROUP/freezer.state"
	until_true 5 rmdir "$CGROUP" 2>/dev/null
}

# By their numbers here.
pids_of()
{
	pgrep --ns "${INIT[A]}" --nslist pid -x "$1"
}

threads_are_two()
{
	[ "$(find "/proc/$KEEPER/task" -mindepth 1 -maxdepth 1 | wc -l)" = 2 ]
}

is_frozen()
{
	[ "$(cat "$CGROUP/freezer.state")" = FROZEN ]
}

# Of $KEEPER, a thread that is not the first one.
freeze_a_thread()
{
	KEEPER=$(pids_of dlock-keeper)
	until_true 5 threads_are_two || return 1
	find "/proc/$KEEPER/task" -mindepth 1 -maxdepth 1 -printf '%f\n' |
		grep -vx "$KEEPER" >"$CGROUP/tasks"
	echo FROZEN >"$CGROUP/freezer.state"
	until_true 5 is_frozen
}

first_thread_is_dead()
{
	grep -q '^State:.*Z' "/proc/$KEEPER/status"
}

thaw()
{
	first_thread_is_dead || return 1
	echo THAWED >"$CGROUP/freezer.state"
	until_true 5 pid_is_gone "$KEEPER"
}

watchdogs_are()
{
	[ "$(pids_of dlock-watchdog | wc -l)" = "$1" ]
}

has_another()
{
	pids_of dlock-keeper | grep -qvx "$KEEPER"
}

# Longer than a lease that is renewed by nobody lives.
a_life_goes_by()
{
	local end=$(($(now) + 2 * TTL * 1000000))

	while [ "$(now)" -lt "$end" ]; do
		sleep 0.1
	done
}

lives()
{
	kill -0 "${PEER_PID[$1]}" 2>/dev/null
}

token()
{
	rr get "dlock:$MNT/$1"
}

rig_start disks
trap 'end_cgroup; rig_cleanup' EXIT
mkdir "$CGROUP" || rig_die 'no freezer of cgroup v1'
: >"$RIG/log"
rig_configs ttl=${TTL}ms connect_timeout=300ms

# --- who shares a lock, and has a watchdog ------------------------------------------

peer pair dl A env DLOCK_LOG="warning:$RIG/log" /usr/bin/python3 -c '
import fcntl, os, sys
f = open("pair", "w")
fcntl.flock(f, fcntl.LOCK_EX)
child = os.fork()
if not child:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
try:
    print(os.waitpid(child, os.WNOHANG), flush=True)
finally:
    os.close(0)
os.wait()'
hear pair
ok 'a child that shares a lock has two watchdogs' until_true 5 watchdogs_are 2
first=$(token pair)
ok 'a thread of their keeper has no core' freeze_a_thread
# shellcheck disable=SC2046 # numbers
kill -KILL "$KEEPER" $(pids_of dlock-standby)
ok 'both keepers are killed: the first thread is dead' \
	until_true 5 first_thread_is_dead
ok 'the process has another keeper' until_true 5 has_another
a_life_goes_by
ok 'the one that was killed has not ended yet (control)' first_thread_is_dead
say pair ''
hear pair
is "$HEARD" '(0, 0)' 'the child lives'
ok 'and so does its parent' lives pair
is "$(token pair)" "$first" 'who has its lease'
ok 'when it may, it ends' thaw
peer_end pair
unlike "$(cat "$RIG/log")" 'LOST|are killed' 'nothing is said to be lost'
ok 'none of them is left' until_true 5 host_is_idle A

# --- whose lease nobody but keepers renews ------------------------------------------

# shellcheck disable=SC2016 # sh's
peer shell dl A env DLOCK_LOG="warning:$RIG/log" sh -c \
	'exec 9>shell; flock 9; echo held; read -r _'
hear shell
ok 'a shell that only has the descriptor has a standby' \
	until_true 5 have_standbys A 1
first=$(token shell)
ok 'a thread of its keeper has no core' freeze_a_thread
kill -KILL "$KEEPER"
ok 'it is killed: the first thread is dead' until_true 5 first_thread_is_dead
ok 'its standby is the keeper' until_true 5 has_another
a_life_goes_by
ok 'the one that was killed has not ended yet (control)' first_thread_is_dead
ok 'the shell lives' lives shell
is "$(token shell)" "$first" 'and has its lease'
ok 'when it may, it ends' thaw
peer_end shell
unlike "$(cat "$RIG/log")" 'LOST|are killed' 'nothing is said to be lost'
end_cgroup
rig_end
