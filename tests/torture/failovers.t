#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 4000
#
# Two hosts lock, write and check shared data (survivor.c) by Sentinels, while the
# master is made a replica, killed and stopped, one failover after the other.  The
# intervals and the data decide (check_intervals.py); no lease is lost that need not
# be; and how long nobody was granted anything is told of each.
#
#	failovers.t [N]		or FAILOVERS
#	FAILOVER_KINDS		asked killed stopped
#	FAILOVER_TTL		s, and the restart delay; a failover is to be
#				over within two thirds of it
RIG_MODE=sentinel
. "${0%/*}/../lib/rig.sh"

TIMES=${1:-${FAILOVERS:-20}}
TTL=${FAILOVER_TTL:-12}
read -ra KINDS <<<"${FAILOVER_KINDS:-asked killed stopped}"

# players HOST LIBRARY: survivors, of each kind one
players()
{
	local kind

	for kind in ex mixed range fork exec; do
		on "$1" env LD_PRELOAD="$2" DLOCK_CONFIG="$RIG/$1.conf" \
			DLOCK_LOG="warning:$RIG/$1.said" "$BIN/survivor" \
			"$kind" "$RIG/$1-$kind.log" "$RIG/data" "$RANDOM" \
			$((TTL * 1500)) >/dev/null 2>&1 &
		PEER_PID[$1$kind]=$!
		disown "$!"
	done
}

# The first grant that was asked for after a moment, and the longest time without
# one since: ms.
first_since()
{
	/usr/bin/python3 - "$TOP/tests/programs" "$1" "$RIG"/?-*.log <<-'END'
	import sys
	sys.dont_write_bytecode = True
	sys.path.insert(0, sys.argv[1])
	import check_intervals
	since = int(sys.argv[2])
	all_of = sorted(r[2] for path in sys.argv[3:]
	                for r in check_intervals.read(path)[1] if r[2] > since)
	longest = max([b - a for a, b in zip([since] + all_of, all_of)] or [0])
	print(len(all_of), longest // 1000000)
	END
}

# In CLOCK_MONOTONIC, as the logs have it.
monotonic()
{
	/usr/bin/python3 -c 'import time; print(time.monotonic_ns())'
}

goes_on()
{
	read -r grants longest < <(first_since "$1")
	[ "$grants" -gt 20 ] && [ "$longest" -ge $((TTL * 500)) ]
}

one_failover()
{
	local was=$MASTER to=$((3 - MASTER))

	case $1 in
	asked)
		failover
		demote
		;;
	killed)
		master_kill "$was"
		until_true 60 failed_over "$to" || rig_die "server $to is no master"
		MASTER=$to
		master_up "$was" --replicaof 127.0.0.1 "$(server_port "$to")" \
			--repl-diskless-sync-delay 0
		;;
	stopped)
		master_stop "$was"
		until_true 60 failed_over "$to" || rig_die "server $to is no master"
		MASTER=$to
		master_cont "$was"
		;;
	esac
	until_true 60 is_demoted "$was" || rig_die "server $was is no replica"
	m "$MASTER" config set repl-diskless-sync-delay 0 >/dev/null
}

figures()
{
	local words

	words=$(/usr/bin/python3 "$TOP/tests/programs/check_intervals.py" \
		"$RIG/data" "$RIG"/?-*.log)
	note "$words"
	read -r _ grants _ overlaps _ broken _ lost _ <<<"$words"
}

rig_start disks
rig_configs ttl="${TTL}s" timeout=$((TTL * 3))s connect_timeout=$((TTL * 100))ms \
	restart_delay="${TTL}s" path_more='on_lost = "report"'
players A "$BIN/null.so"
players B "$BIN/null.so"
sleep 1
host_dead A
host_dead B
figures
at_least "$overlaps" 1 'under the null shim two holders are seen (control)'
rm -f "$RIG"/?-*.log "$RIG/data"
until_true 5 host_is_gone A
until_true 5 host_is_gone B
host_new A disks
host_new B disks
until_true $((TTL + 5)) redis_is_old $((TTL + 1))
players A "$BUILD/libdlock-preload.so"
players B "$BUILD/libdlock-preload.so"
slow=0
for ((i = 0; i < TIMES; i++)); do
	kind=${KINDS[$((i % ${#KINDS[@]}))]}
	began=$(monotonic)
	one_failover "$kind"
	took=$((($(monotonic) - began) / 1000000))
	[ "$took" -lt $((TTL * 667)) ] || slow=$((slow + 1))
	until_true $((5 * TTL)) goes_on "$began" ||
		fail "failover $i ($kind): nothing goes on"
	note "failover $i ($kind): the other one was the master, and this its" \
		"replica, after $took ms; nobody was granted anything for $longest ms"
done
host_dead A
host_dead B
figures
is "$overlaps $broken $lost" '0 0 0' "$TIMES failovers: never two holders"
at_least "$grants" $((20 * TIMES)) 'all went on'
# What was granted in the queue the moment before the master died is a claim, of 2 s
# at most, and no lease yet; and no lease outlives an election that has no winner
# for longer than a ttl.
lost=$(cat "$RIG"/?.said 2>/dev/null | grep 'is LOST')
[ "${KINDS[*]}" = asked ] ||
	lost=$(grep -v 'not renewed for \([01]\.\|2\.0\)' <<<"$lost")
[ -z "$lost" ] || diag "$lost"
[ "$slow" = 0 ] || note "$slow failovers took as long as a lease lives"
[ "$slow" != 0 ] || is "$lost" '' 'no lease was lost'
done_testing
