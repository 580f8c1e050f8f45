#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Who is stopped while his lock cannot be renewed (on_lost = "pause") goes on, and
# only by the right word: though the keeper that has stopped him is killed, for its
# standby knows of him; after the last one of two keepers that had him stopped; not
# if a user had stopped him before.  Who is continued by hand is killed; and so is,
# after pause_at_most, whose both keepers were.
. "${0%/*}/../../lib/rig.sh"

TTL=6000

state()
{
	on A cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null
}

is_in_state()
{
	[ "$(state "$1")" = "$2" ]
}

runs()
{
	[[ "$(state "$1")" = [SR] ]]
}

pid_of()
{
	on A pgrep -f "^sleep $1\$"
}

is_there()
{
	pid_of "$1" >/dev/null
}

# dl_first COMMAND...: on A; who has no core when he is to say READY is killed
dl_first()
{
	dl A nice -n -20 env DLOCK_LOG="info:$RIG/log" "$@"
}

# hold FILE SECONDS: a sleep has the lock, and is not preloaded
hold()
{
	dl_first bash -c "exec 9>$1; flock 9; unset LD_PRELOAD; exec sleep $2" &
	until_true 10 is_there "$2" || rig_die "no sleep $2"
}

# (Before its keeper has seen it stopped, it is only stopped once more.)
is_killed_of_it()
{
	on A kill -CONT "$1" 2>/dev/null
	pid_is_gone_on A "$1"
}

rig_start disks
proxy p
rig_configs ttl=${TTL}ms connect_timeout=400ms timeout=30s \
	url="redis://127.0.0.1:$PROXY/0" \
	path_more='on_lost = "pause" pause_at_most = "90s"'

# Of the five that are there.  The sixth one's is, too, if that was killed after its
# deadline, on a busy machine: it has a loss to record, at a server that hangs.
have_taken_over()
{
	have_standbys A 5 || have_standbys A 6
}

# A keeper each; of the last but one a process is under two locks.
hold one 1001
hold two 1002
hold three 1003
dl_first bash -c \
	'exec 8>four; flock 8; flock five sleep 1004' &
until_true 10 is_there 1004
hold six 1005
one=$(pid_of 1001) two=$(pid_of 1002) three=$(pid_of 1003)
both=$(pid_of 1004) six=$(pid_of 1005)
ok 'each has its keeper' until_true 10 have_standbys A 6
on A kill -STOP "$two"
ask p hang
for pid in "$one" "$three" "$both" "$six"; do
	ok 'stopped' until_true 10 is_in_state "$pid" T
done
ok 'who is continued by hand is killed' until_true 10 is_killed_of_it "$six"
# (Who kills says so afterwards.)
ok 'which is said' until_true 5 \
	grep -q 'process .* (sleep) was continued by' "$RIG/log"
for pid in $(keepers A); do
	on A kill -KILL "$pid"
done
ok 'standbys take over' until_true 10 have_taken_over
ask p pass
for pid in "$one" "$three" "$both"; do
	ok 'goes on' until_true 10 runs "$pid"
done
is "$(state "$two")" T 'who was stopped by a user is still'
on A kill -KILL "$one" "$two" "$three" "$both"
ok 'all is over' until_true 20 host_is_idle A

# Nobody is left to let it go on, but a timer of its own.
rig_configs ttl=${TTL}ms connect_timeout=400ms timeout=30s \
	url="redis://127.0.0.1:$PROXY/0" \
	path_more='on_lost = "pause" pause_at_most = "9s"'
dl_first /usr/bin/python3 -c '
import fcntl, time
f = open("seven", "w")
fcntl.flock(f, fcntl.LOCK_EX)
open("locked", "w")
time.sleep(1000)' &
ok 'the program has it' until_true 10 on A test -e locked
ok 'and its keeper' until_true 10 have_standbys A 1
seven=$(on A pgrep -o -x python3)
ask p hang
ok 'it is stopped' until_true 10 is_in_state "$seven" T
on A pkill -KILL -x 'dlock-[ks].*'
sleep 0.3
is "$(state "$seven")" T 'and stays so, without keepers'
ok 'not for ever' until_true 20 pid_is_gone_on A "$seven"
ask p pass
rr flushall >/dev/null
rig_end
