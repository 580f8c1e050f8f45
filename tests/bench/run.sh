#!/bin/bash
# SPDX-License-Identifier: MIT
#
# make bench: the scoreboard.  What dlock costs beside its peers, group by
# group (lib.sh says what a group keeps to), on servers of its own, over
# loopback.  Prints a table; leaves build/bench/bench.json (every row, and what
# it was measured on) and build/bench/handoff.svg (hand-off latency over the
# number of waiters).
#
#	BENCH=quick make bench		each row with tiny counts, to try it out
#	bash tests/bench/run.sh GROUP...	these only; the JSON has them only
#
# Status 1 if a group failed or two were in a critical section; a figure that
# misses its aim is marked.
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C.UTF-8
out=build/bench
all=(cycle quorum start handoff crowd share records)
groups=("$@")
[ "$#" != 0 ] || groups=("${all[@]}")
files=("${groups[@]/#/$out/}")
files=("${files[@]/%/.jsonl}")
status=0
mkdir -p "$out"

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
redis=$(redis-server --version | sed 's/.*v=\([^ ]*\).*/\1/')
commit=$(git describe --always --dirty 2>/dev/null)
load=$(cut -d' ' -f1 /proc/loadavg)
printf 'dlock %s; %s; %s x %s; Redis %s; load %s%s\n' "$commit" \
	"$(uname -srm)" "$(nproc)" "$cpu" "$redis" "$load" \
	"${BENCH:+; BENCH=$BENCH}"
began=$(date +%s)

for group in "${groups[@]}"; do
	if ! bash "tests/bench/$group.sh"; then
		echo "bench: $group failed" >&2
		status=1
	fi
done

# shellcheck disable=SC2016 # jq's
jq -s --arg commit "$commit" --arg kernel "$(uname -srm)" --arg cpu "$cpu" \
	--argjson cores "$(nproc)" --arg redis "$redis" --arg load "$load" \
	--arg mode "${BENCH:-full}" --arg date "$(date -u +%FT%TZ)" \
	--argjson seconds $(($(date +%s) - began)) --argjson failed "$status" '
	{ commit: $commit, date: $date, seconds: $seconds, mode: $mode,
	  failed: ($failed != 0), machine: { kernel: $kernel, cpu: $cpu,
	  cores: $cores, redis: $redis, load: $load }, rows: . }' \
	"${files[@]}" >"$out/bench.json" || status=1

# --- the plot -------------------------------------------------------------------

# points BY: "WAITERS P50 P99 LONGEST_WAIT", at 1 ms
points()
{
	# shellcheck disable=SC2016
	jq -r --arg by "$1" '.rows[] |
		select(.by == $by and .hold_ms == 1 and
			(.hosts != 2 or .waiters == 2)) |
		"\(.waiters) \(.p50_us // "NaN") \(.p99_us // "NaN") " +
		"\(.wait_max_us // "NaN")"' "$out/bench.json"
}

figure()
{
	# shellcheck disable=SC2016
	jq -r --arg name "$1" '[.rows[] | select(.group == "handoff" and
		.name == $name) | .value][0] // empty' "$out/bench.json"
}

# plot_of LINE...: as gnuplot wants them
plot_of()
{
	printf 'plot '
	printf '%s, ' "$@" | sed 's/, $/\n/'
}

plot()
{
	local by file latency=() wait=() color=1

	for by in 'dlock flock' 'dlock flock, rests' 'dlock fcntl' redis-py \
		'redis-py BLPOP' node-redlock etcdctl; do
		file=$out/$by.points
		points "$by" >"$file"
		if [ -s "$file" ]; then
			by="lc $color lw 2 title '$by"
			latency+=("'$file' using 1:2 with linespoints $by p50'")
			latency+=("'$file' using 1:3 with linespoints dt 2 $by p99'")
			wait+=("'$file' using 1:4 with linespoints $by'")
		fi
		color=$((color + 1))
	done
	latency+=("$(figure '2 x PING + wake-up, after 1 ms of sleep') \
		with lines lc 'gray' title '2 x PING + wake-up'")
	gnuplot <<-END
	set terminal svg size 900,900 background 'white'
	set output '$out/handoff.svg'
	set multiplot layout 2,1
	set xlabel 'waiters, each a host of its own'
	set ylabel 'microseconds'
	set logscale x 2
	set logscale y 10
	set xrange [1.8:140]
	set xtics (2, 8, 32, 128)
	set key outside right width -4
	set grid
	set title 'A lock held for 1 ms: from the unlock to the next owner, where that one waited'
	$(plot_of "${latency[@]}" | tr -d '\t')
	set title 'The longest wait (where they poll, the last owner mostly gets it again)'
	$(plot_of "${wait[@]}")
	END
	rm -f "$out"/*.points
}

if [[ " ${groups[*]} " == *' handoff '* ]]; then
	plot || status=1
fi
missed=$(jq '[.rows[] | select(.missed or (.aims // [] | any(.missed)))] |
	length' "$out/bench.json")
printf '\n%s rows, %s missed an aim, %s s: %s/bench.json, %s/handoff.svg\n' \
	"$(jq '.rows | length' "$out/bench.json")" "$missed" \
	$(($(date +%s) - began)) "$out" "$out"
exit "$status"
