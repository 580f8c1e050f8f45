# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Single threads of a keeper on host A have no core, by the freezer of cgroup v1,
# which has threads; so is nobody else.  $KEEPER is its number here.

CGROUP=/sys/fs/cgroup/freezer/dlock-threads-$$

freezer_end()
{
	[ -d "$CGROUP" ] || return 0
	echo THAWED >"$CGROUP/freezer.state"
	until_true 5 rmdir "$CGROUP" 2>/dev/null
}

freezer_start()
{
	trap 'freezer_end; rig_cleanup' EXIT
	mkdir "$CGROUP" || rig_die 'no freezer of cgroup v1'
}

watchdogs_are()
{
	[ "$(pids_of A -x dlock-watchdog | wc -l)" = "$1" ]
}

is_frozen()
{
	[ "$(cat "$CGROUP/freezer.state")" = FROZEN ]
}

# freeze THREAD...
freeze()
{
	printf '%s\n' "$@" | while read -r thread; do
		echo "$thread" >"$CGROUP/tasks" || return
	done
	echo FROZEN >"$CGROUP/freezer.state"
	until_true 5 is_frozen
}

other_threads()
{
	find "/proc/$KEEPER/task" -mindepth 1 -maxdepth 1 -printf '%f\n' |
		grep -vx "$KEEPER"
}

has_other_threads()
{
	[ "$(other_threads | wc -l)" -gt 0 ]
}

freeze_other_threads()
{
	until_true 5 has_other_threads || return 1
	# shellcheck disable=SC2046 # numbers
	freeze $(other_threads)
}

first_thread_is_dead()
{
	grep -q '^State:.*Z' "/proc/$KEEPER/status"
}

# It has been killed, and has all of its threads yet.
is_dying()
{
	[ -d "/proc/$KEEPER" ] && ! grep -q '^State:.*Z' "/proc/$KEEPER/status" &&
		grep -q '^SigPnd:.*1..$' "/proc/$KEEPER/status"
}

thaw()
{
	echo THAWED >"$CGROUP/freezer.state"
	until_true 5 pid_is_gone "$KEEPER"
}
