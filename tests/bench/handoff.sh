#!/bin/bash
# SPDX-License-Identifier: MIT
#
# How a lock goes from one host to the next: each contender locks, sleeps for
# the hold, unlocks and asks again, for some seconds.  Beside the latency of a
# hand-off (judge.py) stands what it cost the server, and who got how many.
# Two in the critical section at once fail the bench, whoever the peer is.
#
# The one who unlocks, the server and the next owner are three machines where
# hosts are.  On two cores, who asks again at once is in the others' way, and
# that is what most of such a figure measures; so there are rows of dlock in
# which it rests first, while the others work.
#
# Environment: HANDOFF_WAITERS, HANDOFF_PEERS (waiters of the peers), and the
# seconds of a row at 1 ms and at 100 ms, of few waiters and of many.
. "${0%/*}/lib.sh"

param HANDOFF_WAITERS '2 8 32 128' '2 128'
param HANDOFF_PEERS '2 8 32 128' 2
param HANDOFF_SHORT_S 2 0.2
param HANDOFF_LONG_S 5 0.5
param HANDOFF_SLOW_S 4 0.4
param WAKES 3000 200
param SLOW_WAKES 30 5
# As long as a hand-off takes, and less than anything is held.
REST_US=300

sleep_until()
{
	local left=$(($1 - $("$BIN/bench_contend" now)))

	[ "$left" -le 0 ] ||
		sleep "$((left / 1000000000)).$(printf %09d \
			$((left % 1000000000)))"
}

# contend WAITERS SECONDS SENT CMD...: they run; their figures in $FIGURES
contend()
{
	local waiters=$1 seconds=$2 sent=$3 begin from to end

	shift 3
	: >"$RIG/lines"
	FIGURES=''
	peer contenders "$@"
	if ! hear contenders 60 || [ "$HEARD" != ready ]; then
		error "$1: not ready: $(tail -2 "$RIG/contenders.err")"
		return 1
	fi
	# All have connected and queued before the first figure counts.
	begin=$(($("$BIN/bench_contend" now) + 20000000))
	from=$((begin + 400000000 + waiters * 5000000))
	end=$(awk -v t="$from" -v s="$seconds" \
		'BEGIN { printf "%.0f\n", t + s * 1e9 }')
	# They go on for longer than that is counted.
	say contenders "$begin $((end + 400000000))"
	sleep_until "$from"
	server_info >"$RIG/before"
	from=$("$BIN/bench_contend" now)
	sleep_until "$end"
	to=$("$BIN/bench_contend" now)
	server_info >"$RIG/after"
	[ "$to" -lt $((end + 400000000)) ] ||
		error "$1: the machine is too busy: counted past the end"
	if ! hear contenders 90 || [ "$HEARD" != "done" ]; then
		error "$1: '$HEARD': $(tail -2 "$RIG/contenders.err")"
		return 1
	fi
	peer_end contenders
	FIGURES=$(/usr/bin/python3 "$TOP/tests/bench/judge.py" "$from" "$to" \
		"$waiters" "$RIG/lines" "$RIG/before" "$RIG/after" "$sent") ||
		error "$1: no figures"
}

