#!/bin/bash
# SPDX-License-Identifier: MIT
#
# How a lock goes from one host to the next: each contender locks, sleeps for
# the hold, unlocks and asks again, for some seconds.  Beside the latency of a
# hand-off (judge.py) stands what it cost the server, and who got how many.
# Two in the critical section at once fail the bench, whoever the peer is.
#
# Of the peers, redis-py's Lock and node-redlock poll; etcdctl and the one by
# BLPOP queue at their server, as dlock does.  Rows with as many waiters run in
# turns, some rounds of each, so that what drifts hits all alike.
#
# The one who unlocks, the server and the next owner are three machines where
# hosts are.  On two cores, who asks again at once is in the others' way, and
# that is what most of such a figure measures; so there are rows of dlock in
# which it rests first, while the others work.
#
# Environment: HANDOFF_WAITERS, HANDOFF_PEERS (waiters of the peers), and the
# rounds, and the seconds of one at 1 ms and at 100 ms, of few waiters and of
# many.
# shellcheck disable=SC2317 # rows are functions, called by name
. "${0%/*}/lib.sh"

param HANDOFF_WAITERS '2 8 32 128' '2 128'
param HANDOFF_PEERS '2 8 32 128' 2
param HANDOFF_ROUNDS 3 1
param HANDOFF_SHORT_S 0.7 0.2
param HANDOFF_LONG_S 1.7 0.5
param HANDOFF_SLOW_S 1.4 0.4
param WAKES 300 200
param SLOW_WAKES 5 5
# As long as a hand-off takes, and less than anything is held.
REST_US=300

sleep_until()
{
	local left=$(($1 - $("$BIN/bench_contend" now)))

	[ "$left" -le 0 ] ||
		sleep "$((left / 1000000000)).$(printf %09d \
			$((left % 1000000000)))"
}

# contend DIR WAITERS SECONDS CMD...: a round, for judge.py
contend()
{
	local dir=$1 waiters=$2 seconds=$3 begin from to end

	shift 3
	: >"$RIG/lines"
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
	mkdir -p "$dir"
	echo "$from $to" >"$dir/window"
	mv "$RIG/lines" "$RIG/before" "$RIG/after" "$dir/"
	# So that the next one does not begin with a hand-off from this one.
	until_true 2 db_is_empty || error "$1: keys are left: $(rr keys '*')"
	rr flushall >/dev/null
}

# turns ROW...: each in every round, then what came of them.  A row is a
# function of those below, with its arguments.
turns()
{
	local row

	for ((ROUND = 1; ROUND <= HANDOFF_ROUNDS; ROUND++)); do
		scale
		for row; do
			$row
		done
	done
	ROUND=0
	for row; do
		$row
	done
}

# handoff BY HOSTS PER_HOST HOLD_MS SECONDS SENT CMD...: a round of a row, or
# the row itself when $ROUND is 0
handoff()
{
	local by=$1 hosts=$2 per_host=$3 hold=$4 seconds=$5 sent=$6
	local dir="$RIG/row.$1.$2.$3.$4"

	shift 6
	if [ "$ROUND" != 0 ]; then
		contend "$dir.$ROUND" $((hosts * per_host)) "$seconds" "$@"
	elif compgen -G "$dir.*" >/dev/null; then
		judged "$by" "$hosts" "$per_host" "$hold" "$sent" "$dir".*
	fi
}

# judged BY HOSTS PER_HOST HOLD_MS SENT ROUND...
judged()
{
	local by=$1 hosts=$2 per_host=$3 hold=$4 sent=$5 line FIGURES

	shift 5
	FIGURES=$(/usr/bin/python3 "$TOP/tests/bench/judge.py" \
		$((hosts * per_host)) "$sent" "$@") || {
		error "$by: no figures"
		return
	}
	# shellcheck disable=SC2016 # jq's
	line=$(jq -c --arg group "$GROUP" --arg by "$by" \
		--argjson hosts "$hosts" --argjson per_host "$per_host" \
		--argjson hold_ms "$hold" --argjson wake "$(us "$(aim_ns "$hold")")" \
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
		$(($2 * 1000)) "$RIG/lines" lock
}

blpop()
{
	handoff 'redis-py BLPOP' "$1" 1 "$2" "$3" 'set|blpop|evalsha|script.*' \
		/usr/bin/python3 "$TOP/tests/bench/redis_py.py" "$PORT" "$1" \
		$(($2 * 1000)) "$RIG/lines" blpop
}

redlock()
{
	[ -z "$NODE_WHY" ] || return 0
	handoff node-redlock "$1" 1 "$2" "$3" 'eval|evalsha|script.*|info' \
		by_node contend "$PORT" "$1" $(($2 * 1000)) "$RIG/lines"
}

# A command that holds the lock by its life, started again and again.
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
	[ -n "$ETCD" ] || return 0
	handoff etcdctl "$1" 1 "$2" "$3" '' etcd_contend "$1" $(($2 * 1000))
}

