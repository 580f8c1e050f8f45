#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What an uncontended lock and unlock costs, beside its peers, who take turns;
# and where it goes: system calls, instructions, bytes, the server's time.
# Counts are the same on a busy machine.
. "${0%/*}/lib.sh"

param ROUNDS 10 1
param CYCLES 1000 200
COUNTED=1000
SERVER_ROUNDS=9
SERVER_CYCLES=200

# --- times ----------------------------------------------------------------------

# A core for the server and another for the client, as on two machines.
cores_each()
{
	if [ "$(nproc)" -gt 1 ]; then
		taskset -apc 1 "$REDIS_PID" >/dev/null
		dl A taskset -c 0 "$@"
		taskset -apc "0-$(($(nproc) - 1))" "$REDIS_PID" >/dev/null
	fi
}

# A round of each.
turn()
{
	dl A "$BIN/bench_cycle" "$PORT" "$MNT/f" "$CYCLES" >>"$RIG/cycle" ||
		error 'bench_cycle failed'
	cores_each "$BIN/bench_cycle" "$PORT" "$MNT/f" "$CYCLES" |
		sed 's/^/apart_/' >>"$RIG/cycle"
	/usr/bin/python3 "$TOP/tests/bench/bench_redis_py.py" "$PORT" \
		$((CYCLES / 4)) >"$RIG/py"
	awk '{ print "py", $1; print "py_ping", $2 }' "$RIG/py" >>"$RIG/cycle"
	[ -n "$NODE_WHY" ] ||
		by_node cycle "$PORT" $((CYCLES / 4)) >>"$RIG/cycle" ||
		error 'node failed'
}

thousandths()
{
	awk -v n="$(middle "$RIG/cycle" "$1")" 'BEGIN { printf "%.2f\n", n / 1000 }'
}

# compared TITLE NAME OVER_US PINGS LEASTS [NOTE]: a row
compared()
{
	row -n "${6-}$4 x PING, $3 us over it, $5 x the least" \
		-j "{ \"over_ping_us\": $3, \"pings\": $4, \"leasts\": $5 }" \
		"$1" "$(us "$(middle "$RIG/cycle" "$2")")" us
}

# cost TITLE NAME: a row, compared block by block with PING and with the least
cost()
{
	compared "$1" "$2" "$(us "$(middle "$RIG/cycle" "$2_over")")" \
		"$(thousandths "$2_pings")" "$(thousandths "$2_leasts")"
}

# peer_cost TITLE NAME [NOTE]: the same, of what ran beside, round by round; and
# beside its own PING, if NAME_ping is known
peer_cost()
{
	local ns ping own=''

	ns=$(middle "$RIG/cycle" "$2")
	ping=$(middle "$RIG/cycle" ping)
	if grep -q "^$2_ping " "$RIG/cycle"; then
		own="${3-}$(ratio "$ns" "$(middle "$RIG/cycle" "$2_ping")") x "
		own+='its own PING; '
	fi
	compared "$1" "$2" "$(us $((ns - ping)))" "$(ratio "$ns" "$ping")" \
		"$(ratio "$ns" "$(middle "$RIG/cycle" least)")" "$own"
}

# --- counts ---------------------------------------------------------------------

# cycles N CMD...: N of them on a managed file, by a program run as CMD says
cycles()
{
	local n=$1

	shift
	on A env DLOCK_CONFIG="$RIG/A.conf" "$@" "$BIN/bench_lock" calls \
		"$MNT/f" "$n" >/dev/null
}

# shellcheck disable=SC2317 # by name
calls()
{
	cycles "$1" strace -f -c -o "$RIG/strace" -E LD_PRELOAD="$SHIM" &&
		awk '$NF == "total" { print $4 }' "$RIG/strace"
}

# shellcheck disable=SC2317
instructions()
{
	cycles "$1" LD_PRELOAD="$SHIM" valgrind --tool=callgrind \
		--callgrind-out-file=/dev/null 2>"$RIG/valgrind" &&
		awk '/Collected/ { n += $NF } END { print n }' "$RIG/valgrind"
}

# A cycle's own, without start and end.
of_a_cycle()
{
	local few many

	few=$("$1" 100)
	many=$("$1" $((COUNTED + 100)))
	awk -v n=$((many - few)) -v by="$COUNTED" \
		'BEGIN { printf "%.1f\n", n / by }'
}

# A script's time at the server moves with what else the machine does.
in_scripts()
{
	local i n usec before=$RIG/before after=$RIG/after

	for ((i = 0; i < SERVER_ROUNDS; i++)); do
		server_info >"$before"
		cycles "$SERVER_CYCLES" LD_PRELOAD="$SHIM"
		server_info >"$after"
		read -r n usec < <(command_grown evalsha "$before" "$after")
		echo "scripts $((usec * 1000 / SERVER_CYCLES))"
	done >"$RIG/scripts"
	row -n "the median of $SERVER_ROUNDS times $SERVER_CYCLES" \
		'dlock: of that in scripts, at the server' \
		"$(us "$(middle "$RIG/scripts" scripts)")" us
}

# What the server did for so many cycles.
at_the_server()
{
	local n before=$RIG/before after=$RIG/after

	cycles 100 LD_PRELOAD="$SHIM"
	server_info >"$before"
	cycles "$COUNTED" LD_PRELOAD="$SHIM"
	server_info >"$after"
	read -r n _ < <(command_grown evalsha "$before" "$after")
	row 'dlock: commands sent' "$(ratio "$n" "$COUNTED")" ''
	in_scripts
	row 'dlock: Redis CPU' \
		"$(ratio "$(redis_cpu "$before" "$after")" "$COUNTED")" us
	row 'dlock: bytes to the server' "$(ratio "$(grown \
		total_net_input_bytes "$before" "$after")" "$COUNTED")" ''
	row 'dlock: bytes from the server' "$(ratio "$(grown \
		total_net_output_bytes "$before" "$after")" "$COUNTED")" ''
}

bench_begin
heading 'An uncontended lock and unlock'
NODE_WHY=''
node_ready || missing node-redlock "$NODE_WHY"
: >"$RIG/cycle"
for ((i = 0; i < ROUNDS; i++)); do
	turn
done
row 'PING by hiredis' "$(us "$(middle "$RIG/cycle" ping)")" us
cost 'hiredis: SET NX PX + compare-and-delete' raw
cost 'the least: SET NX, DEL not waited for, unchecked' least
cost 'dlock: flock' flock
peer_cost 'dlock: flock, the lock alone' flock_lock
cost 'dlock: fcntl' fcntl
row -a '<= 1.15' 'dlock: flock against PING, block by block' \
	"$(thousandths flock_pings)" 'x PING'
row 'dlock: flock against the least, block by block' \
	"$(thousandths flock_leasts)" 'x'
if [ "$(nproc)" -gt 1 ]; then
	row 'PING by hiredis, a core each' \
		"$(us "$(middle "$RIG/cycle" apart_ping)")" us
	cost 'dlock: flock, a core each' apart_flock
fi
peer_cost 'redis-py: PING' py_ping
peer_cost 'redis-py: Lock' py "$(awk '{ print $3 }' "$RIG/py"); "
if [ -z "$NODE_WHY" ]; then
	peer_cost 'ioredis: PING' redlock_ping
	peer_cost 'node-redlock' redlock
fi
heading 'Of such a cycle'
row 'dlock: system calls' "$(of_a_cycle calls)" ''
if command -v valgrind >/dev/null; then
	row 'dlock: instructions' "$(of_a_cycle instructions)" ''
else
	missing 'dlock: instructions' 'valgrind is not installed'
fi
at_the_server
bench_end
