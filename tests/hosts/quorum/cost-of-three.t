#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Three masters are asked at the same time: with a way of DELAY ms to each, a lock
# and its unlock take no more of such ways than at one server.  (One after the
# other they would be three times as many.)  By turns, in one run; the least of
# each.  The figures without the way are a note.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"

DELAY=60 ROUNDS=5

# us_by CONFIG PAIRS: of a pair, the median
us_by()
{
	local ns

	read -r _ ns _ < <(on A env LD_PRELOAD="$BUILD/libdlock-preload.so" \
		DLOCK_CONFIG="$RIG/$1.conf" "$BIN/bench_lock" cycle "$PORT" f "$2")
	echo $((ns / 1000))
}

least()
{
	[ "$2" -ge "$1" ] && echo "$1" || echo "$2"
}

# by_turns PAIRS: the least of $one and of $three
by_turns()
{
	local i

	one=1000000000 three=1000000000
	for ((i = 0; i < ROUNDS; i++)); do
		one=$(least "$one" "$(us_by one "$1")")
		three=$(least "$three" "$(us_by three "$1")")
	done
	note "a lock and its unlock: $one us at one server, $three us at three" \
		"masters: $((three * 100 / one)) %"
}

# configs NAME PORT PORT PORT
configs()
{
	local urls="\"redis://127.0.0.1:$2/0\", \"redis://127.0.0.1:$3/0\","

	urls+=" \"redis://127.0.0.1:$4/0\""
	sed -e "s|urls = .*|urls = { $urls }|" "$RIG/$1.conf" >"$RIG/three.conf"
	sed -e '/mode = "quorum"/d' \
		-e "s|urls = .*|url = \"redis://127.0.0.1:$2/0\"|" \
		"$RIG/$1.conf" >"$RIG/one.conf"
}

rig_start disks
rig_config A ttl=20s timeout=10s connect_timeout=2s restart_delay=0s
configs A "$PORT" "${MASTER_PORT[2]}" "${MASTER_PORT[3]}"
by_turns 500

ports=()
for port in "$PORT" "${MASTER_PORT[2]}" "${MASTER_PORT[3]}"; do
	PORT=$port proxy "p$port"
	ports+=("$PROXY")
	ask "p$port" "delay $DELAY"
done
configs A "${ports[@]}"
by_turns 5
at_least "$one" $((DELAY * 1000)) 'the way is there (control)'
ok 'at three, a pair takes no more ways than at one' \
	[ "$three" -lt $((2 * one)) ]
rig_end
