#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 8000
#
# Nobody is killed in vain (L6), for hours: who holds a lock through all of the
# following, with on_lost = "kill" and a ttl of 3 s, lives, has the very lease that
# he had, and nothing is said to be lost.
#
#	soak.t [SECONDS]		or SOAK_SECONDS; a round takes some 50
#	SOAK_HAZARDS			the names of those that are to be
#
# In each round: nothing happens; the server answers 0.8 s late, again and again;
# closes every connection each 0.1 s; takes no new one; wants another password;
# was restarted, and knows nothing, within the delay; the clock of the program
# is stepped by hours, forward and back; sixteen loops have the hosts' cores, and
# others hold leases of 1 s.
#
# Who holds: by flock, by record locks, as readers of two hosts; one with all
# signals blocked, one who waits in vfork(2), one who is another user now; a
# shell that only has the descriptor, and a job that has not even that, so that
# keepers renew; one in a time namespace, whose boot was a day earlier.  And two
# on each host lock and unlock all the time.
#
# CLOCK_REALTIME belongs to the machine and is left alone: what is stepped is what
# the guest's libc says of all clocks (libfaketime).  The shim asks the kernel.
#
# Control: the server is silent for longer than the ttl, and they die.
. "${0%/*}/../lib/rig.sh"

TIME=${1:-${SOAK_SECONDS:-120}}
LOOP=$TOP/tests/programs/lock_loop.py
FAKE=$(dpkg -L libfaketime | grep -m 1 'libfaketimeMT.so.1$')
TOKENS_AT_FIRST='' STEPS=''
HOLDERS=()

# --- who holds -----------------------------------------------------------------

# A second rule, of leases of a second, by a Redis section of the same server.
configs()
{
	local h

	rig_configs ttl=3s connect_timeout=300ms restart_delay=3s
	for h in A B; do
		cat >>"$RIG/$h.conf" <<-END
		redis "fast" {
		    url = "redis://127.0.0.1:$PORT/0"
		    connect_timeout = "150ms"
		    restart_delay = "3s"
		}
		path "$MNT/fast/" {
		    redis = "fast"
		    ttl = "1s"
		    timeout = "2s"
		}
		END
		on "$h" mkdir -p "$MNT/fast"
	done
}

# holder NAME HOST COMMAND...: says "held", and goes on until its input ends
holder()
{
	local name=$1 host=$2

	shift 2
	peer "$name" dl "$host" env DLOCK_LOG="info:$RIG/log" "$@"
	# shellcheck disable=SC2015
	hear "$name" 30 && [ "$HEARD" = held ] ||
		rig_die "$name: $HEARD $(cat "$RIG/$name.err")"
	HOLDERS+=("$name")
}

# loser NAME HOW [COMMAND...]: of the file of that name, in $DIR
DIR=
loser()
{
	local name=$1 how=$2

	shift 2
	holder "$name" A "$@" "$BIN/lease_loser" "$how" "$DIR$name" \
		"$name.journal"
}

