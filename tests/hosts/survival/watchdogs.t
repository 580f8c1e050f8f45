#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# Who shares a lock, or was executed with it, is killed by two watchdogs should
# nobody run (frozen-host-writes-nothing.t).  They are there for whoever needs
# them and no longer; and no death of one of dlock's own processes kills anybody.
. "${0%/*}/../../lib/rig.sh"

TTL=9000 # (at two thirds of it a keeper that is stopped is replaced)
KILLS=${KILLS:-20}

watchdogs()
{
	on A pgrep -x dlock-watchdog
}

# are_watched N: so many processes of A are to be killed by a pipe's end
# (proc_pid_fdinfo(5): O_ASYNC)
are_watched()
{
	local pid

	# shellcheck disable=SC2016 # sh's
	[ "$(for pid in $(on A pgrep -x dlock-keeper); do
		on A sh -c 'cat /proc/"$0"/fdinfo/*' "$pid" 2>/dev/null
	done | grep -c '^flags:.*2[0-7]\{4\}$')" = "$1" ]
}

is_somebody_watched()
{
	! are_watched 0
}

# are_there N
are_there()
{
	[ "$(watchdogs | wc -l)" = "$1" ]
}

# Another one is there in its place.
kill_one()
{
	local -a all
	local pid

	mapfile -t all < <(watchdogs)
	pid=${all[RANDOM % ${#all[@]}]}
	on A kill -KILL "$pid"
	until_true 5 pid_is_gone_on A "$pid" && until_true 5 are_there 2
}

# In one moment: the keeper, which would replace one that is seen to be dead before
# the other, stands still from here on.
end_both()
{
	on A sh -c 'pkill -STOP -x dlock-keeper; pkill -KILL -x dlock-watchdog'
}

# The keeper ends, and so do its watchdogs; its standby has others.
kill_keeper()
{
	local old

	old=$(watchdogs)
	on A pkill -KILL -x dlock-keeper
	for pid in $old; do
		until_true 5 pid_is_gone_on A "$pid" || return 1
	done
	until_true 5 have_standbys A 1 && until_true 5 are_there 2
}

# again N COMMAND: so many times
again()
{
	local i

	for ((i = 0; i < $1; i++)); do
		"$2" || return 1
	done
}

lives()
{
	kill -0 "${PEER_PID[$1]}" 2>/dev/null
}

is_dead()
{
	! lives "$1"
}

token()
{
	rr get "dlock:$MNT/$1"
}

# --- who has some -------------------------------------------------------------

rig_start disks
: >"$RIG/log"
rig_configs ttl=${TTL}ms connect_timeout=300ms
locker alone dl A
ask alone 'open x alone'
ask alone 'lock x EX NB'
ok 'a process has a keeper' until_true 5 have_standbys A 1
on A sleep 0.5
ok 'and needs no watchdog, for its timer is its own' are_there 0
ask alone 'fork'
child=$RESULT
ok 'with a child that shares the descriptor, it has two' until_true 5 are_there 2
ask alone "reap $child"
ok 'and none without it' until_true 5 are_there 0
ask alone 'fork'
child=$RESULT
ok 'two again' until_true 5 are_there 2
ask alone 'lock x UN'
ok 'and none without the lock' until_true 5 are_there 0
ask alone "reap $child"
peer_end alone

# (The keeper takes what is left of the limit, as of others.)
peer untimed dl A prlimit --sigpending=0:100 "$BIN/lease_loser" plain untimed \
	untimed.journal
hear untimed
is "$HEARD" held 'one is there whose own timer is refused'
ok 'he has two, for he says so' until_true 10 are_there 2
peer_end untimed
ok 'and none when he has ended' until_true 5 are_there 0

# Nobody may look into who was another user: he has the lock by his word, as long
# as he says so.
on A chmod 755 "$RIG"
on A chmod 777 "$MNT"
peer daemon dl A /usr/bin/python3 -c '
import fcntl, os, subprocess, sys
os.setgid(65534)
os.setuid(65534)
f = open("daemon", "w")
fcntl.flock(f, fcntl.LOCK_EX)
job = subprocess.Popen(["sleep", "1001"], pass_fds=[f.fileno()])
print("held", flush=True)
sys.stdin.readline()
f.close()
print("left", flush=True)
print(job.wait(), flush=True)
sys.stdin.readline()'
hear daemon
is "$HEARD" held 'a daemon that has changed its user has a job with its lock'
ok '... which is watched' until_true 5 are_watched 1
ask daemon leave
is "$HEARD" left '... and has it no more itself'
sleep 3 # in which the keeper looks at them four times
ok '... so the job is watched alone' are_watched 1
end_both
hear daemon
is "$HEARD" -9 'the job dies with its watchdogs, and the daemon does not'
on A pkill -CONT -x dlock-keeper
peer_end daemon
ok 'none is there any more' until_true 5 are_there 0

# --- they are killed ------------------------------------------------------------

# shellcheck disable=SC2016 # sh's
peer shell dl A env DLOCK_LOG="warning:$RIG/log" sh -c \
	'exec 9>shell; flock 9; echo held; read -r _; exec 9>&-
	echo unlocked; read -r _'
hear shell
ok 'a shell that only has the descriptor has two' until_true 5 are_there 2
first=$(token shell)
ok "one of both is killed, $KILLS times" again "$KILLS" kill_one
ok "their keeper is, $KILLS times" again "$KILLS" kill_keeper
ok 'the shell lives' lives shell
is "$(token shell)" "$first" 'and has its lease'
unlike "$(cat "$RIG/log")" 'LOST|are killed' 'nothing else is said'
say shell ''
hear shell
is "$HEARD" unlocked 'it unlocks'
ok 'and has none any more' until_true 5 are_there 0
peer_end shell

# --- both at once, which is their mark -------------------------------------------

# die_with NAME: his watchdogs end both, and so does he.
die_with()
{
	local status=0

	end_both
	until_true 5 is_dead "$1" || status=1
	on A pkill -CONT -x dlock-keeper
	return "$status"
}

# shellcheck disable=SC2016 # sh's
hold()
{
	peer "$1" dl A env DLOCK_LOG="warning:$RIG/log" sh -c \
		'exec 9>"$0"; flock 9; echo held; read -r _' "$1"
	hear "$1"
	until_true 5 is_somebody_watched
}

# His lock has ended before he is seen to be dead: said it is, each time.
hold_and_die()
{
	hold "third$TURN" && die_with "third$TURN" || return 1
	peer_end "third$TURN"
	TURN=$((TURN + 1))
	until_true 5 is_said "$TURN" && until_true 5 are_there 0
}

# is_said TIMES
is_said()
{
	[ "$(grep -c 'these who had its lock are killed with them: [0-9]* (sh)' \
		"$RIG/log")" = "$1" ]
}

TURN=0
ok 'both end in one moment: who is watched dies, and that is said, ten times' \
	again 10 hold_and_die
ok 'a fourth one is watched' hold again
on A pkill -KILL -x dlock-standby
ok 'its keeper has another standby' until_true 5 have_standbys A 1
ok 'he is watched as before: both end, and he dies' die_with again
peer_end again

# --- who gives his lock back, and cannot end ----------------------------------------

# A thread with a descriptor table of its own asks a file server behind a file
# server that does not answer: the lock ends, the process does not before that.
share_at A "$MNT/silent"
on A mkdir -p behind
on A bindfs -o subtype=bindfs "$MNT/silent" "$MNT/behind"
# shellcheck disable=SC2016 # sh's
peer stuck dl A env DLOCK_LOG="warning:$RIG/log" sh -c '
	exec 9>stuck; flock 9; exec env -u LD_PRELOAD /usr/bin/python3 -c "
import ctypes, os, sys, threading
def ask():
    ctypes.CDLL(None).unshare(0x400)	# CLONE_FILES
    os.close(9)
    os.path.exists(\"behind/none\")
print(os.getpid(), flush=True)
sys.stdin.readline()
threading.Thread(target=ask).start()
sys.stdin.readline()"'
hear stuck
stuck=$HEARD

has_asked()
{
	# shellcheck disable=SC2016 # sh's
	on A sh -c 'cat /proc/"$0"/task/*/wchan' "$stuck" |
		grep -q request_wait_answer
}

servers_have_asked()
{
	# shellcheck disable=SC2016 # sh's
	on A sh -c 'cat /proc/"$0"/task/*/wchan' \
		"$(on A pgrep -f "bindfs.*$MNT/behind")" |
		grep -q request_wait_answer
}

ok 'a fifth one is watched' until_true 5 is_somebody_watched
silent=$(on A pgrep -f "bindfs.* $MNT/silent\$")
on A kill -STOP "$silent"
say stuck ''
ok 'he asks who does not answer' until_true 5 has_asked
ok 'through one who does' until_true 5 servers_have_asked
end_both
on A pkill -CONT -x dlock-keeper
who="$stuck (python3)"
ok 'both end: it is said whom that kills, and that he has not ended' until_true 5 \
	grep -qF "killed with them: $who; these have not ended yet: $who" "$RIG/log"
on A kill -CONT "$silent"
ok 'when he may, he ends' until_true 5 pid_is_gone_on A "$stuck"
peer_end stuck
rig_end
