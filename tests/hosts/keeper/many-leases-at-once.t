#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 40
#
# Of many leases at once, none is forgotten between a process and its keeper:
# whoever waits for the keeper's word on all of them (fork, exec, exit) has it
# (DESIGN L4).  And what a process says at its end is no stranger's message.
. "${0%/*}/../../lib/rig.sh"

ulimit -n 8192
rig_start disks

# (It has a core whenever a keeper is stopped for a moment.)
guest()
{
	: >"$RIG/log"
	peer a dl A nice -n -20 env DLOCK_LOG="debug:$RIG/log" \
		/usr/bin/python3 "$TOP/tests/programs/obey.py"
}

# lines TEXT N: the log has as many of them, or more.
lines()
{
	[ "$(grep -c "$1" "$RIG/log")" -ge "$2" ]
}

# all_are_kept NAME N
all_are_kept()
{
	ok "$1: a keeper is told of all" until_true 60 lines ' is carried on: ' "$2"
	ask a 'child()' 30
	like "$RESULT" '^[0-9]+$' "$1: fork has its word on all"
	note "$(grep -c "the keeper's to carry on" "$RIG/log") answers heard"
	on A pkill -KILL -x python3
	rig_empty 20 "$1: all of them end"
	ok "$1: so does the keeper" until_true 20 no_keeper A
}

# --- it does not run for a moment, and many answers come at once -------------

rig_configs ttl=60s path_more='coherence = "off"'
guest
ask a '(child(), lock("f"))[1]'
ok 'a keeper carries the first lock' until_true 5 lines ' is carried on: ' 1
keeper=$(keepers A)
# For a quarter of a second: one that hangs for half a second is replaced.
ask a "(stop($keeper), locks(400, 'm', 0.25), os.kill($keeper, 18))[1]" 60
had=$RESULT
at_least "$had" 1 'stopped for a moment: locks are had'
ask a "locks(400, 'm', 60, $had)" 60
is "$RESULT" 400 'and 400 when it goes on'
all_are_kept 'stopped for a moment' 401

# --- it is as quick as the process, which asks for more before it listens ----

rig_configs ttl=15s connect_timeout=2s path_more='coherence = "off"'
guest
ask a '[ofd(os.open("o%d" % i, 66), 0) for i in range(2500)][0]' 60
is "$RESULT" 0 'quick: 2500 locks are had'
all_are_kept quick 2500

# --- the last words of a process ---------------------------------------------

guest
ask a 'lock("f")'
fd=$RESULT
ok 'last words: a keeper carries the lock' \
	until_true 5 lines ' is carried on: ' 1
ask a "(stop($(keepers A)), fcntl.flock($fd, 8))[1]" 30
is "$RESULT" None 'last words: the lock is given back, and nobody reads that'
ask a 'os.getpid()'
peer_end a
ok 'last words: the process has ended' until_true 5 pid_is_gone_on A "$RESULT"
on A pkill -CONT -x 'dlock-[ks].*'
ok 'last words: the keeper has read them, and ends' until_true 20 no_keeper A
unlike "$(cat "$RIG/log")" 'refused' 'last words: are no cause for alarm'
rig_end