# shellcheck disable=SC2016 # the inner shells expand these
all_hold()
{
	local how n

	for how in plain masked vfork setuid handler; do
		loser "$how" "$how"
	done
	loser stepped plain env LD_PRELOAD="$BUILD/libdlock-preload.so:$FAKE" \
		FAKETIME_TIMESTAMP_FILE="$RIG/clock" FAKETIME_NO_CACHE=1 \
		FAKETIME_DONT_RESET=1
	loser later plain unshare -T -f --boottime 86400 --monotonic 86400
	for n in 1 2; do
		holder "shell$n" B sh -c \
			'exec 9>"$0"; flock 9; echo held; read -r _' "shell$n"
		holder "job$n" B flock -o "job$n" sh -c 'echo held; read -r _'
	done
	holder readA A flock -s read sh -c 'echo held; read -r _'
	holder readB B flock -s read sh -c 'echo held; read -r _'
	for n in 1 2 3; do
		holder "record$n" B /usr/bin/python3 -c 'import fcntl, sys
f = open("record", "r+" if sys.argv[1] != "1" else "w")
fcntl.lockf(f, fcntl.LOCK_EX, 10, 10 * int(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()' "$n"
	done
	for n in A B; do
		peer "loop$n" dl "$n" /usr/bin/python3 "$LOOP" loop
		peer "own$n" dl "$n" /usr/bin/python3 "$LOOP" "own$n"
	done
}

# Every key of who holds, with its value, or the fields of its hash that name who.
tokens()
{
	local name

	for name in "${HOLDERS[@]}"; do
		rr get "dlock:$MNT/$name"
	done
	for name in read record%rec; do
		rr hkeys "dlock:$MNT/$name" | sort
	done
}

# --- what happens ----------------------------------------------------------------

# for_a_while SECONDS COMMAND...: again and again
for_a_while()
{
	local end=$((SECONDS + $1))

	shift
	while [ "$SECONDS" -lt "$end" ]; do
		"$@" >/dev/null
	done
}

nothing()
{
	for_a_while 3 sleep 0.1
}

late()
{
	# (DEBUG SLEEP ends with its connection's client, so it has one of its own.)
	# shellcheck disable=SC2016 # the inner shell's
	for_a_while 6 sh -c 'redis-cli -s "$0" debug sleep 0.8; sleep 0.8' \
		"$RIG/redis.sock"
}

kill_clients()
{
	r client kill type normal skipme yes
	sleep 0.1
}

closes()
{
	for_a_while 6 kill_clients
}

# Each of the leases, of 3 s, was renewed since $1, and so has a connection.
were_renewed_since()
{
	local name key left least=$((3000 - ($(now) - $1) / 1000000))

	for name in "${HOLDERS[@]}"; do
		for key in "$name" "$name%rec"; do
			left=$(rr pttl "dlock:$MNT/$key")
			[ "$left" -lt 0 ] || [ "$left" -gt "$least" ] || return 1
		done
	done
}

# By a connection that is there; and each of them has his, too: who has lost it
# just before is without one for longer than a ttl, and killed with good reason.
set_for_a_while()
{
	until_true 10 were_renewed_since "$(now)"
	ask admin "config set $1 $2"
	for_a_while 6 sleep 0.1
	ask admin "config set $1 $3"
}

full()
{
	set_for_a_while maxclients 1 10000
}

password()
{
	set_for_a_while requirepass secret '""'
}

# A server has a machine of its own: the loops that have the cores, and the
# sessions that share them (sched(7), autogroup), are not on it.
up()
{
	redis_up --enable-debug-command yes
	chrt --all-tasks --rr --pid 1 "$REDIS_PID" >/dev/null ||
		rig_die "redis-server may not come first"
}

restarted()
{
	peer_end admin
	redis_kill
	up
	until_true 20 redis_is_old 6
	admin
}

# The journal of the stepped one has its own time: it is seen to jump.
journal()
{
	echo $((10#$(on A cat stepped.journal)))
}

step_to()
{
	echo "$1" >"$RIG/clock.new"
	mv "$RIG/clock.new" "$RIG/clock"
	sleep 0.3
}

stepped()
{
	local step was is

	STEPS=''
	for step in +7200s -7200s +1000d -1000d +0s; do
		was=$(journal)
		step_to "$step"
		is=$(journal)
		STEPS+="$(((is - was) / 1000000000)) "
	done
}

busy()
{
	local i was=("${HOLDERS[@]}") status=0

	DIR=fast/
	for i in 1 2 3 4; do
		loser "fast$i" plain
	done
	DIR=
	for i in {1..16}; do
		# shellcheck disable=SC2016
		peer "busy$i" timeout 8 sh -c 'while :; do :; done'
	done
	for_a_while 8 sleep 0.1
	all_live || status=1
	peer_end fast{1..4} busy{1..16}
	HOLDERS=("${was[@]}")
	return "$status"
}

admin()
{
	peer admin redis-cli -s "$RIG/redis.sock" --no-raw
}

# --- what is judged --------------------------------------------------------------

all_live()
{
	local name dead=''

	for name in "${HOLDERS[@]}"; do
		kill -0 "${PEER_PID[$name]}" 2>/dev/null || dead+="$name "
	done
	[ -n "$dead" ] || return 0
	for name in $dead; do
		diag "$name: $(tail -n 3 "$RIG/$name.err")"
	done
	diag "$(date +%T) dead: $dead" "$(tail -n 5 "$RIG/log")" \
		"$(cat /proc/loadavg) $(r latency latest) $(r info stats | grep -E 'ops|rejected')"
	return 1
}

none_lives()
{
	local name

	for name in "${HOLDERS[@]}"; do
		! kill -0 "${PEER_PID[$name]}" 2>/dev/null || return 1
	done
}

have_their_leases()
{
	[ "$(tokens)" = "$TOKENS_AT_FIRST" ]
}

# One look a hazard: how many were well.
look()
{
	all_live || return 1
	until_true 5 have_their_leases && return
	diag "leases: $(diff <(echo "$TOKENS_AT_FIRST") <(tokens))"
	return 1
}

progress()
{
	note "round $rounds, $(date +%T), load $(cut -d' ' -f1 </proc/loadavg)," \
		"steps of ${STEPS}s"
}

rig_start disks
redis_kill
up
configs
until_true 20 redis_is_old 4
: >"$RIG/log"
chmod 666 "$RIG/log"
echo +0s >"$RIG/clock"
admin
on A chmod 777 .
all_hold
ok 'all are well at first' all_live
TOKENS_AT_FIRST=$(tokens)
note "${#HOLDERS[@]} holders, $(wc -l <<<"$TOKENS_AT_FIRST") leases"

HAZARDS=${SOAK_HAZARDS:-nothing late closes full password restarted stepped busy}
declare -A WELL
end=$((SECONDS + TIME)) rounds=0 failed=''
until [ "$SECONDS" -ge "$end" ] || [ -n "$failed" ]; do
	rounds=$((rounds + 1))
	for hazard in $HAZARDS; do
		"$hazard" && WELL[$hazard]=$((${WELL[$hazard]-0} + 1))
		look && continue
		failed=$hazard
		break
	done
	[ $((rounds % 5)) != 1 ] || progress
done
for hazard in $HAZARDS; do
	is "${WELL[$hazard]-0}" "$rounds" "$hazard: all lived, each of $rounds times"
done
is "$failed" '' 'whoever held a lock at first has it still, by the same lease'
[[ $HAZARDS != *stepped* ]] ||
	like "$STEPS" '^7[12][0-9]+ -1[34][0-9]+ ' 'a clock did jump (control)'
is "$(grep -E 'LOST|has run out' "$RIG/log")" '' 'and nothing is said to be lost'
note "$(grep -c 'could not be renewed for long' "$RIG/log") warnings"

kill -STOP "$REDIS_PID"
ok 'control: it is silent for longer than their ttl, and they die' \
	until_true 15 none_lives
kill -CONT "$REDIS_PID"
done_testing
