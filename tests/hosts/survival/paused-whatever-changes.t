#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Who works under a lock that cannot be renewed (on_lost = "pause") stands, or is
# dead, whatever came in between: a child that a fork(2) had not made yet when its
# parent was stopped; a job whose lock's taker has ended since, of a file that the
# keeper cannot open, so that nobody can tell of its lock any more; a program whose
# first thread has ended; one that has given up its privileges, and can tell its
# keeper nothing more; one that all orphans come to, its keepers among them.  And
# who has the number of one that has ended since is none of them.
. "${0%/*}/../../lib/rig.sh"

# there PGREP-ARGUMENT...: its number is $PID; what it has begun has its name as well,
# until that is a keeper.
there()
{
	PID=$(on A pgrep -o "$@")
}

is_in_state()
{
	[ "$(on A cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null)" = "$2" ]
}

runs()
{
	is_in_state "$1" S || is_in_state "$1" R
}

# stopped N: so many times the log tells of it
stopped()
{
	[ "$(grep -c 'are stopped until' "$RIG/log")" = "$1" ]
}

# All threads that have not ended.
threads_are()
{
	# shellcheck disable=SC2016 # the inner shell's
	[ "$(on A sh -c 'cut -d" " -f3 /proc/$0/task/*/stat' "$1" | sort -u)" = \
		"$2"$'\nZ' ]
}

# dl_first COMMAND...: on A; who has no core when he is to say READY is killed
dl_first()
{
	dl A nice -n -20 env DLOCK_LOG="info:$RIG/log" "$@"
}

# said REGEX: in the log; who kills or stops says so afterwards
said()
{
	grep -qE "$1" "$RIG/log"
}

rig_start disks
proxy p
rig_configs ttl=6s connect_timeout=400ms timeout=30s \
	url="redis://127.0.0.1:$PROXY/0" \
	path_more='on_lost = "pause" pause_at_most = "90s"'

mkfifo "$RIG/go"
dl_first bash -c "exec 9>f; flock 9
	unset LD_PRELOAD; exec $BIN/forks_late $RIG/worked $RIG/go" &
ok 'a program that only has the lock is amidst fork(2)' \
	until_true 10 there -x lets_go
# (It, and not what has begun that and may lack a core to end.)
there -x forks_late
parent=$PID
ok '... in the kernel' until_true 10 is_in_state "$parent" D
ok '... and a keeper has its lease' until_true 10 have_standbys A 1
ask p hang
ok 'it is sent SIGSTOP' until_true 20 stopped 1
stopped 1 || diag "$(cat "$RIG/log")"
echo >"$RIG/go"
# (It may be stopped before it has said its name.)
ok 'it has a child' until_true 10 there -P "$parent"
child=$PID
ok '... and stands' until_true 10 is_in_state "$parent" T
ok '... and so does the child' until_true 10 is_in_state "$child" T
ask p pass
ok 'both go on' until_true 20 runs "$parent"
ok '... the child as well' until_true 20 runs "$child"
on A kill -KILL "$parent" "$child"
ok 'all is over' until_true 20 host_is_idle A

on A mkfifo pipe
# shellcheck disable=SC2016 # Python's
peer taker dl_first /usr/bin/python3 -c '
import fcntl, os, subprocess
fd = os.open("pipe", os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
subprocess.run(["sleep", "1001"])'
ok 'a job works under the lock of a FIFO' \
	until_true 10 there -f '^sleep 1001$'
job=$PID
ok '... and a keeper has its lease' until_true 10 have_standbys A 1
ask p hang
ok 'it is stopped' until_true 20 is_in_state "$job" T
on A pkill -KILL -x python3
ok 'with the end of its taker it is killed' \
	until_true 20 pid_is_gone_on A "$job"
ok '... which is said' until_true 5 \
	said 'is LOST.*its lock has ended before it was renewed'
ask p pass
peer_end taker
ok 'all is over' until_true 20 host_is_idle A
rr flushall >/dev/null

dl_first /usr/bin/python3 -c '
import ctypes, fcntl, threading, time
f = open("g", "w")
fcntl.flock(f, fcntl.LOCK_EX)
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).pthread_exit(None)' &
until_true 10 there -x python3
pid=$PID
ok 'the first thread of a program has ended' until_true 10 threads_are "$pid" S
ok '... and a keeper has its lease' until_true 10 have_standbys A 1
ask p hang
ok 'it is stopped' until_true 20 threads_are "$pid" T
ok '... by its keeper' until_true 5 said "are stopped until it is: $pid "
ask p pass
ok 'it goes on' until_true 20 threads_are "$pid" S
on A kill -KILL "$pid"
ok 'all is over' until_true 20 host_is_idle A

