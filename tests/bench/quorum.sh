#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What an uncontended lock and unlock costs by a quorum of three masters, beside one
# of them, and beside node-redlock, which does the same: in turns.  Then with one of
# the three dead.
RIG_MODE=quorum
. "${0%/*}/lib.sh"

param ROUNDS 9 1
param CYCLES 400 100

# by_dlock NAME CONFIG: a round; bench_cycle's own figures of it
by_dlock()
{
	on A env LD_PRELOAD="$SHIM" DLOCK_CONFIG="$RIG/$2.conf" \
		"$BIN/bench_cycle" "$PORT" "$MNT/f" "$CYCLES" >"$RIG/round" ||
		error "bench_cycle failed: $1"
	awk -v name="$1" '$1 == "flock" { print name, $2 } $1 == "ping" { print }
		$1 == "flock_pings" { print name "_pings", $2 }' \
		"$RIG/round" >>"$RIG/cycle"
}

# by_redlock NAME PORTS
by_redlock()
{
	[ -z "$NODE_WHY" ] || return 0
	by_node cycle "$2" $((CYCLES / 2)) >"$RIG/round" || error "node failed: $1"
	awk -v name="$1" '$1 == "redlock" { print name, $2 }
		$1 == "redlock_ping" { print name "_ping", $2 }' \
		"$RIG/round" >>"$RIG/cycle"
}

all_ports()
{
	echo "$PORT,${MASTER_PORT[2]},${MASTER_PORT[3]}"
}

# ours TITLE NAME
ours()
{
	local pings

	pings=$(middle "$RIG/cycle" "$2_pings")
	pings=$(ratio "$pings" 1000)
	row -n "$pings x PING" -j "{ \"pings\": $pings }" "$1" \
		"$(us "$(middle "$RIG/cycle" "$2")")" us
}

# theirs TITLE NAME
theirs()
{
	local ns pings own

	if [ -n "$NODE_WHY" ]; then
		missing "$1" "$NODE_WHY"
		return
	fi
	ns=$(middle "$RIG/cycle" "$2")
	pings=$(ratio "$ns" "$(middle "$RIG/cycle" ping)")
	own=$(ratio "$ns" "$(middle "$RIG/cycle" "$2_ping")")
	row -n "$pings x PING, $own x its own PING" -j "{ \"pings\": $pings }" \
		"$1" "$(us "$ns")" us
}

scripts_sent()
{
	local i

	for i in 1 2 3; do
		m "$i" info commandstats
	done | tr -d '\r' | awk -F'[:,=]' '/^cmdstat_evalsha:/ { n += $3 }
		END { print n + 0 }'
}

# Commands to all three, for a lock and unlock.
commands()
{
	local before

	before=$(scripts_sent)
	on A env LD_PRELOAD="$SHIM" DLOCK_CONFIG="$RIG/A.conf" \
		"$BIN/bench_lock" calls "$MNT/f" "$CYCLES" >/dev/null
	ratio $(($(scripts_sent) - before)) "$CYCLES"
}

bench_begin
RIG_MODE='' rig_config one ttl=30s connect_timeout=2s timeout=5s
heading 'An uncontended lock and unlock, by a quorum'
NODE_WHY=''
node_ready
: >"$RIG/cycle"
for ((i = 0; i < ROUNDS; i++)); do
	by_dlock one one
	by_dlock three A
	by_redlock redlock1 "$PORT"
	by_redlock redlock3 "$(all_ports)"
done
sent=$(commands)
master_kill 3
for ((i = 0; i < ROUNDS; i++)); do
	by_dlock two A
done
row 'PING by hiredis' "$(us "$(middle "$RIG/cycle" ping)")" us
ours 'dlock: flock, one master' one
ours 'dlock: flock, three masters' three
ours 'dlock: flock, one of three is dead' two
theirs 'node-redlock, one master' redlock1
theirs 'node-redlock, three masters' redlock3
row 'dlock: commands sent, to all three' "$sent" ''
bench_end
