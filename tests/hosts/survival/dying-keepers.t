#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A keeper that is killed ends when the last of its threads has had a core for
# that, which may be long on a busy machine: until then its files are open.  It
# counts as dead all the same: its watchdogs kill nobody, and its standby carries
# its leases on.  Frozen is the thread that waits for a lock's end; or the first
# one, which does all else, and of which nobody is told that it is dead.
. "${0%/*}/../../lib/rig.sh"
# shellcheck source=tests/lib/freezer.sh
. "$TOP/tests/lib/freezer.sh"

TTL=9000 # whose keeper has no core is replaced 2 s before it costs the lease

freeze_first_thread()
{
	freeze "$KEEPER"
}

# Longer than a lease that is renewed by nobody lives.
a_life_goes_by()
{
	throughout $((TTL * 4 / 3)) 1 true
}

lives()
{
	kill -0 "${PEER_PID[$1]}" 2>/dev/null
}

token()
{
	rr get "dlock:$MNT/$1"
}

# --- who shares a lock, and has a watchdog ------------------------------------------

pair_begins()
{
	peer pair dl A env DLOCK_LOG="warning:$RIG/log" /usr/bin/python3 -c '
import fcntl, os, sys
f = open("pair", "w")
fcntl.flock(f, fcntl.LOCK_EX)
end, ours = os.pipe()
child = os.fork()
if not child:
    os.close(ours)
    os.read(end, 1)
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
print(os.waitpid(child, os.WNOHANG), flush=True)
sys.stdin.readline()
os.close(ours)
os.wait()'
	hear pair
	ok "$1: a child that shares a lock has two watchdogs" \
		until_true 5 watchdogs_are 2
	KEEPER=$(pids_of A -o -x dlock-keeper)
	first=$(token pair)
}

# pair_ends NAME CONTROL...
pair_ends()
{
	local name=$1

	shift
	ok "$name: the process has another keeper" until_true 10 has_another
	a_life_goes_by
	ok "$name: the one that was killed has not ended yet (control)" "$@"
	say pair ''
	hear pair
	is "$HEARD" '(0, 0)' "$name: the child lives"
	ok "$name: and so does its parent" lives pair
	is "$(token pair)" "$first" "$name: who has its lease"
	ok "$name: when it may, it ends" thaw
	peer_end pair
	unlike "$(cat "$RIG/log")" 'LOST|are killed' \
		"$name: nothing is said to be lost"
	ok "$name: none of them is left" until_true 5 host_is_idle A
}

# --- whose lease nobody but keepers renews ------------------------------------------

shell_begins()
{
	# shellcheck disable=SC2016 # sh's
	peer shell dl A env DLOCK_LOG="warning:$RIG/log" sh -c \
		'exec 9>shell; flock 9; echo held; read -r _'
	hear shell
	ok "$1: a shell that only has the descriptor has a standby" \
		until_true 5 have_standbys A 1
	KEEPER=$(pids_of A -o -x dlock-keeper)
	first=$(token shell)
}

# shell_ends NAME CONTROL...
shell_ends()
{
	local name=$1

	shift
	ok "$name: its standby is the keeper" until_true 10 has_another
	a_life_goes_by
	ok "$name: the one that was killed has not ended yet (control)" "$@"
	ok "$name: the shell lives" lives shell
	is "$(token shell)" "$first" "$name: and has its lease"
	ok "$name: when it may, it ends" thaw
	peer_end shell
	unlike "$(cat "$RIG/log")" 'LOST|are killed' \
		"$name: nothing is said to be lost"
	ok "$name: none of them is left" until_true 5 host_is_idle A
}

rig_start disks
freezer_start
: >"$RIG/log"
rig_configs ttl=${TTL}ms

pair_begins pair
ok 'pair: a thread of their keeper has no core' freeze_other_threads
# shellcheck disable=SC2046 # numbers
kill -KILL "$KEEPER" $(pids_of A -x dlock-standby)
ok 'pair: both keepers are killed: the first thread is dead' \
	until_true 5 first_thread_is_dead
pair_ends pair first_thread_is_dead

pair_begins 'pair, first thread'
ok 'pair, first thread: it has no core' freeze_first_thread
ok 'pair, first thread: the process kills it' until_true 10 is_dying
pair_ends 'pair, first thread' is_dying

shell_begins shell
ok 'shell: a thread of its keeper has no core' freeze_other_threads
kill -KILL "$KEEPER"
ok 'shell: it is killed: the first thread is dead' \
	until_true 5 first_thread_is_dead
shell_ends shell first_thread_is_dead

shell_begins 'shell, first thread'
ok 'shell, first thread: it has no core' freeze_first_thread
ok 'shell, first thread: its standby kills it' until_true 10 is_dying
shell_ends 'shell, first thread' is_dying

# --- its children -------------------------------------------------------------------

# ignores_ends SIGIGN: SIGCHLD, of which the number of who has ended is free.
ignores_ends()
{
	((0x$1 >> 16 & 1))
}

heeds_ends()
{
	! ignores_ends "$1"
}

sig_ign()
{
	sed -n 's/^SigIgn:\t//p' "/proc/$1/status"
}

peer ignores dl A /usr/bin/python3 -c '
import fcntl, os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
f = open("ignores", "w")
fcntl.flock(f, fcntl.LOCK_EX)
child = os.fork()
if not child:
    signal.pause()
print("begun", flush=True)
sys.stdin.read()
os.kill(child, signal.SIGKILL)'
hear ignores
ok 'ignores: a program that ignores the end of its children has a keeper' \
	until_true 5 have_standbys A 1
ok 'ignores: it does (control)' \
	ignores_ends "$(sig_ign "$(pids_of A -o python3)")"
ok 'ignores: its keeper does not' heeds_ends "$(sig_ign "$(pids_of A -x dlock-keeper)")"
peer_end ignores
freezer_end
rig_end
