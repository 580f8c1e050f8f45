#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A server and a file server that do not answer keep nobody waiting who waits
# for the keeper's word (DESIGN L4): not for as long as the keeper waits for
# the server.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
: >"$RIG/log"
# (Nobody renews for 10 s: a keeper has it due by then, and at 23 its holder is
# stopped.)
rig_configs ttl=24s connect_timeout=1s path_more='coherence = "off"'

are_gone()
{
	local pid

	for pid; do
		pid_is_gone_on A "$pid" || return 1
	done
}

# all_kept: by a keeper that is started for it, and has its renewals due.
all_kept()
{
	local -a old

	mapfile -t old < <(all_keepers A)
	on A kill -KILL "${old[@]}"
	ok "$1: the keeper is gone" until_true 3 are_gone "${old[@]}"
	ask a 'took(child)'
	like "$RESULT" '^[0-9]+$' "$1: another one has said yes"
	in_time "${RESULT//[!0-9]/9}" 500 "$1: after $RESULT ms"
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
ask a "(stop($server), sleep(10))[0]" 30
all_kept 'none answers'
kill -CONT "$REDIS_PID"
on A kill -CONT "$server"
on A pkill -KILL -x python3
rig_empty 30 'all of them end'
unlike "$(cat "$RIG/log")" 'LOST' 'none was lost'
rig_end
