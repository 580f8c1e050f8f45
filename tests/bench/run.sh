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

# --- a cache-coherence point ----------------------------------------------
mkdir "$RIG/share"
host_start A
on A mount -t tmpfs tmpfs "$MNT"
share_at A "$MNT/share"
for c in off auto on; do
	rig_config A path_more="coherence = \"$c\""
	read -r _ lock _ < <(dl A "$BIN/bench_lock" cycle "$PORT" "$MNT/share/f" \
		"$CYCLES")
	row "bindfs, coherence = $c: flock LOCK_EX + UN" "$(us "$lock")"
done
host_dead A
rig_config A
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

# --- whole processes --------------------------------------------------------

# started TITLE RUNS NAME VARIANT...: medians, and how many times the first
started()
{
	local title=$1 runs=$2 names=() variants=() ns=() i

	shift 2
	while [ "$#" -gt 0 ]; do
		names+=("$1")
		variants+=("$2")
		shift 2
	done
	mapfile -t ns < <("$BIN/bench_start" "$runs" "${variants[@]}")
	for ((i = 0; i < ${#names[@]}; i++)); do
		row "$title, ${names[i]}" "$(us "${ns[i]:-0}")" \
			"$(ratio "${ns[i]:-0}" "${ns[0]:-0}")"
	done
	echo
}

ratio()
{
	[ "$2" = 0 ] || printf '%d.%02d x' $(($1 / $2)) $(($1 % $2 * 100 / $2))
}

on_with="LD_PRELOAD=$SHIM DLOCK_CONFIG=$RIG"
flock=/usr/bin/flock
started /bin/true "$STARTS" \
	bare '' \
	'with an empty library' "LD_PRELOAD=$BIN/null.so" \
	'DLOCK_DISABLE=1' "$on_with/A.conf DLOCK_DISABLE=1" \
	'preloaded, no rule' "$on_with/0.conf" \
	'preloaded, 1 rule' "$on_with/A.conf" \
	'preloaded, 20 rules' "$on_with/20.conf"
started 'flock f true' "$STARTS" \
	bare "$flock $MNT/f /bin/true" \
	'preloaded, an unmanaged file' "$on_with/A.conf $flock $RIG/f /bin/true" \
	'preloaded, a managed file' "$on_with/A.conf $flock $MNT/f /bin/true"
started 'python3 -c pass' $((STARTS / 10)) \
	bare '/usr/bin/python3 -c pass' \
	preloaded "$on_with/A.conf /usr/bin/python3 -c pass"

# --- counts, which are the same on a busy machine ------------------------------

# System calls, those of children and of a keeper too.
calls()
{
	strace -f -c -o "$RIG/strace" env -i "$@" &&
		awk '$NF == "total" { print $4 - ENV }' ENV="$ENV_CALLS" \
			"$RIG/strace"
}

instructions()
{
	env -i "$@" 2>&1 | awk '/Collected/ { n += $NF } END { print n }'
	rm -f "$RIG"/callgrind.*
}

# counted FUNCTION NAME [NAME=VALUE...] CMD...: bare and preloaded
counted()
{
	local what=$1 name=$2 a b

	shift 2
	a=$("$what" "$@")
	b=$("$what" LD_PRELOAD="$SHIM" DLOCK_CONFIG="$RIG/A.conf" "$@")
	row "$name, $what" "$a" "preloaded $b"
}

ENV_CALLS=0
ENV_CALLS=$(($(calls /bin/true) - $(strace -c /bin/true 2>&1 |
	awk '$NF == "total" { print $4 }')))
counted calls /bin/true /bin/true
counted calls 'flock f true, unmanaged' "$flock" "$RIG/f" /bin/true
counted calls 'flock f true, managed' "$flock" "$MNT/f" /bin/true
if command -v valgrind >/dev/null; then
	grind=(/usr/bin/valgrind --tool=callgrind --trace-children=yes
		--callgrind-out-file="$RIG/callgrind.%p")
	counted instructions /bin/true "${grind[@]}" /bin/true
	counted instructions 'flock f true, unmanaged' \
		"${grind[@]}" "$flock" "$RIG/f" /bin/true
	counted instructions 'flock f true, managed' \
		"${grind[@]}" "$flock" "$MNT/f" /bin/true
fi
