#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A watchdog without a core kills who has renewed: so it comes first where it may
# (sched(7): SCHED_RR, which wants CAP_SYS_NICE or RLIMIT_RTPRIO).  So does a keeper
# for as long as a lease is overdue, for it has to find its holders.  The program, what
# it starts and other keepers have the priority that it was given; and where a call
# for one may be deadly nobody makes it.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=24s # overdue after 16 s, and not while others have the cores
: >"$RIG/log"
chmod 666 "$RIG/log"
chmod 755 "$RIG" "$MNT"
on A chmod 777 .

# policies PID: of each of its threads, "NAME: POLICY" in one line each, sorted
policies()
{
	# shellcheck disable=SC2016 # sh's
	on A sh -c 'cd /proc/"$0"/task && for t in *; do
		echo "$(cat "$t/comm"): $(chrt -p "$t" |
			sed -n "s/.*policy: //p")"; done' "$1" | sort
}

# Of all of dlock's own processes.
own_policies()
{
	local pid

	for pid in $(on A pgrep '^dlock-[ksw]'); do
		# The first thread: others do what may take long.
		# shellcheck disable=SC2016 # sh's
		on A sh -c 'echo "$(cat /proc/"$0"/comm): $(chrt -p "$0" |
			sed -n "s/.*policy: //p")"' "$pid"
	done | sort | uniq -c | sed 's/^ *//'
}

has_policies()
{
	[ "$(own_policies)" = "$1" ]
}

# own_policies_are WHAT NAME: one that was forked just now has another's name yet.
own_policies_are()
{
	until_true 5 has_policies "$1"
	is "$(own_policies)" "$1" "$2"
}

# policies_are PID POLICIES NAME: who has started the keeper ends when it runs, and may
# lack a core for that.
policies_are()
{
	until_true 5 has_these_policies "$1" "$2"
	is "$(policies "$1")" "$2" "$3"
}

has_these_policies()
{
	[ "$(policies "$1")" = "$2" ]
}

# holds NAME COMMAND...: a process that holds, with a child that shares it
holds()
{
	local name=$1

	shift
	peer "$name" dl A env DLOCK_LOG="warning:$RIG/log" "$@" \
		/usr/bin/python3 -c 'import fcntl, os, sys
f = open(sys.argv[1], "w")
fcntl.flock(f, fcntl.LOCK_EX)
child = os.fork()
if not child:
    sys.stdin.read()
    os._exit(0)
print(os.getpid(), child, flush=True)
sys.stdin.read()' "$name"
	hear "$name" 10
	read -r PID CHILD <<<"$HEARD"
}

has_all()
{
	[ "$(on A pgrep -c '^dlock-[ksw]')" = 4 ]
}

none_left()
{
	! on A pgrep '^dlock-[ksw]' >/dev/null
}

# leaves NAME
leaves()
{
	peer_end "$1"
	until_true 5 none_left || diag "$(own_policies)"
}

holds root
ok 'a program of root has a keeper, a standby and two watchdogs' \
	until_true 5 has_all
own_policies_are '1 dlock-keeper: SCHED_OTHER
1 dlock-standby: SCHED_OTHER
2 dlock-watchdog: SCHED_RR|SCHED_RESET_ON_FORK' 'which come first'
policies_are "$PID" 'python3: SCHED_OTHER
python3: SCHED_OTHER' 'the program does not, nor does its renewal'
is "$(policies "$CHILD")" 'python3: SCHED_OTHER' 'nor does its child'
leaves root

holds real chrt --fifo 5
ok 'one that has a higher priority' until_true 5 has_all
own_policies_are '1 dlock-keeper: SCHED_FIFO
1 dlock-standby: SCHED_FIFO
2 dlock-watchdog: SCHED_FIFO' 'gives it to all of them'
leaves real

holds other setpriv --reuid 65534 --regid 65534 --clear-groups
ok 'one that may not' until_true 5 has_all
own_policies_are '1 dlock-keeper: SCHED_OTHER
1 dlock-standby: SCHED_OTHER
2 dlock-watchdog: SCHED_OTHER' 'has them as it is itself'
leaves other

is "$("$BIN/confined" chrt -r 1 true >/dev/null 2>&1; echo $?)" 159 \
	'who asks for a priority in a confined service is killed (control)'
holds confined "$BIN/confined"
ok 'one that is confined has all of them' until_true 5 has_all
own_policies_are '1 dlock-keeper: SCHED_OTHER
1 dlock-standby: SCHED_OTHER
2 dlock-watchdog: SCHED_OTHER' 'and nobody has asked'
leaves confined
is "$(cat "$RIG/log")" '' 'nothing is said of all that'

# --- overdue ------------------------------------------------------------------

# keeper_is POLICY
keeper_is()
{
	own_policies | grep -qx "1 dlock-keeper: $1"
}

both_watchdogs_first()
{
	[ "$(own_policies | grep watchdog)" = \
		'2 dlock-watchdog: SCHED_RR|SCHED_RESET_ON_FORK' ]
}

replaced()
{
	! on A kill -0 "$dog" 2>/dev/null && both_watchdogs_first
}

proxy p
rig_config A ttl=24s connect_timeout=300ms url="redis://127.0.0.1:$PROXY/0"
holds late
ok 'a server that is about to hang: all are there' until_true 5 has_all
ok 'the keeper does not come first' keeper_is SCHED_OTHER
say p hang
hear p
ok 'it does while a lease is overdue' \
	until_true 22 keeper_is 'SCHED_RR|SCHED_RESET_ON_FORK'
say p pass
hear p
dog=$(on A pgrep '^dlock-w' | head -n 1)
on A kill -KILL "$dog"
ok 'a watchdog that it starts meanwhile does' until_true 5 replaced
ok 'and it does no more when that is over' until_true 30 keeper_is SCHED_OTHER
ok 'who holds it lives' on A kill -0 "$PID"
leaves late
rig_end
