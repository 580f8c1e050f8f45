#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# What disturbs a lease and does not end it kills nobody (L6): a server that
# answers late, once or always, or closes every connection again and again, or
# takes no new one, or wants another password; one that was restarted; a busy
# machine.  Holders live through all of it, and so do those who lock and unlock all
# the time.  Then the server is silent for longer (control).
#
# Each lasts longer than a lease, of which other work may cost a second or two.
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/losers.sh"

N=6
SECONDS_EACH=${SURVIVAL_SECONDS:-7}

all_live()
{
	local i dead=''

	for ((i = 0; i < N; i++)); do
		kill -0 "${PIDS[i]}" 2>/dev/null && [ -n "$(token_of "$i")" ] ||
			dead+="$i "
	done
	[ -z "$dead" ] || diag "dead: $dead, $(tail -qn1 "$RIG"/a*.log)"
	[ -z "$dead" ]
}

# for_a_while COMMAND...: again and again
for_a_while()
{
	local end=$((SECONDS + SECONDS_EACH))

	while [ "$SECONDS" -lt "$end" ]; do
		"$@" >/dev/null
	done
}

# silent SECONDS
silent()
{
	kill -STOP "$REDIS_PID"
	sleep "$1"
	kill -CONT "$REDIS_PID"
}

late()
{
	silent 0.6
	sleep 0.6
}

kill_clients()
{
	r client kill type normal skipme yes
	sleep 0.1
}

loop=$TOP/tests/programs/lock_loop.py

# begin OPTION...: who holds, and who locks and unlocks all the time.  (What the server
# does is the matter: so they have a core when it lets them connect for 0.1 s.)
begin()
{
	rig_configs "$@"
	SURVIVOR_BY='nice -n -20' survivors plain "$N"
	for i in 1 2; do
		peer "loop$i" dl A nice -n -20 /usr/bin/python3 "$loop" \
			"loop$i" 0.005
	done
}

loops_live()
{
	kill -0 "${PEER_PID[loop1]}" && kill -0 "${PEER_PID[loop2]}"
}

end_all()
{
	ok 'who locks and unlocks all the time does so still' loops_live
	on A pkill -KILL -f lock_loop
	peer_end "${!PEER_IN[@]}"
	on A pkill -KILL lease_loser
	on A pkill -KILL python3
	until_true 20 db_is_empty
}

rig_start disks
begin ttl=6s connect_timeout=300ms
for_a_while sleep 0.1
ok 'nothing happens' all_live
for_a_while late
ok 'the server answers 0.6 s late' all_live
for_a_while kill_clients
ok 'it closes all connections each 0.1 s' all_live
end_all

# Who has a connection goes on by that: so none may be given up for a busy machine.
begin ttl=6s connect_timeout=1s
# (By a connection that is there.)
peer admin redis-cli -s "$RIG/redis.sock" --no-raw
ask admin 'config set maxclients 1'
for_a_while sleep 0.1
ask admin 'config set maxclients 10000'
ok 'it takes no new connection' all_live
ask admin 'config set requirepass secret'
for_a_while sleep 0.1
ask admin 'config set requirepass ""'
ok 'its password is another for a while' all_live
end_all

rig_configs ttl=4s connect_timeout=600ms
survivors plain "$N"
for i in {1..16}; do
	# shellcheck disable=SC2016
	peer "busy$i" timeout "$SECONDS_EACH" sh -c 'while :; do :; done'
done
for_a_while sleep 0.1
ok 'sixteen loops have the cores' all_live
peer_end busy{1..16}
none_lives()
{
	! kill -0 "${PIDS[@]}" 2>/dev/null
}
silent 5
ok 'control: it is silent for longer than their ttl, and they die' \
	until_true 10 none_lives
peer_end "${!PEER_IN[@]}"
on A pkill -KILL lease_loser
on A pkill -KILL python3
rr flushall >/dev/null

proxy proxy
rig_config A ttl=6s connect_timeout=450ms url="redis://127.0.0.1:$PROXY/0"
survivors plain "$N"
# Whose lease its keeper alone renews.
# shellcheck disable=SC2016
peer shell dl A sh -c 'exec 9>shell; flock 9; echo held; read -r _'
hear shell
shells=$(token_of shell)
ask proxy 'delay 600' >/dev/null
for_a_while sleep 0.1
ok 'each answer comes later than connect_timeout' all_live
ok '... and so do those that a keeper waits for' \
	kill -0 "${PEER_PID[shell]}" || diag "$(cat "$RIG/shell.err")"
is "$(token_of shell)" "$shells" '... which has its lease'
ask proxy pass >/dev/null
peer_end shell
survivors_leave "$N"

# Beside a server that answers at once, and tells nothing about the other one.
rig_also A quick "$MNT/quick/" ttl=6s connect_timeout=450ms
on A mkdir quick
PIDS=()
for ((i = 0; i < N; i++)); do
	# shellcheck disable=SC2016 # Python's
	peer "a$i" dl A env DLOCK_LOG="warning:$RIG/a$i.log" /usr/bin/python3 -c '
import fcntl, os, sys
held = [open(name, "w") for name in (sys.argv[1], "quick/" + sys.argv[1])]
for f in held:
    fcntl.flock(f, fcntl.LOCK_EX)
print(os.readlink("/proc/self"), flush=True)
sys.stdin.readline()' "$i"
	hear "a$i"
	# (It, and not what has its name yet and will be a keeper.)
	PIDS+=("$(pids_of A -o -f "quick/.* $i\$")")
done
ask proxy 'delay 600' >/dev/null
for_a_while sleep 0.1
ok '... nor does one whose leases elsewhere are renewed in time' all_live
ask proxy pass >/dev/null
survivors_leave "$N"

# A server that has forgotten everything, within its delay.
rig_configs ttl=8s connect_timeout=300ms restart_delay=8s
until_true 10 redis_is_old 9
survivors plain "$N"
redis_kill
redis_up
until_true 30 redis_is_old 16
ok 'a server is restarted, and knows nothing: they put their leases back' \
	all_live
survivors_leave "$N"
rig_end
