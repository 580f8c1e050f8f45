#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 40
#
# A server and a file server that do not answer keep nobody waiting who waits
# for the keeper's word (DESIGN L4): not for as long as the keeper waits for
# the server.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
: >"$RIG/log"
rig_configs ttl=6s connect_timeout=1s path_more='coherence = "off"'

# all_kept: by a keeper that is started for it, and has its renewals due.
all_kept()
{
	on A pkill -KILL -x 'dlock-[ks].*'
	ok "$1: the keeper is gone" until_true 3 no_keeper A
	ask a 'took(child)'
	like "$RESULT" '^[0-9]+$' "$1: another one has said yes"
	at_most "${RESULT//[!0-9]/9}" 500 "$1: after $RESULT ms"
}

mkdir "$RIG/away"
on A mkdir away
on A bindfs -o attr_timeout=0,entry_timeout=0,negative_timeout=0 \
	"$RIG/away" "$MNT/away"
server=$(on A pgrep -x bindfs)
peer a dl A env DLOCK_LOG="debug:$RIG/log" \
	/usr/bin/python3 "$TOP/tests/programs/obey.py"
ask a '(child(), lock("f"), lock("away/g"))[1]'
ok 'a keeper carries both locks' until_true 5 are_carried 2
all_kept 'control, all answer'
kill -STOP "$REDIS_PID"
ask a "(stop($server), sleep(3))[0]"
all_kept 'none answers'
kill -CONT "$REDIS_PID"
on A kill -CONT "$server"
on A pkill -KILL -x python3
rig_empty 10 'all of them end'
unlike "$(cat "$RIG/log")" 'LOST' 'none was lost'
rig_end
