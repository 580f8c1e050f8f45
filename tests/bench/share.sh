#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Two hosts on one share without locks (bindfs mounts of one directory): what
# coherence costs a lock, Samba's ping_pong, and SQLite's transactions a second.
# Without dlock the rates are high and the results wrong, which is told beside.
. "${0%/*}/lib.sh"

param SHARE_CYCLES 1000 100
param SHARE_ROUNDS 3 1
param PING_PONG_S 3 2
param TRANSACTIONS 150 10

# --- a cache-coherence point ------------------------------------------------------

coherence()
{
	local i c

	heading 'A lock and unlock on a share (bindfs)'
	for c in off auto on; do
		rig_config "$c" ttl=30s connect_timeout=2s \
			path_more="coherence = \"$c\""
	done
	for ((i = 0; i < SHARE_ROUNDS; i++)); do
		on A "$BIN/bench_lock" cycle "$PORT" "$MNT/share/f" \
			"$SHARE_CYCLES" | sed 's/^/bare /' >>"$RIG/share.ns"
		for c in off auto on; do
			on A env LD_PRELOAD="$SHIM" DLOCK_CONFIG="$RIG/$c.conf" \
				"$BIN/bench_lock" cycle "$PORT" \
				"$MNT/share/f" "$SHARE_CYCLES" |
				sed "s/^/$c /" >>"$RIG/share.ns"
		done
	done
	# PING comes first there, then the cycle.
	awk '{ print "ping", $2; print $1, $3 }' "$RIG/share.ns" >"$RIG/share.of"
	row 'PING' "$(us "$(middle "$RIG/share.of" ping)")" us
	row 'flock, bare' "$(us "$(middle "$RIG/share.of" bare)")" us
	for c in off auto on; do
		row "dlock: flock, coherence = $c" \
			"$(us "$(middle "$RIG/share.of" "$c")")" us
	done
}

# --- ping_pong --------------------------------------------------------------------

# The median of the rates that it says, once a second, and its last increment.
said()
{
	local rates

	mapfile -t rates < <(tr '\r' '\n' <"$RIG/$1.said" |
		sed -n 's:^ *\([0-9]*\) locks/sec$:\1:p' | sort -n)
	RATE=${rates[${#rates[@]} / 2]-}
	INCREMENT=$(tr '\r' '\n' <"$RIG/$1.said" |
		sed -n 's/^data increment = //p' | tail -1)
}

# ping_pong NAME FILE RUN HOST...: a row of each host's rate
ping_pong()
{
	local name=$1 file=$2 run=$3 h n pids=()

	shift 3
	n=$(($# + 1))
	for h; do
		"$run" "$h" timeout -s INT "$PING_PONG_S" stdbuf -o0 \
			ping_pong -rw "$file" "$n" >"$RIG/$h.said" 2>&1 &
		pids+=($!)
	done
	wait "${pids[@]}"
	for h; do
		said "$h"
		row -n "data increment $INCREMENT of $#" \
			"$name, host $h" "$RATE" locks/s
	done
}

ping_pongs()
{
	local share=$MNT/share

	heading 'ping_pong -rw (two hosts need 3 locks, one alone 2)'
	ping_pong 'bare, alone, tmpfs' "$MNT/pp1" on A
	ping_pong 'dlock, alone, tmpfs' "$MNT/pp2" dl A
	ping_pong 'bare, two hosts' "$share/pp3" on A B
	ping_pong 'dlock, two hosts' "$share/pp4" dl A B
}

# --- SQLite -----------------------------------------------------------------------

# sqlite NAME DATABASE RUN HOST...: each so many increments of one counter
sqlite()
{
	local name=$1 db=$2 run=$3 h pids=() began ns total failed

	shift 3
	on A sqlite3 "$db" 'create table c(n); insert into c values (0)'
	: >"$RIG/failed"
	began=$(now)
	for h; do
		"$run" "$h" timeout 120 /usr/bin/python3 \
			"$TOP/tests/lib/sqlite_worker.py" "$db" "$TRANSACTIONS" \
			2>/dev/null >>"$RIG/failed" &
		pids+=($!)
	done
	wait "${pids[@]}"
	ns=$(($(now) - began))
	total=$(on A sqlite3 "$db" 'select n from c' 2>&1)
	failed=$(awk '{ n += $1 } END { print n + 0 }' "$RIG/failed")
	row -n "$total of $(($# * TRANSACTIONS)) arrived, $failed failed" \
		"$name" "$((total * 1000000000 / ns))" 'a second'
	[ "$run" != dl ] || [ "$total" = $(($# * TRANSACTIONS)) ] ||
		error "$name: $total of $(($# * TRANSACTIONS))"
}

sqlites()
{
	local share=$MNT/share

	heading 'SQLite transactions, each followed by a read'
	sqlite 'bare, two processes, tmpfs' "$MNT/db1" on A A
	sqlite 'dlock, two processes, tmpfs' "$MNT/db2" dl A A
	sqlite 'bare, alone on the share' "$share/db3" on A
	sqlite 'dlock, alone on the share' "$share/db4" dl A
	sqlite 'bare, two hosts' "$share/db5" on A B
	sqlite 'dlock, two hosts' "$share/db6" dl A B
}

bench_begin
for h in A B; do
	share_at "$h" "$MNT/share" -o \
		attr_timeout=0,entry_timeout=0,negative_timeout=0
done
coherence
sqlites
ping_pongs
# Each ping_pong was killed with a lock in hand.
rr flushall >/dev/null
bench_end
