#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlockctl and a quorum: a lock is shown once, with the masters that have it,
# also while one of them is away; explain and show name all; break takes it from
# all.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"

ctl()
{
	on A env DLOCK_CONFIG="$RIG/A.conf" "$BUILD/dlockctl" "$@" \
		2>"$RIG/ctl.err"
}

rows()
{
	grep -c "$MNT/f"
}

rig_start disks
# (None is renewed, and so put back, meanwhile.)
rig_configs ttl=300s timeout=5s connect_timeout=5s restart_delay=0s
locker a dl A
ask a 'open a f'
ask a 'lock a EX'
ok 'a lock is held by all' until_true 5 has_votes f 3

is "$(ctl list | rows)" 1 'list: it is there once'
unlike "$(ctl list)" 'of 3 masters' '... and nothing is said of masters'
m 2 del "dlock:$MNT/f" >/dev/null
like "$(ctl list)" 'at 2 of 3 masters' '... lost at one: it says so'
like "$(ctl show "$MNT/f")" 'at 2 of 3 masters' 'show: the same'
is "$(ctl show "$MNT/f" | sed "/kernel/,\$d" | grep -c '^EX ')" 1 '... once'
for i in 2 3; do
	like "$(ctl show "$MNT/f")" "127.0.0.1:${MASTER_PORT[$i]}" \
		"... and it names master $i"
	like "$(ctl explain "$MNT/f")" "127.0.0.1:${MASTER_PORT[$i]}" \
		"explain: it names master $i"
done
is "$(ctl --json show "$MNT/f" | /usr/bin/python3 -c '
import json, sys
print(len(json.load(sys.stdin)["locks"]))')" 1 'show --json: one lock'

master_kill 3
ctl show "$MNT/f" >"$RIG/out"
is $? 0 'one is away: show has what the others say'
like "$(cat "$RIG/ctl.err")" "127.0.0.1:${MASTER_PORT[3]}" '... and names it'
ctl break --yes "$MNT/f" >"$RIG/out"
is $? 0 'break: done, though one is away'
ok '... nobody has it' has_votes f 0

master_kill 2
ctl show "$MNT/f" >"$RIG/out"
is $? 69 'two are away: show cannot tell'
ctl break --yes "$MNT/f" >"$RIG/out"
is $? 69 '... nor break'
master_up 2
master_up 3
ask a 'lock a UN'
rr del "{dlock:$MNT/f}%h" >/dev/null	# for dlockctl history
rig_end
