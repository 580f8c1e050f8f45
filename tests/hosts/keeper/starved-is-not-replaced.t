#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A keeper that gets a core too rarely to answer in time is not killed: the next
# one would get no more, and needs more of it (DESIGN 9.5).  The kernel gives this
# one a third of what it has used before, all of it at the beginning of each 0.6 s.
# Who waits for its word waits no longer for that.
#
# Control: it is replaced when it does not run at all.
. "${0%/*}/../../lib/rig.sh"

TTL=6000
CGROUP=/sys/fs/cgroup/cpu/dlock-starved-$$

end_cgroup()
{
	[ -d "$CGROUP" ] || return 0
	echo -1 >"$CGROUP/cpu.cfs_quota_us"
	until_true 5 rmdir "$CGROUP" 2>/dev/null
}

# used PID: its threads' time on a core, in us
used()
{
	cat "/proc/$1/task/"*/schedstat | awk '{ ns += $1 } END { print int(ns / 1000) }'
}

# starve PID: of each 0.6 s, which is longer than one with a core may take for an
# answer, a third of what it used in that time: a tenth of that in 2 s.  1 ms is the
# least that the kernel can give.
starve()
{
	local before share

	before=$(used "$1")
	sleep 2
	share=$((($(used "$1") - before) / 10))
	[ "$share" -gt 1000 ] || share=1000
	note "$share us of each 0.6 s"
	echo 600000 >"$CGROUP/cpu.cfs_period_us" &&
		echo "$share" >"$CGROUP/cpu.cfs_quota_us" &&
		echo "$1" >"$CGROUP/cgroup.procs"
}

was_throttled()
{
	[ "$(sed -n 's/^nr_throttled //p' "$CGROUP/cpu.stat")" -ge 4 ]
}

rig_start disks
trap 'end_cgroup; rig_cleanup' EXIT
mkdir "$CGROUP" || rig_die 'no cpu controller of cgroup v1'
: >"$RIG/log"
rig_configs ttl=${TTL}ms connect_timeout=300ms

# It has something to say each 0.1 s.
peer a dl A env DLOCK_LOG="warning:$RIG/log" /usr/bin/python3 -c '
import fcntl, os, select, sys, time
f = open("f", "w")
fcntl.flock(f, fcntl.LOCK_EX)
print("held", flush=True)
while not select.select([sys.stdin], [], [], 0.1)[0]:
    others = [open(f"g{i}", "w") for i in range(8)]
    for g in others:
        fcntl.flock(g, fcntl.LOCK_EX)
    time.sleep(0.06)
    for g in others:
        g.close()
print("lives", flush=True)
sys.stdin.readline()
sys.stdin.readline()'
hear a
ok 'the keeper has a standby' until_true 5 have_standbys A 1
KEEPER=$(pids_of A -x dlock-keeper)
token=$(rr get "dlock:$MNT/f")
ok 'it gets a third of what it needs' starve "$KEEPER"
ok 'and wants more (control)' until_true 30 was_throttled
refused_for $((2 * TTL)) f
is "$?" 0 'nobody else is granted the lock'
is "$(pids_of A -x dlock-keeper)" "$KEEPER" 'it is the same keeper'
is "$(rr get "dlock:$MNT/f")" "$token" 'and the same lease'
kill -STOP "$KEEPER"
ok 'stopped, it is replaced (control)' until_true 20 has_another
say a ''
hear a
is "$HEARD" lives 'its process lives'
unlike "$(cat "$RIG/log")" 'LOST|are killed' 'nothing is said to be lost'
say a ''
peer_end a
ok 'none of them is left' until_true 10 no_keeper A
end_cgroup
rig_end
