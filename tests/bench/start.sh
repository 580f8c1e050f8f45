#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What the library costs where it has nothing to lock, and whole commands that
# lock a file, beside `etcdctl lock`.  Variants take turns.
. "${0%/*}/lib.sh"

param RUNS 300 10
param ETCD_RUNS 40 3
param CALLS 20000 2000

# --- no lock of ours ------------------------------------------------------------

unmanaged()
{
	local i a b

	heading 'A lock on a file that no rule manages'
	for i in 1 2 3 4 5; do
		on A "$BIN/bench_lock" calls "$RIG/unmanaged" "$CALLS" |
			sed 's/^/bare /'
		dl A "$BIN/bench_lock" calls "$RIG/unmanaged" "$CALLS" |
			sed 's/^/preloaded /'
	done >"$RIG/calls"
	a=$(middle "$RIG/calls" bare)
	b=$(middle "$RIG/calls" preloaded)
	row 'flock, bare' "$a" ns
	row 'flock, preloaded' "$b" ns
	row -a '<= 2000' 'flock, preloaded: more' $((b - a)) ns
}

# --- whole processes --------------------------------------------------------------

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
	mapfile -t ns < <(on A "$BIN/bench_start" "$runs" "${variants[@]}")
	if [ "${#ns[@]}" != "${#names[@]}" ]; then
		error "$title did not run"
		return
	fi
	for ((i = 0; i < ${#names[@]}; i++)); do
		row -n "$(ratio "${ns[i]}" "${ns[0]}") x" \
			"$title, ${names[i]}" "$(us "${ns[i]}")" us
	done
}

on_with="LD_PRELOAD=$SHIM DLOCK_CONFIG"
flock=/usr/bin/flock

# rules N: a configuration with N that concern nobody
rules()
{
	local i

	printf 'redis "main" {\n url = "redis://127.0.0.1:%d/0"\n}\n' "$PORT"
	for ((i = 0; i < $1; i++)); do
		printf 'path "/nowhere/%d/" {\n redis = "main"\n}\n' "$i"
	done
}

starts()
{
	heading 'Whole processes'
	rules 0 >"$RIG/0.conf"
	rules 20 >"$RIG/20.conf"
	started /bin/true "$RUNS" \
		bare '' \
		'an empty library' "LD_PRELOAD=$BIN/null.so" \
		'DLOCK_DISABLE=1' "$on_with=$RIG/A.conf DLOCK_DISABLE=1" \
		'preloaded, no rule' "$on_with=$RIG/0.conf" \
		'preloaded, 1 rule' "$on_with=$RIG/A.conf" \
		'preloaded, 20 rules' "$on_with=$RIG/20.conf"
	started 'python3 -c pass' $((RUNS / 10)) \
		bare '/usr/bin/python3 -c pass' \
		preloaded "$on_with=$RIG/A.conf /usr/bin/python3 -c pass"
	started 'flock f true' "$RUNS" \
		bare "$flock $MNT/f /bin/true" \
		'an unmanaged file' \
		"$on_with=$RIG/A.conf $flock $RIG/f /bin/true" \
		'a managed file' "$on_with=$RIG/A.conf $flock $MNT/f /bin/true"
}

commands()
{
	local etcdctl

	heading 'A command under a lock'
	if ! etcd_up; then
		missing 'etcdctl lock' "$ETCD_WHY"
		return
	fi
	etcdctl="/usr/bin/etcdctl --endpoints=$ETCD"
	started 'true' "$ETCD_RUNS" \
		'flock, bare' "$flock $MNT/f /bin/true" \
		'flock, dlock' "$on_with=$RIG/A.conf $flock $MNT/f /bin/true" \
		'etcdctl lock' "ETCDCTL_API=3 $etcdctl lock bench /bin/true"
}

# --- counts, which are the same on a busy machine ---------------------------------

# System calls, those of children and of a keeper too; env(1)'s are not.
# shellcheck disable=SC2317 # by name
calls()
{
	strace -f -c -o "$RIG/strace" env -i "$@" &&
		awk -v env="$ENV_CALLS" \
			'$NF == "total" { print $4 - env }' "$RIG/strace"
}

# shellcheck disable=SC2317
instructions()
{
	local words=()

	while [[ $1 == *=* ]]; do
		words+=("$1")
		shift
	done
	env -i "${words[@]}" valgrind --tool=callgrind --trace-children=yes \
		--callgrind-out-file=/dev/null "$@" 2>&1 |
		awk '/Collected/ { n += $NF } END { print n }'
}

# counted FUNCTION NAME CMD...: bare and preloaded
counted()
{
	local what=$1 name=$2

	shift 2
	row "$name, $what, bare" "$("$what" "$@")" ''
	row "$name, $what, preloaded" "$("$what" LD_PRELOAD="$SHIM" \
		DLOCK_CONFIG="$RIG/A.conf" "$@")" ''
}

counts()
{
	local what

	heading 'Counts of whole processes, keeper included'
	ENV_CALLS=0
	ENV_CALLS=$(($(calls /bin/true) - $(strace -c /bin/true 2>&1 |
		awk '$NF == "total" { print $4 }')))
	for what in calls instructions; do
		if [ "$what" = instructions ] &&
		   ! command -v valgrind >/dev/null; then
			missing instructions 'valgrind is not installed'
			continue
		fi
		counted "$what" /bin/true /bin/true
		counted "$what" 'flock f true, unmanaged' \
			"$flock" "$RIG/f" /bin/true
		counted "$what" 'flock f true, managed' \
			"$flock" "$MNT/f" /bin/true
	done
}

bench_begin
unmanaged
starts
commands
counts
bench_end
