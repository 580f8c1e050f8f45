#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Whoever starts a keeper is suspended until that runs (vfork(2)), which takes as
# long as an exec(2) does: on a busy machine longer than a lease of a second.  So
# the thread that renews has it started beside it (DESIGN L4), and goes on: here
# the program's file lies on a file server that does not answer.
#
# Control: it is being started all the while, and there is one when the server
# answers.
. "${0%/*}/../../lib/rig.sh"

# The library beside a keeper that is on the share.
far_keeper()
{
	mkdir "$RIG/lib"
	cp "$BUILD/libdlock-preload.so" "$RIG/lib/"
	cp "$BUILD/dlock-keeper" "$RIG/share/"
	share_at A "$MNT/far" -o attr_timeout=0,entry_timeout=0,negative_timeout=0
	ln -s "$MNT/far/dlock-keeper" "$RIG/lib/dlock-keeper"
	SERVER=$(on A pgrep -x bindfs)
}

far()
{
	on A env LD_PRELOAD="$RIG/lib/libdlock-preload.so" \
		DLOCK_CONFIG="$RIG/A.conf" DLOCK_LOG="info:$RIG/log" "$@"
}

renewed_since()
{
	[ "$(scripts_called)" -ge $(($1 + $2)) ]
}

# The program, by the number that the host has for it.
# shellcheck disable=SC2016 # the inner shell's
tasks()
{
	on A sh -c 'ls "/proc/$1/task" | wc -l' - "$PROGRAM" 2>/dev/null
}

has_tasks()
{
	[ "$(tasks)" = "$1" ]
}

# The other thread is through with its start: the keeper runs.
has_begun()
{
	[ "$(tasks)" -lt 3 ]
}

rig_start disks
rig_configs ttl=6s connect_timeout=1s
far_keeper
peer a far /usr/bin/python3 "$TOP/tests/programs/obey.py"
ask a 'os.getpid()'
PROGRAM=$RESULT
on A kill -STOP "$SERVER"
ask a 'lock("f")'
like "$RESULT" '^[0-9]+$' 'it is locked'
token=$(token_of f)
# The thread, and the other one, for as long as that takes.
ok 'a keeper is being started, beside the thread' until_true 10 has_tasks 3
calls=$(scripts_called)
ok 'which renews the lease for longer than a ttl' \
	until_true 20 renewed_since "$calls" 4
ok 'and no keeper runs meanwhile (control)' no_keeper A
is "$(token_of f)" "$token" 'it is that lease'
is "$(tasks)" 3 'nobody starts another'
unlike "$(cat "$RIG/log")" LOST 'nothing is said to be lost'
on A kill -CONT "$SERVER"
ok 'there is one when the server answers (control)' until_true 10 \
	have_standbys A 1
ok 'and the other thread is gone' until_true 10 has_tasks 2

# Privileges are changed by a process that has neither (L7).
ask a 'os.setuid(65534)'
is "$HEARD" None 'setuid(2) finds one thread, and does not end the process'
peer_end a

# What was to be carried has been given back by the time it runs: it is told
# nothing, and ends, which is no reason to wait with the next one.
: >"$RIG/log"
peer b far /usr/bin/python3 "$TOP/tests/programs/obey.py"
ask b 'os.getpid()'
PROGRAM=$RESULT
on A kill -STOP "$SERVER"
ask b 'lock("g")'
fd=$RESULT
ok 'another one is to be started' until_true 10 has_tasks 3
ask b "fcntl.flock($fd, fcntl.LOCK_UN)"
on A kill -CONT "$SERVER"
ok '... and runs when nothing is held' until_true 10 has_begun
ok '... and ends' until_true 10 no_keeper A
ask b 'lock("h")'
ok 'the next one has a lease' until_true 10 have_standbys A 1
unlike "$(cat "$RIG/log")" 'no keeper' '... and none had failed'
peer_end b
rig_end
