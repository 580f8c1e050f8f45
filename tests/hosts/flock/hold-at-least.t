#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# hold_at_least: a job that ends before another host's clock has started it runs
# on one host all the same.  An exclusive lock keeps all others out for that
# long from its grant on, unlocked or not, whoever releases it: its process, or
# the keeper of one that was killed, or the end of a container.
. "${0%/*}/../../lib/rig.sh"

# tick NAME JOB: three hosts start it, each 0.2 s after the one before
tick()
{
	local h

	for h in A B C; do
		dl "$h" flock -n "$1" sh -c "echo $h >>'$RIG/runs'; sleep $2" &
		sleep 0.2
	done
	wait
}

# runs NAME JOB: how often it ran in 8 ticks
runs()
{
	local i

	: >"$RIG/runs"
	for i in 1 2 3 4 5 6 7 8; do
		tick "$1.$i" "$2"
	done
	wc -l <"$RIG/runs"
}

configs()
{
	local h

	for h in A B C; do
		rig_config "$h" path_more="hold_at_least = \"$1\"" ttl=5s
	done
}

# left NAME: of its key's ttl, in ms
left()
{
	rr pttl "dlock:$MNT/$1"
}

# stays NAME MS: released, or soon, and its key lives longer than that
stays()
{
	until_true 5 at_least_left "$@"
}

at_least_left()
{
	[ "$(left "$1")" -ge "$2" ]
}

is_free()
{
	[ "$(left "$1")" = -2 ]
}

refused()
{
	! dl "$1" flock -n "$2" true
}

rig_start disks
host_new C disks

# --- the jobs of three crons ------------------------------------------------

configs 0s
at_least "$(runs without 0.05)" 9 'control: without, several hosts run a job of 50 ms'
configs 60s
is "$(runs '5 ms' 0.005)" 8 'a job of 5 ms runs once a tick'
is "$(runs '50 ms' 0.05)" 8 'one of 50 ms'
is "$(runs '600 ms' 0.6)" 8 'one of 600 ms'
rr flushall >/dev/null

# --- for whom, and for how long ---------------------------------------------

dl A flock f true
after=$(now)
ok 'no other host has it meanwhile' refused B f
ok 'nor this one, whose kernel lock is free' refused A f
ok 'nor the same process, a second time' \
	dl A /usr/bin/python3 -c 'import fcntl, sys
f = open("h", "w")
fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.flock(f, fcntl.LOCK_UN)
try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: sys.exit(0)
sys.exit(1)'
ok 'the key stays for 60 s' stays f 30000
# (It is looked at later than this.)
most=$((60000 - ($(now) - after) / 1000000 + 50))
at_most "$(left f)" "$most" \
	'counted from the grant, and who is refused does not lengthen it'
dl A flock -s g true
ok 'a shared lock ends with its unlock' until_true 5 is_free g
rr flushall >/dev/null

configs 3s
before=$(now)
dl A flock f true
dl B flock f true
at_least $((($(now) - before) / 1000000)) 2900 'who waits gets it then'
rr flushall >/dev/null

# --- whoever releases it ------------------------------------------------------

configs 60s
peer a dl A /usr/bin/python3 "$TOP/tests/programs/obey.py"
ask a '(lock("f"), child())[1]'
like "$RESULT" '^[0-9]+$' 'the keeper has the lease of a process'
on A pkill -KILL -x python3
ok 'the process is killed, its keeper ends' until_true 20 no_keeper A
ok 'its key stays for longer than a ttl' stays f 6000
ok 'and keeps the others out' refused B f
ok 'here too: no proof of death reaches it' refused A f
rr flushall >/dev/null

# (Who has no core for 200 ms at its end has told nobody.)
dl A nice -n -20 unshare -p -f --mount-proc --kill-child flock f true </dev/null
ok 'the same at the end of a container' stays f 6000
ok 'keeps the next container of the host out' refused A f
rr flushall >/dev/null

# killed NAME: it is granted the lock, and killed before a keeper has it; of which
# file, in $KILLED.  Who has no core for 50 ms in between has a keeper: then it is done
# once more, with another one.
killed()
{
	for KILLED in "$1"{1..5}; do
		{ dl A /usr/bin/python3 -c 'import fcntl, os, sys
f = open(sys.argv[1], "w")
fcntl.flock(f, fcntl.LOCK_EX)
os.kill(os.getpid(), 9)' "$KILLED"; } 2>/dev/null
		! is_released "$KILLED" || continue
		break
	done
	like "$(token_of "$KILLED")" '^dlock1 ([^ ]+ ){3}0' \
		"$KILLED: killed at once, it leaves its lease"
}

# A since of no lock.
is_released()
{
	[[ $(token_of "$1") =~ ^dlock1\ ([^\ ]+\ ){3}[1-9] ]]
}

killed k
ok 'which keeps this host out' refused A "$KILLED"
ok 'and the others' refused B "$KILLED"
killed l
# shellcheck disable=SC2016 # its own
is "$(dl A bash -c 'exec 9>>"$0"; flock -n 9; echo $?' "$KILLED")" 1 \
	'as well by a descriptor that others have'
rr flushall >/dev/null

# One of the host waits for the lock in its kernel, in flock(2), number 73.
waits_in_kernel()
{
	# shellcheck disable=SC2016 # its own
	on A sh -c 'cat /proc/"$(pgrep -x flock)"/syscall' 2>/dev/null |
		grep -q '^73 '
}

waits_at_redis()
{
	[ "$(rr hlen "{dlock:$MNT/w}%q")" -gt 0 ]
}

locker a dl A
ask a 'open w w'
ask a 'lock w EX'
ok 'a keeper has a lease' until_true 5 keepers A
{ dl A flock w true; } 2>/dev/null &
waiter=$!
ok '... whose lock is waited for in the kernel' until_true 5 waits_in_kernel
on A pkill -STOP '^dlock-[ks]'
on A pkill -KILL -x locker
ok 'who is given the lock waits on, though no keeper has released the lease' \
	until_true 3 waits_at_redis
on A pkill -KILL -x flock
on A pkill -CONT '^dlock-[ks]'
wait "$waiter"
peer_end a
ok '... and they end' until_true 20 no_keeper A
rr flushall >/dev/null

# --- a server that has its memory, and no scripts ----------------------------------

peer a dl A /usr/bin/python3 "$TOP/tests/programs/obey.py"
ask a 'lock("s")'
rr script flush >/dev/null
ask a "fcntl.flock($RESULT, 8)"
is "$RESULT" None 'unlocked by a script that the server does not know'
ok 'its key stays as well' stays s 6000
peer_end a
rr flushall >/dev/null

# --- record locks ---------------------------------------------------------------

is "$(dl A /usr/bin/python3 -c 'import fcntl
try: fcntl.lockf(open("f", "w"), fcntl.LOCK_EX)
except OSError as e: print(e.errno)' 2>"$RIG/err")" 37 \
	'a record lock under such a rule fails with ENOLCK'
like "$(cat "$RIG/err")" 'hold_at_least, which is for flock' 'and a line says why'
rig_end
