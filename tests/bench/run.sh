#!/bin/bash
# SPDX-License-Identifier: MIT
#
# make bench: what dlock costs, medians, on a Redis of its own over loopback
# TCP.  What is compared runs in turns, in the same run.  The aims are those
# of the design; a figure that misses its aim is marked, and changes nothing
# in the exit status (a busy machine is no defect).
set -u
. "${0%/*}/../lib/rig.sh"

RIG=$(mktemp -d "${TMPDIR:-/tmp}/dlock-bench.XXXXXX") || exit 1
MNT=$RIG/mnt
trap rig_cleanup EXIT
trap 'exit 130' INT TERM HUP
mkdir "$MNT"
redis_up
SHIM=$BUILD/libdlock-preload.so
CYCLES=${CYCLES:-5000}
STARTS=${STARTS:-500}

row()
{
	printf '%-46s %12s  %s\n' "$1" "$2" "${3-}"
}

# aim GOT LIMIT TEXT, in units of one's own
aim()
{
	if [ "$1" -le "$2" ]; then
		echo "$3"
	else
		echo "$3  MISSED"
	fi
}

us()
{
	printf '%d.%01d us' $(($1 / 1000)) $(($1 % 1000 / 100))
}

# many_rules N
many_rules()
{
	local i

	printf 'redis "main" {\n url = "redis://127.0.0.1:%d/0"\n}\n' "$PORT"
	for ((i = 0; i < $1; i++)); do
		printf 'path "/nowhere/%d/" {\n redis = "main"\n}\n' "$i"
	done
}

rig_config A
many_rules 0 >"$RIG/0.conf"
many_rules 20 >"$RIG/20.conf"

printf '%s, %s, %s cycles, %s starts\n\n' "$(uname -srm)" \
	"$(redis-server --version | sed 's/ sha.*//')" "$CYCLES" "$STARTS"

# --- a lock ---------------------------------------------------------------
read -r ping lock call < <(LD_PRELOAD=$SHIM DLOCK_CONFIG=$RIG/A.conf \
	"$BIN/bench_lock" cycle "$PORT" "$MNT/f" "$CYCLES")
read -r py_lock py_ping < <(/usr/bin/python3 \
	"$TOP/tests/lib/bench_redis_py.py" "$PORT" $((CYCLES / 5)))
percent=$((lock * 100 / ping))
row 'PING, one round trip' "$(us "$ping")"
row 'dlock: flock LOCK_EX' "$(us "$call")"
row 'dlock: flock LOCK_EX + LOCK_UN' "$(us "$lock")"
row '  against PING' "$((percent / 100)).$(printf %02d $((percent % 100))) x" \
	"$(aim "$percent" 125 'aim: 1.25 x')"
row 'redis-py: PING' "$(us "$py_ping")"
row 'redis-py: Lock acquire + release' "$(us "$py_lock")"
echo

# --- no lock of ours ------------------------------------------------------
bare=() shimmed=()
for i in 1 2 3 4 5; do
	bare+=("$("$BIN/bench_lock" calls "$RIG/unmanaged" 20000)")
	shimmed+=("$(LD_PRELOAD=$SHIM DLOCK_CONFIG=$RIG/A.conf \
		"$BIN/bench_lock" calls "$RIG/unmanaged" 20000)")
done
middle()
{
	printf '%s\n' "$@" | sort -n | sed -n 3p
}
a=$(middle "${bare[@]}")
b=$(middle "${shimmed[@]}")
row 'flock on an unmanaged file, bare' "$a ns"
row 'flock on an unmanaged file, preloaded' "$b ns"
row '  more' "$((b - a)) ns" "$(aim $((b - a)) 2000 'aim: 2 us')"
echo

# --- the start of a program -----------------------------------------------
mapfile -t start < <("$BIN/bench_start" "$STARTS" '' \
	"LD_PRELOAD=$BIN/null.so" \
	"LD_PRELOAD=$SHIM DLOCK_CONFIG=$RIG/0.conf" \
	"LD_PRELOAD=$SHIM DLOCK_CONFIG=$RIG/A.conf" \
	"LD_PRELOAD=$SHIM DLOCK_CONFIG=$RIG/20.conf" 2>/dev/null)
i=0
for name in 'bare' 'with an empty library' 'preloaded, no rule' \
	    'preloaded, 1 rule' 'preloaded, 20 rules'; do
	row "/bin/true, $name" "$(us "${start[i]:-0}")"
	i=$((i + 1))
done
