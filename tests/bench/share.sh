#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Two hosts on one share without locks (bindfs mounts of one directory): what
# coherence costs a lock, Samba's ping_pong, and SQLite's transactions a second.
# Without dlock the rates are high and the results wrong, which is told beside.
. "${0%/*}/lib.sh"

param SHARE_CYCLES 1000 100
param SHARE_ROUNDS 3 1
param PING_PONG_ROUNDS 3 1
param PING_PONG_S 2 2
# On one host, by one process; and on the share, where each costs much more.
param TRANSACTIONS 2000 100
param SHARE_TRANSACTIONS 150 10
param SQLITE_ROUNDS 3 1

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

# ping_pong ID FILE RUN HOST...: a round
ping_pong()
{
	local id=$1 file=$2 run=$3 h n pids=()

	shift 3
	n=$(($# + 1))
	for h; do
		"$run" "$h" timeout -s INT "$PING_PONG_S" stdbuf -o0 \
			ping_pong -rw "$file" "$n" 2>&1 |
			tr '\r' '\n' >>"$RIG/$id.$h.said" &
		pids+=($!)
	done
	wait "${pids[@]}"
}

# ping_pong_row ID NAME HOST...: the median of the rates that it said, once a
# second, and its last increment
ping_pong_row()
{
	local id=$1 name=$2 h increment

	shift 2
	for h; do
		sed -n 's:^ *\([0-9]*\) locks/sec$:rate \1:p' \
			"$RIG/$id.$h.said" >"$RIG/rates"
		increment=$(sed -n 's/^data increment = //p' \
			"$RIG/$id.$h.said" | tail -1)
		row -n "data increment $increment of $#" "$name, host $h" \
			"$(middle "$RIG/rates" rate)" locks/s
	done
}

ping_pongs()
{
	local share=$MNT/share i

	heading 'ping_pong -rw (two hosts need 3 locks, one alone 2)'
	for ((i = 0; i < PING_PONG_ROUNDS; i++)); do
		ping_pong alone "$MNT/pp1" on A
		ping_pong alone_dl "$MNT/pp2" dl A
		ping_pong two "$share/pp3" on A B
		ping_pong two_dl "$share/pp4" dl A B
		# Each was killed with a lock in hand.
		rr flushall >/dev/null
	done
	ping_pong_row alone 'bare, alone, tmpfs' A
	ping_pong_row alone_dl 'dlock, alone, tmpfs' A
	ping_pong_row two 'bare, two hosts' A B
	ping_pong_row two_dl 'dlock, two hosts' A B
}

# --- SQLite -----------------------------------------------------------------------

# sqlite ID N DATABASE RUN HOST...: a round: each so many increments of one
# counter, begun together; "ID RATE ARRIVED WANTED FAILED" to $RIG/sqlite
sqlite()
{
	local id=$1 n=$2 db=$3 run=$4 name i=0 total

	shift 4
	on A rm -f "$db" "$db-journal"
	on A sqlite3 "$db" 'create table c(n); insert into c values (0)'
	for name; do
		i=$((i + 1))
		peer "sqlite$i" "$run" "$name" /usr/bin/python3 \
			"$TOP/tests/bench/sqlite.py" "$db" "$n"
		hear "sqlite$i" 30 || error "$id: $(tail -1 "$RIG/sqlite$i.err")"
	done
	for ((i = 1; i <= $#; i++)); do
		say "sqlite$i" go
	done
	for ((i = 1; i <= $#; i++)); do
		hear "sqlite$i" 120 || error "$id: no end"
		echo "$HEARD"
		peer_end "sqlite$i"
	done >"$RIG/sqlite.each"
	# One more each, that was not measured.
	total=$(on A sqlite3 "$db" 'select n from c' 2>&1)
	awk -v id="$id" -v total="$((total - $#))" -v want=$(($# * n)) '
		NR == 1 || $2 < from { from = $2 } $3 > to { to = $3 }
		{ failed += $1 }
		END { print id, (want - failed) * 1e9 / (to - from), total,
			want, failed }' "$RIG/sqlite.each" >>"$RIG/sqlite"
	[ "$run" != dl ] || [ "$total" = $(($# * (n + 1))) ] ||
		error "$id: $total of $(($# * (n + 1)))"
}

# sqlite_row ID NAME: the median of its rounds, and what arrived in all
sqlite_row()
{
	local said

	said=$(awk -v id="$1" '$1 == id { n += $3; want += $4; bad += $5 }
		END { printf "%d of %d arrived, %d failed", n, want, bad }' \
		"$RIG/sqlite")
	row -n "$said" "$2" "$(printf %.0f "$(middle "$RIG/sqlite" "$1")")" \
		'a second'
}

sqlites()
{
	local disk=$MNT/db share=$MNT/share/db i few=$SHARE_TRANSACTIONS

	heading 'SQLite transactions, each followed by a read'
	for ((i = 0; i < SQLITE_ROUNDS; i++)); do
		sqlite disk1_bare "$TRANSACTIONS" "$disk" on A
		sqlite disk1_dlock "$TRANSACTIONS" "$disk" dl A
		sqlite disk2_bare $((TRANSACTIONS / 4)) "$disk" on A A
		sqlite disk2_dlock $((TRANSACTIONS / 4)) "$disk" dl A A
		sqlite share1_bare "$few" "$share" on A
		sqlite share1_dlock "$few" "$share" dl A
		sqlite share2_bare "$few" "$share" on A B
		sqlite share2_dlock "$few" "$share" dl A B
	done
	sqlite_row disk1_bare 'bare, one process, tmpfs'
	sqlite_row disk1_dlock 'dlock, one process, tmpfs'
	row 'dlock: time of each, against bare' "$(ratio \
		"$(middle "$RIG/sqlite" disk1_bare)" \
		"$(middle "$RIG/sqlite" disk1_dlock)")" x
	sqlite_row disk2_bare 'bare, two processes, tmpfs'
	sqlite_row disk2_dlock 'dlock, two processes, tmpfs'
	sqlite_row share1_bare 'bare, alone on the share'
	sqlite_row share1_dlock 'dlock, alone on the share'
	sqlite_row share2_bare 'bare, two hosts'
	sqlite_row share2_dlock 'dlock, two hosts'
}

bench_begin
for h in A B; do
	share_at "$h" "$MNT/share" -o \
		attr_timeout=0,entry_timeout=0,negative_timeout=0
done
coherence
sqlites
ping_pongs
bench_end