# handoff BY HOSTS PER_HOST HOLD_MS SECONDS SENT CMD...: a row
handoff()
{
	local by=$1 hosts=$2 per_host=$3 hold=$4 seconds=$5 sent=$6 line

	shift 6
	contend $((hosts * per_host)) "$seconds" "$sent" "$@" || return
	# shellcheck disable=SC2016 # jq's
	line=$(jq -c --arg group "$GROUP" --arg by "$by" \
		--argjson hosts "$hosts" --argjson per_host "$per_host" \
		--argjson hold_ms "$hold" --argjson wake "$(us "${AIM_NS[$hold]}")" \
		--argjson rests "$([[ $by == *rests ]] && echo true ||
			echo false)" '
		def aim($name; $value; $op; $limit):
			{ name: $name, limit: "\($op) \($limit)",
			  missed: ($value == null or (if $op == "<="
				then $value > $limit
				else $value < $limit end)) };
		{ group: $group, name: "hand-off", by: $by, hosts: $hosts,
		  waiters: ($hosts * $per_host), hold_ms: $hold_ms,
		  rests: $rests } + . +
		{ aims: (if ($by | startswith("dlock f") | not) or
			$by == "dlock fcntl" then [] else
		  (if $hosts * $per_host == 2 and $rests
		    then [aim("p50_us"; .p50_us; "<="; $wake)] else [] end) +
		  # A longer hold has more refreshes of those who wait.
		  (if $hold_ms == 1 then [aim("sent"; .sent; "<="; 5)]
		    else [] end) +
		  (if $hosts == 128 and $hold_ms == 1 then
		    [aim("p99_us"; .p99_us; "<="; 1000),
		     aim("fewest_of_most";
			(if .most > 0 then .fewest / .most else 0 end);
			">="; 0.9)]
		    else [] end) end) }' <<<"$FIGURES")
	echo "$line" >>"$OUT"
	print_handoff "$line"
	[ "$(jq .overlaps <<<"$line")" = 0 ] ||
		error "$by: two held the lock at once: $line"
	until_true 2 db_is_empty || error "$by: keys are left: $(rr keys '*')"
	# So that the next row does not begin with a hand-off from this one.
	rr flushall >/dev/null
}

FORMAT='  %-18s %6s %6s %6s %6s %8s %8s %7s %7s %6s %7s %7s %s\n'