on A chmod 755 "$RIG" "$MNT"
peer daemon dl_first /usr/bin/python3 -c '
import fcntl, os, sys, time
f = open("h", "w")
fcntl.flock(f, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.readline()
os.setgid(65534)
os.setuid(65534)
print("nobody", flush=True)
time.sleep(1000)'
hear daemon
ok 'a keeper of root has a lease' until_true 10 have_standbys A 1
ask daemon go
is "$HEARD" nobody 'its program has given up its privileges'
ok '... and another keeper has it as well' until_true 10 have_standbys A 2
there -x python3
pid=$PID
ask p hang
ok 'it is stopped' until_true 20 is_in_state "$pid" T
ask p pass
ok 'it goes on' until_true 20 runs "$pid"
on A kill -KILL "$pid"
peer_end daemon
ok 'all is over' until_true 20 host_is_idle A

# (PR_SET_CHILD_SUBREAPER)
dl_first /usr/bin/python3 -c '
import ctypes, fcntl, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
f = open("i", "w")
fcntl.flock(f, fcntl.LOCK_EX)
time.sleep(1000)' &
ok 'a keeper has the lease of a subreaper' until_true 10 have_standbys A 1
until_true 10 there -x python3
pid=$PID
ok '... and is its child' on A pgrep -P "$pid" -x dlock-keeper
ask p hang
ok 'it is stopped' until_true 20 is_in_state "$pid" T
ask p pass
ok 'it goes on' until_true 20 runs "$pid"
on A kill -KILL "$pid"
ok 'all is over' until_true 20 host_is_idle A

# by_the_number PID COMMAND...: as that process (clone3(2)).
by_the_number()
{
	on A /usr/bin/python3 -c '
import ctypes, os, signal, sys
pid = (ctypes.c_int * 1)(int(sys.argv[1]))
args = (ctypes.c_uint64 * 11)()
args[4], args[8], args[9] = signal.SIGCHLD, ctypes.addressof(pid), 1
if ctypes.CDLL(None).syscall(435, args, ctypes.sizeof(args)) == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
os.wait()' "$@"
}

dl_first bash -c 'exec 9>j; flock 9
	sleep 1002 & wait' &
ok 'a job has a lock' until_true 10 there -f '^sleep 1002$'
job=$PID
ok '... and a keeper has its lease' until_true 10 have_standbys A 1
pid=$(on A cut -d' ' -f4 "/proc/$job/stat")
ask p hang
ok 'it is stopped' until_true 20 is_in_state "$job" T
on A kill -KILL "$pid"
ok 'who began it has ended' until_true 10 pid_is_gone_on A "$pid"
by_the_number "$pid" sh -c 'sleep 1003 & wait' &
ok 'his number is another one'"'"'s, who has a child' \
	until_true 10 there -f '^sleep 1003$' -P "$pid"
child=$PID
on A kill -CONT "$job"
ok 'the job is continued, and killed for that' \
	until_true 20 pid_is_gone_on A "$job"
ok 'the child runs' runs "$child"
on A kill -KILL "$pid" "$child"
ask p pass
ok 'all is over' until_true 20 host_is_idle A

# A standby that was made while they are stopped lets nobody of them die for a lock
# that is given back much later.
url=redis://127.0.0.1:$PROXY/0
proxy q
rig_config A ttl=6s connect_timeout=400ms timeout=30s url="$url" \
	path_more='on_lost = "pause" pause_at_most = "90s"'
rig_also A q "$MNT/q" ttl=6s connect_timeout=400ms \
	url="redis://127.0.0.1:$PROXY/0" \
	path_more='on_lost = "pause" pause_at_most = "90s"'
rr flushall >/dev/null
peer two dl_first /usr/bin/python3 -c '
import fcntl, subprocess, sys
f, q = open("k", "w"), open("q", "w")
fcntl.flock(f, fcntl.LOCK_EX)
fcntl.flock(q, fcntl.LOCK_EX)
jobs = [subprocess.Popen(["sleep", s], pass_fds=[q.fileno()])
        for s in ("1004", "1005")]
q.close()
print("held", flush=True)
sys.stdin.readline()
fcntl.flock(f, fcntl.LOCK_UN)
print("unlocked", flush=True)
sys.stdin.readline()'
hear two
is "$HEARD" held 'a program has a lock, and its jobs another one'
ok '... and a keeper has both leases' until_true 10 have_standbys A 1
there -f '^sleep 1004$'
job=$PID
there -f '^sleep 1005$'
other=$PID
there -x python3
pid=$PID
ask p hang
ask q hang
ok 'all are stopped' until_true 20 is_in_state "$job" T
ok '... the program, too' until_true 20 is_in_state "$pid" T
on A pkill -KILL -x dlock-standby
ok 'the keeper has another standby' until_true 20 have_standbys A 1
ask p pass
ask q pass
ok 'they go on' until_true 20 runs "$pid"
ok '... the jobs as well' until_true 20 runs "$job"
ask q hang
ok 'then only the jobs are stopped' until_true 20 is_in_state "$job" T
ok '... and the program is not' runs "$pid"
on A kill -KILL "$other"
ask two unlock
is "$HEARD" unlocked 'it unlocks what it has, and one of the jobs is dead'
ok '... which is released' until_true 10 lease_is_gone k
ask q pass
ok 'the other one goes on' until_true 20 runs "$job"
on A kill -KILL "$job"
peer_end two
ok 'all is over' until_true 20 host_is_idle A
rig_end
