#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# A whole host is frozen, as by a hypervisor, for longer than its leases last,
# and thawed: its holders died while it was frozen, and none has written a byte
# since another host had its lock (L6).  So it is with who has locked; with his
# child, which shares the description; and with the program that he became.  With
# on_lost = "report" they go on and write (control).
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/losers.sh"

n=${SURVIVAL_N:-20}
# (Who is killed has a core to die, or he is seen to be there yet: between his timer and
# the next owner there are 0.3 s.)
SURVIVOR_BY='nice -n -20'
top=$(findmnt -n -t cgroup2 -o TARGET | head -n1)
group=$top/dlock-rig.$$
if [ -z "$top" ] || ! mkdir "$group" 2>/dev/null; then
	skip 'frozen holders' 'no cgroup2 of ours here'
	done_testing
	exit 0
fi

# All processes of host A.
freeze()
{
	local pid

	for pid in $(pids_of A); do
		echo "$pid" >"$group/cgroup.procs" 2>/dev/null
	done
	echo 1 >"$group/cgroup.freeze"
}

is_frozen()
{
	grep -q '^frozen 1' "$group/cgroup.events"
}

thaw()
{
	echo 0 >"$group/cgroup.freeze"
}

leave_group()
{
	thaw
	rig_cleanup
	until_true 5 rmdir "$group" 2>/dev/null
}

# frozen HOW N
frozen()
{
	survivors "$1" "$2"
	watch_deaths
	others "$2"
	freeze
	until_true 5 is_frozen || rig_die 'it does not freeze'
	judge "$2"
}

rig_start disks
trap leave_group EXIT
rig_configs ttl=6s path_more='on_lost = "report"'
UNWATCHED=1
for how in plain forked executed; do
	frozen "$how" 5
	is "$EARLY" '0 1 2 3 4 ' "report, $how: all live (control)"
	thaw
	ok "... and write what is another host's (control)" \
		until_true 10 wrote_all 5
	survivors_leave 5
done
UNWATCHED=''
rig_configs ttl=6s
for how in plain forked executed; do
	frozen "$how" "$n"
	is "$EARLY" '' \
		"kill, $how: $n of $n died in the frozen host before the others were granted"
	note "the last of them $MARGIN ms before"
	thaw
	on A sleep 0.2 # in which each would have written
	wrote_late "$n"
	is "$WROTE" '' 'and none has written a byte since'
	survivors_leave "$n"
done
rig_end