# --- the scale ------------------------------------------------------------------

# What a hand-off is held against, where 1 or 100 ms are slept before each.
scale()
{
	"$BIN/bench_wake" "$PORT" "$WAKES" 1000 >>"$RIG/wakes.1" ||
		error 'bench_wake failed'
	"$BIN/bench_wake" "$PORT" "$SLOW_WAKES" 100000 >>"$RIG/wakes.100" ||
		error 'bench_wake failed'
}

aim_ns()
{
	echo $((2 * $(middle "$RIG/wakes.$1" paced_ping) +
		$(middle "$RIG/wakes.$1" paced_wake)))
}

# wakes MS
wakes()
{
	local file=$RIG/wakes.$1

	row "PING, after $1 ms of sleep" "$(us "$(middle "$file" paced_ping)")" us
	row "PUBLISH to message, after $1 ms of sleep" \
		"$(us "$(middle "$file" paced_wake)")" us
	row -n 'the machine, as busy as it is' 'PUBLISH to message, the same, p99' \
		"$(us "$(middle "$file" paced_wake_p99)")" us
	# A holder sleeps before it unlocks, and a waiter before it is woken.
	row -n "what a hand-off is held against" \
		"2 x PING + wake-up, after $1 ms of sleep" "$(us "$(aim_ns "$1")")" us
}

wake_rows()
{
	heading 'A wake-up through the server, measured before each round'
	wakes 1
	wakes 100
	row 'PING, one after the other' \
		"$(us "$(middle "$RIG/wakes.1" ping)")" us
	row 'PUBLISH to message, one after the other' \
		"$(us "$(middle "$RIG/wakes.1" wake)")" us
}

# --- rows -----------------------------------------------------------------------

# of_short N: those with N waiters and a hold of 1 ms, by lines; of_slow: 100 ms
of_short()
{
	local s=$HANDOFF_SHORT_S

	[ "$1" -lt 100 ] || s=$HANDOFF_LONG_S
	echo "dlock flock $1 1 1 $s"
	echo "dlock flock $1 1 1 $s $REST_US"
	[ "$1" -gt 32 ] || echo "dlock fcntl $1 1 1 $HANDOFF_SHORT_S"
	[ "$1" -lt 128 ] || echo "dlock flock 2 64 1 $s"
	[[ " $HANDOFF_PEERS " == *" $1 "* ]] || return 0
	[ "$1" -gt 8 ] || echo "etcd $1 1 $HANDOFF_SLOW_S"
	echo "blpop $1 1 $s"
	echo "redis_py $1 1 $s"
	echo "redlock $1 1 $s"
}

of_slow()
{
	local s=$HANDOFF_SLOW_S

	echo "dlock flock $1 1 100 $s"
	[ "$1" != 2 ] || echo "dlock flock $1 1 100 $s $REST_US"
	[ "$1" -lt 128 ] || echo "dlock flock 2 64 100 $s"
	[[ $1 =~ ^(2|32)$ ]] || return 0
	[ "$1" -gt 8 ] || echo "etcd $1 100 $s"
	echo "blpop $1 100 $s"
	echo "redis_py $1 100 $s"
	echo "redlock $1 100 $s"
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
heading 'Hand-off: latency; the longest wait; of each acquisition the commands' \
	'that clients sent,
those called in all, and Redis CPU; fewest and most acquisitions of a waiter'
# shellcheck disable=SC2059
printf "$FORMAT" by hosts hold acq/s handed 'p50 us' 'p99 us' 'wait ms' \
	sent called few-most 'cpu us' ''
for of in of_short of_slow; do
	for n in $HANDOFF_WAITERS; do
		mapfile -t rows < <("$of" "$n")
		turns "${rows[@]}"
	done
done
wake_rows
bench_end
