#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What an uncontended lock and unlock costs, beside its peers, who take turns;
# and where it goes: system calls, instructions, bytes, the server's time.
# Counts are the same on a busy machine.
. "${0%/*}/lib.sh"

param ROUNDS 5 1
param CYCLES 2000 200
COUNTED=1000

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
	/usr/bin/python3 "$TOP/tests/lib/bench_redis_py.py" "$PORT" \
		$((CYCLES / 4)) | awk '{ print "py", $1; print "py_ping", $2 }' \
		>>"$RIG/cycle"
	[ -n "$NODE_WHY" ] ||
		by_node cycle "$PORT" $((CYCLES / 4)) >>"$RIG/cycle" ||
		error 'node failed'
}

# cost TITLE NAME: a row, and how many PINGs by hiredis it is
cost()
{
	local ns

	ns=$(middle "$RIG/cycle" "$2")
	row -n "$(ratio "$ns" "$(middle "$RIG/cycle" ping)") x PING" \
		"$1" "$(us "$ns")" us
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

# What the server did for so many cycles.
at_the_server()
{
	local n usec before=$RIG/before after=$RIG/after

	cycles 100 LD_PRELOAD="$SHIM"
	server_info >"$before"
	cycles "$COUNTED" LD_PRELOAD="$SHIM"
	server_info >"$after"
	read -r n usec < <(command_grown evalsha "$before" "$after")
	row 'dlock: commands sent' "$(ratio "$n" "$COUNTED")" '' 
	row 'dlock: of that in scripts, at the server' \
		"$(ratio "$usec" "$COUNTED")" us
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
cost 'PING by hiredis' ping
cost 'hiredis: SET NX PX + compare-and-delete' raw
cost 'hiredis: the same unchecked, DEL not waited for' least
cost 'dlock: flock' flock
cost 'dlock: flock, the lock alone' flock_lock
cost 'dlock: fcntl' fcntl
row -a '<= 1.15' 'dlock: flock against PING, block by block' \
	"$(ratio "$(middle "$RIG/cycle" flock_ratio)" 1000)" 'x PING'
row 'dlock: flock against that unchecked, block by block' \
	"$(ratio "$(middle "$RIG/cycle" flock_to_least)" 1000)" 'x'
if [ "$(nproc)" -gt 1 ]; then
	cost 'PING by hiredis, a core each' apart_ping
	cost 'dlock: flock, a core each' apart_flock
	row 'dlock: flock against PING, a core each' \
		"$(ratio "$(middle "$RIG/cycle" apart_flock_ratio)" 1000)" \
		'x PING'
fi
cost 'redis-py: PING' py_ping
cost 'redis-py: Lock' py
if [ -z "$NODE_WHY" ]; then
	cost 'ioredis: PING' ioredis_ping
	cost 'node-redlock' redlock
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