print_handoff()
{
	local f

	mapfile -t f < <(jq -r '.by, "\(.hosts)x\(.waiters / .hosts)",
		"\(.hold_ms) ms",
		(.acquisitions / ([.seconds, 0.01] | max) | floor),
		.handoffs, .p50_us // "-", .p99_us // "-",
		(.wait_max_us // 0 | . / 1000 | floor),
		.sent // "-", .called // "-", "\(.fewest)-\(.most)",
		.redis_cpu_us // "-",
		([.aims[] | select(.missed) |
			"\(.name) aim \(.limit) MISSED"] | join(", "))' \
		<<<"$1")
	# shellcheck disable=SC2059
	printf "$FORMAT" "${f[@]}"
}

# --- contenders ---------------------------------------------------------------

dlock_sent='evalsha|eval|script.*|subscribe|unsubscribe|client.*|ping|info'

# dlock FAMILY HOSTS PER_HOST HOLD_MS SECONDS [REST_US]
dlock()
{
	handoff "dlock $1${6:+, rests}" "$2" "$3" "$4" "$5" "$dlock_sent" \
		env DLOCK_CONFIG="$RIG/hosts.conf" "$BIN/bench_contend" \
		"$1" "$2" "$3" $(($4 * 1000)) "${6:-0}" "$MNT/f" "$RIG/lines" \
		"$SHIM"
}

# redis_py WAITERS HOLD_MS SECONDS
redis_py()
{
	handoff redis-py "$1" 1 "$2" "$3" 'set|evalsha|script.*' \
		/usr/bin/python3 "$TOP/tests/bench/redis_py.py" "$PORT" "$1" \
		$(($2 * 1000)) "$RIG/lines"
}

redlock()
{
	node_ready || return
	handoff node-redlock "$1" 1 "$2" "$3" 'eval|evalsha|script.*|info' \
		by_node contend "$PORT" "$1" $(($2 * 1000)) "$RIG/lines"
}

# A command that holds the lock by its life, started again and again.
# shellcheck disable=SC2317 # by name
etcd_waiter()
{
	local number=$1 hold_us=$2 begin=$3 end=$4

	sleep_until "$begin"
	while [ "$("$BIN/bench_contend" now)" -lt "$end" ]; do
		etcdctl --endpoints="$ETCD" lock bench -- "$BIN/bench_contend" \
			section "$hold_us" "$number" \
			"$("$BIN/bench_contend" now)" "$RIG/lines" ||
			return 1
	done
}

# shellcheck disable=SC2317
etcd_contend()
{
	local i begin end pids=() well='done'

	echo ready
	read -r begin end
	for ((i = 0; i < $1; i++)); do
		etcd_waiter "$i" "$2" "$begin" "$end" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || well=failed
	done
	echo "$well"
}

etcd()
{
	[ -n "$ETCD" ] || return
	handoff etcdctl "$1" 1 "$2" "$3" '' etcd_contend "$1" $(($2 * 1000))
}

# --- the scale ------------------------------------------------------------------

# wakes N MS: what a hand-off is held against, where MS are slept before each
wakes()
{
	local file=$RIG/wakes.$2

	"$BIN/bench_wake" "$PORT" "$1" $(($2 * 1000)) >"$file" ||
		error 'bench_wake failed'
	AIM_NS[$2]=$((2 * $(middle "$file" paced_ping) +
		$(middle "$file" paced_wake)))
	row "PING, after $2 ms of sleep" "$(us "$(middle "$file" paced_ping)")" us
	row "PUBLISH to message, after $2 ms of sleep" \
		"$(us "$(middle "$file" paced_wake)")" us
	row -n 'the machine, as busy as it is' 'PUBLISH to message, the same, p99' \
		"$(us "$(middle "$file" paced_wake_p99)")" us
	# A holder sleeps before it unlocks, and a waiter before it is woken.
	row -n "what a hand-off is held against" \
		"2 x PING + wake-up, after $2 ms of sleep" "$(us "${AIM_NS[$2]}")" us
}

wake_rows()
{
	declare -gA AIM_NS=()
	heading 'A wake-up through the server'
	wakes "$WAKES" 1
	wakes "$SLOW_WAKES" 100
	row 'PING, one after the other' \
		"$(us "$(middle "$RIG/wakes.1" ping)")" us
	row 'PUBLISH to message, one after the other' \
		"$(us "$(middle "$RIG/wakes.1" wake)")" us
}

bench_begin
rig_config A ttl=30s connect_timeout=2s timeout=5s
# shellcheck disable=SC2016 # expanded by libconfuse
sed 's/^host_id = .*/host_id = "${BENCH_HOST}"/' "$RIG/A.conf" \
	>"$RIG/hosts.conf"
NODE_WHY='' ETCD_WHY=''
node_ready || missing node-redlock "$NODE_WHY"
etcd_up || {
	ETCD=''
	missing etcdctl "$ETCD_WHY"
}
wake_rows
heading 'Hand-off: latency; the longest wait; of each acquisition the commands' \
	'that clients sent,
those called in all, and Redis CPU; fewest and most acquisitions of a waiter'
# shellcheck disable=SC2059
printf "$FORMAT" by hosts hold acq/s handed 'p50 us' 'p99 us' 'wait ms' \
	sent called few-most 'cpu us' ''
for n in $HANDOFF_WAITERS; do
	seconds=$HANDOFF_SHORT_S
	[ "$n" -lt 100 ] || seconds=$HANDOFF_LONG_S
	dlock flock "$n" 1 1 "$seconds"
	dlock flock "$n" 1 1 "$seconds" "$REST_US"
	[ "$n" -gt 32 ] || dlock fcntl "$n" 1 1 "$HANDOFF_SHORT_S"
	if [[ " $HANDOFF_PEERS " == *" $n "* ]]; then
		redis_py "$n" 1 "$seconds"
		redlock "$n" 1 "$seconds"
		[ "$n" -gt 8 ] || etcd "$n" 1 "$HANDOFF_SLOW_S"
	fi
done
dlock flock 2 64 1 "$HANDOFF_LONG_S"
for n in $HANDOFF_WAITERS; do
	dlock flock "$n" 1 100 "$HANDOFF_SLOW_S"
	[ "$n" != 2 ] ||
		dlock flock "$n" 1 100 "$HANDOFF_SLOW_S" "$REST_US"
	if [[ $n =~ ^(2|32)$ ]]; then
		redis_py "$n" 100 "$HANDOFF_SLOW_S"
		redlock "$n" 100 "$HANDOFF_SLOW_S"
		[ "$n" -gt 8 ] || etcd "$n" 100 "$HANDOFF_SLOW_S"
	fi
done
dlock flock 2 64 100 "$HANDOFF_SLOW_S"
bench_end
