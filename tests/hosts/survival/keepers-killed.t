#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# No single death of a keeper ends a lease (DESIGN L4, 9.7).  The holders are
# shells that only have the descriptor: the program that took each lock is gone,
# and nobody but its keepers renews; and a program that was executed without dlock
# by one that had a record lock.  KILLS times one of the eight, keeper or standby, is killed; the next one is when each keeper has a standby again.  Redis
# is watched all the while: the leases' tokens never change, and none disappears
# for a moment; and a waiter on the other host never gets in.
#
# One that is stopped, with nobody of its process left to notice, is as good as
# dead to its standby, before its leases end.
#
# Control: with both killed at once it does, one ttl later.
. "${0%/*}/../../lib/rig.sh"

KILLS=${KILLS:-40}
SEED=${SEED:-$$}
TTL=9000 # a keeper that is stopped is replaced 2 s before it costs the lease
FILES='one two three'

# The leases, each time as a line of all four; what has changed is another line.
watch_redis()
{
	local file keys=()

	for file in $FILES; do
		keys+=("dlock:$MNT/$file")
	done
	keys+=("dlock:$MNT/four%rec")
	redis-cli -s "$RIG/redis.sock" --raw -r -1 -i 0.002 eval "
		local got = redis.call('MGET', unpack(KEYS))
		for i in ipairs(KEYS) do got[i] = got[i] or 'none' end
		return table.concat(got, ' ')" ${#keys[@]} "${keys[@]}" |
		awk '$0 != last { states++; last = $0 }
			END { print NR, states }' >"$RIG/watched"
}

# How often Redis was looked at, and how many states there were.
watched()
{
	pkill -KILL -P "$watcher" redis-cli
	wait "$watcher"
	read -r looks states <"$RIG/watched"
}

# False if it is not replaced.
kill_one()
{
	local -a all
	local pid

	mapfile -t all < <(all_keepers A)
	pid=${all[RANDOM % ${#all[@]}]}
	on A kill -KILL "$pid"
	until_true 5 pid_is_gone_on A "$pid" && until_true 5 have_standbys A 4
}

# Of those that lose theirs all at once; also one that was being made just then.
kill_both()
{
	until_true 5 none_is_left
}

none_is_left()
{
	# shellcheck disable=SC2046 # numbers
	on A kill -KILL $(all_keepers A) 2>/dev/null
	no_keeper A
}

no_waiter_was_let_in()
{
	[ ! -s "$RIG/let.in" ]
}

one_was_let_in()
{
	[ -s "$RIG/let.in" ]
}

rig_start disks
: >"$RIG/log"
rig_configs ttl=${TTL}ms
for file in $FILES; do
	cp_new "$file.locked" "$file.go"
	# shellcheck disable=SC2016 # sh's
	dl A env DLOCK_LOG="warning:$RIG/log" sh -c \
		'exec 9>"$1"; flock 9; echo >"$2"; read -r x <"$3"' \
		sh "$file" "$RIG/cp/$file.locked" "$RIG/cp/$file.go" &
	ok "$file: a shell has the lock" cp_wait "$file.locked"
	dl B flock "$file" echo "$file" >>"$RIG/let.in" 2>"$RIG/B.err" &
done
cp_new four.locked four.go
# shellcheck disable=SC2016 # sh's
dl A env DLOCK_LOG="warning:$RIG/log" /usr/bin/python3 -c 'import fcntl, os, sys
fd = os.open("four", os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX)
os.set_inheritable(fd, True)
os.execve("/bin/sh", sys.argv[1:], {})' \
	sh -c 'echo >"$1"; read -r x <"$2"' sh "$RIG/cp/four.locked" \
	"$RIG/cp/four.go" &
ok 'four: a program has the lock, without dlock' cp_wait four.locked
dl B /usr/bin/python3 -c 'import fcntl
fcntl.lockf(open("four", "w"), fcntl.LOCK_EX)
print("four")' >>"$RIG/let.in" 2>"$RIG/B.err" &
ok 'each keeper has a standby' until_true 5 have_standbys A 4
watch_redis &
watcher=$!
RANDOM=$SEED
note "SEED=$SEED"
begin=$(now)
for ((killed = 0; killed < KILLS; killed++)); do
	kill_one || break
done
is "$killed" "$KILLS" 'so many were killed, and replaced'
note "in $((($(now) - begin) / 1000000)) ms"
ok 'the leases stay for a ttl more' \
	refused_for $TTL one two three
ok 'no waiter was let in' no_waiter_was_let_in

# --- one that is stopped --------------------------------------------------------

old=$(keepers A | head -n 1)
on A kill -STOP "$old"
ok 'the leases stay for longer than a ttl while a keeper is stopped' \
	refused_for $((TTL * 4 / 3)) one two three
ok 'which is dead by then' until_true 1 pid_is_gone_on A "$old"

watched
at_least "$looks" "$KILLS" "Redis was looked at $looks times"
is "$states" 1 'and always had the same leases'
unlike "$(cat "$RIG/log")" 'LOST|refused' 'nothing else is said'
like "$(cat "$RIG/log")" 'standby carries them on' 'but that they took over'

# --- control: both at once ----------------------------------------------------

kill_both
ok 'control: without a standby another host is let in' \
	until_true 15 one_was_let_in
for file in $FILES four; do
	cp_reach "$file.go"
done
wait
rig_end
