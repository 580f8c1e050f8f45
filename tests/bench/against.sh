#!/bin/bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317 # by name
#
# This build against another one, of another commit, in turns and in one run:
#
#	AGAINST=DIR bash tests/bench/against.sh		DIR: its build directory
#
# System calls are counted by strace(1), instructions by valgrind's callgrind,
# commands and CPU time at the server by INFO.
. "${0%/*}/lib.sh"

param PAIRS 2000 200
param ROUNDS 3 1
param LEASES 10000 500
param LEASES_TTL_S 9 6
param SHARE_CYCLES 1000 100
param SHARE_TRANSACTIONS 150 10

declare -A BUILD_OF=([before]=${AGAINST:?the build directory of another commit}
	[after]=$BUILD)

cmp -s "${BUILD_OF[before]}/libdlock-preload.so" \
	"${BUILD_OF[after]}/libdlock-preload.so" &&
	rig_die "$AGAINST has the library of this build"

# by before|after HOST COMMAND...: under the library of that build
by()
{
	SHIM=${BUILD_OF[$1]}/libdlock-preload.so dl "${@:2}"
}

# told NAME UNIT: the medians of "NAME-before" and "NAME-after", and what is left
told()
{
	local a b

	a=$(middle "$RIG/figures" "$1-before")
	b=$(middle "$RIG/figures" "$1-after")
	row "$3, before" "$a" "$2"
	row -n "$(ratio "$b" "$a") x" "$3, after" "$b" "$2"
}

figure()
{
	echo "$1-$2 $3" >>"$RIG/figures"
}

# --- a lock and its unlock ----------------------------------------------------

# counted WHICH N: system calls of a process that does N pairs
syscalls()
{
	by "$1" A strace -f -qq -o "$RIG/strace" \
		"$BIN/bench_lock" calls "$MNT/f" "$2" >/dev/null
	grep -c '(' "$RIG/strace"
}

instructions()
{
	by "$1" A valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		"$BIN/bench_lock" calls "$MNT/f" "$2" 2>&1 >/dev/null |
		sed -n 's/.*Collected : *\([0-9]*\).*/\1/p'
}

# more HOW WHICH FEW: what N pairs more add, a pair
more()
{
	local few many

	few=$("$1" "$2" "$3")
	many=$("$1" "$2" $(($3 + 400)))
	figure "$1" "$2" $(((many - few) / 400))
}

pairs()
{
	local i which

	heading 'A lock and its unlock, uncontended'
	for which in before after; do
		more syscalls "$which" 100
		more instructions "$which" 100
	done
	for ((i = 0; i < ROUNDS; i++)); do
		for which in before after; do
			figure pair "$which" $((2 * $(by "$which" A \
				"$BIN/bench_lock" calls "$MNT/f" "$PAIRS")))
		done
	done
	told syscalls '' 'system calls a pair'
	told instructions '' 'instructions a pair'
	told pair ns 'a pair'
}

# --- renewal ------------------------------------------------------------------

keeper_runs()
{
	[ -n "$(all_keepers A)" ]
}

keeper_is_gone()
{
	! keeper_runs
}

renewals()
{
	local which round s=$LEASES_TTL_S process keepers a b n

	heading "$LEASES leases of one process, ttl $s s"
	rig_config A ttl="${s}s" connect_timeout=1s
	for ((round = 0; round < ROUNDS; round++)); do
		for which in before after; do
			peer many by "$which" A "$BIN/many_files" "$LEASES" EX
			ask many open 60
			ask many lock 120
			[ "$RESULT" = 0 ] || error "$which: $HEARD"
			until_true 40 keeper_runs || error "$which: no keeper"
			sleep "$((s / 2))"
			process=$(pids_of A -x many_files)
			mapfile -t keepers < <(pids_of A -x 'dlock-[ks].*')
			a=$(cpu_of "$process")
			b=$(cpu_of "${keepers[@]}")
			server_info >"$RIG/i0"
			sleep "$s"
			a=$(($(cpu_of "$process") - a))
			b=$(($(cpu_of "${keepers[@]}") - b))
			server_info >"$RIG/i1"
			read -r n _ < <(command_grown evalsha "$RIG/i0" "$RIG/i1")
			figure process "$which" "$((a * 100 / s))"
			figure keeper "$which" "$((b * 100 / s))"
			figure redis "$which" \
				"$(($(redis_cpu "$RIG/i0" "$RIG/i1") / s / 100))"
			figure commands "$which" "$n"
			say many exit
			until_true 40 db_is_empty || error "$which: leases are left"
			peer_end many
			until_true 20 keeper_is_gone || error "$which: a keeper stays"
		done
	done
	told process '/10000 core' 'CPU of the process'
	told keeper '/10000 core' 'CPU of the keepers'
	told redis '/10000 core' 'CPU of Redis'
	told commands '' 'scripts in a ttl'
}

# --- a share ----------------------------------------------------------------------

# sqlite WHICH: two hosts' transactions a second
sqlite()
{
	local h db=$MNT/share/db n=$SHARE_TRANSACTIONS

	on A rm -f "$db" "$db-journal"
	on A sqlite3 "$db" 'create table c(n); insert into c values (0)'
	for h in A B; do
		peer "sqlite$h" by "$1" "$h" /usr/bin/python3 \
			"$TOP/tests/bench/sqlite.py" "$db" "$n"
		hear "sqlite$h" 30 || error "$1: $(tail -1 "$RIG/sqlite$h.err")"
	done
	say sqliteA go
	say sqliteB go
	for h in A B; do
		hear "sqlite$h" 120 || error "$1: no end"
		echo "$HEARD"
		peer_end "sqlite$h"
	done >"$RIG/sqlite.each"
	figure sqlite "$1" "$(awk -v n="$((2 * n))" '
		NR == 1 || $2 < from { from = $2 } $3 > to { to = $3 }
		{ n -= $1 }
		END { printf "%.0f", n * 1e9 / (to - from) }' "$RIG/sqlite.each")"
}

shares()
{
	local h i which

	heading 'On a share (bindfs)'
	for h in A B; do
		share_at "$h" "$MNT/share" -o \
			attr_timeout=0,entry_timeout=0,negative_timeout=0
		rig_config "$h" ttl=30s connect_timeout=2s timeout=5s
	done
	for ((i = 0; i < ROUNDS; i++)); do
		for which in before after; do
			figure share "$which" "$(by "$which" A "$BIN/bench_lock" \
				cycle "$PORT" "$MNT/share/f" "$SHARE_CYCLES" |
				cut -d' ' -f2)"
			sqlite "$which"
		done
	done
	told share ns 'a lock and its unlock'
	told sqlite 'a second' 'SQLite transactions of two hosts'
}

bench_begin
pairs
renewals
shares
bench_end
