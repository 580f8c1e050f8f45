#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlockctl list tells who a holder is: the command line, the user and the unit of
# one that is seen here, the pid that it has here; and for how long a holder of
# another host has had its lock, where doctor has told of that host's clock.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

rig_start disks
rig_configs ttl=30s connect_timeout=5s
# --- on its own host ---
peer job dl A flock f sh -c 'echo runs; read -r _'
hear job
ctl_on A --json list
is "$(json '.locks[0] | [.command, .command_line, .user, .pid_here]')" \
	'["flock","flock f sh -c echo runs; read -r _","root",null]' \
	'its command line, and its user'
ctl_on A list
like "$OUT" $'\nPATH|flock f sh -c echo runs; read -r _ \\[root' 'in words'

# --- from outside of its pid namespace ---
ctl --json list
inner=$(json '.locks[0].pid')
outer=$(json '.locks[0].pid_here')
is "$(json '.locks[0].command_line')" '"flock f sh -c echo runs; read -r _"' \
	'the same, seen from another pid namespace'
like "$(tr '\t' ' ' <"/proc/$outer/status")" "NSpid: .*$outer( [0-9]+)* $inner
" 'its pid there and here'
ctl list
like "$OUT" " $inner \\($outer here\\) " 'in words'
# Another host of this machine has the same pid with the same command.
peer twin dl B flock g sh -c 'echo runs; read -r _'
hear twin
ctl --json list --path "$MNT/f"
is "$(json '.locks[0].pid_here')" "$outer" 'of two alike, by the lock that it has'
say twin go
peer_end twin
ctl_on B --json list
is "$(json '.locks[0] | [.command, .command_line]')" '["flock",null]' \
	'on another host it is what its token tells'
say job go
peer_end job

# --- a pid that is another process's, and hostile words ---
for file in e f g; do
	rr set "dlock:$MNT/$file" "$(made_token A 5 web1)" px 600000 >/dev/null
done
on A strace -f -qq -e trace=open,openat -e signal=none -o "$RIG/trace" \
	"$CTL" -c "$RIG/A.conf" list >"$RIG/out"
is "$(grep -c nightly "$RIG/out") $(grep -c '"/proc/1/status"' "$RIG/trace") $(
	)$(grep -c '"/proc/1/fdinfo"' "$RIG/trace")" '3 1 1' \
	'three that have ended: the others are looked through once'
rr del "dlock:$MNT/e" "dlock:$MNT/f" >/dev/null
ctl_on A --json list --path "$MNT/g"
is "$(json '.locks[0].command_line')" null \
	'a pid whose process has another name is nobody'
peer looks env DLOCK_CONFIG="$RIG/A.conf" stdbuf -oL "$CTL" watch --interval 100ms
hear looks
rr set "dlock:$MNT/g" "$(made_token A 0 web1 |
	sed "s/ 42 / ${PEER_PID[looks]} /")" px 600000 >/dev/null
ctl --json list --path "$MNT/g"
is "$(json '.locks[0] | [.pid, .command_line]')" "[${PEER_PID[looks]},null]" \
	'a dlockctl that only looks is nobody either'
kill "${PEER_PID[looks]}"
peer_end looks
rr del "dlock:$MNT/g" >/dev/null
old=$(made_token A 1 web1)
cp /bin/sh "$RIG/nightly"
peer nightly on A "$RIG/nightly" -c 'echo $$; read -r _'
hear nightly
pid=$RESULT
rr set "dlock:$MNT/e" "${old/ 42 / $pid }" px 600000 >/dev/null
rr set "dlock:$MNT/g" "$(made_token A 0 web1 | sed "s/ 42 / $pid /")" px 600000 \
	>/dev/null
ctl_on A --json list
is "$(json "[.locks[] | .pid, .command_line // 0]")" \
	"[$pid,0,$pid,\"$RIG/nightly -c echo \$\$; read -r _\"]" \
	'nor one of that name and pid that began later than the lock'
say nightly go
peer_end nightly
rr del "dlock:$MNT/e" "dlock:$MNT/g" >/dev/null
peer locks on A env DLOCK_CONFIG="$RIG/A.conf" "$CTL" lock "$MNT/g" -- \
	"$(command -v sh)" -c 'echo runs; read -r _'
hear locks
ctl_on A --json list --path "$MNT/g"
like "$(json '.locks[0] | [.command, .command_line]')" \
	"^\\[\"sh\",\"$CTL lock $MNT/g -- .*/sh -c" \
	'one that locks is who holds, by the name of its command'
say locks go
peer_end locks
cp /bin/sh "$RIG/sh"
peer odd dl A flock g "$RIG/sh" -c $'echo runs; read -r _ # \x1b[31m\n'
hear odd
ctl_on A list
unlike "$OUT" $'\x1b' 'a hostile command line does nothing'
like "$OUT" '\\x1b\[31m' '... and is told'
say odd go
peer_end odd

# --- for how long, on another host ---
rr set "dlock:$MNT/h" "$(made_token elsewhere 65 db1)" px 600000 >/dev/null
ctl_on A --json list --path "$MNT/h"
is "$(json '.locks[0].held_ms')" null 'of a host that nobody knows: not known'
far=$(tr -d - </proc/sys/kernel/random/boot_id | sed 's/[0-9]/f/g')
rr hset dlock%fleet "$far:elsewhere db1" \
	"1 $(($(date +%s) * 1000)) $(now)" >/dev/null
ctl_on A --json list --path "$MNT/h"
is "$(json '.locks[0].held_ms | . > 60000 and . < 600000')" true \
	'of one that doctor has run on: since a minute'
ctl_on A --json list --older 1m
is "$(json '[.locks[].path]')" "[\"$MNT/h\"]" '... and so it is found by its age'
rr hset dlock%fleet "$far:elsewhere db1" x >/dev/null
ctl_on A --json list --path "$MNT/h"
is "$(json '.locks[0].held_ms')" null 'an entry that is none: not known'
rr flushall >/dev/null
ctl_on B --json doctor >/dev/null
locker far dl B
ask far 'open f f'
ask far 'lock f EX'
sed 's/host_id = "A"/host_id = "A2"/' "$RIG/A.conf" >"$RIG/A2.conf"
ctl -c "$RIG/A2.conf" --json list --path "$MNT/f"
is "$(json '.locks[0].held_ms | . >= 0 and . < 60000')" true \
	'a real one (of this kernel: by its own clock)'
ask far 'lock f UN'
peer_end far
done_testing
