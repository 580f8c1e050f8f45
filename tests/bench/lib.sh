# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT
#
# What the groups of figures share.  A group is a script, run by run.sh or by
# itself: it prints rows for people and writes the same to
# build/bench/GROUP.jsonl, an object a line.
#
#  1. What is compared MUST run in turns, in the same run.
#  2. A figure that misses its aim is marked, and changes nothing in the exit
#     status (a busy machine is no defect); an error does.
#  3. What cannot be had here (a peer that cannot be installed) is a row, with
#     its reason.
#
#	param NAME FULL QUICK	a parameter: from the environment, or FULL, or
#				QUICK with BENCH=quick
#	bench_begin		the rig's two hosts, each with a disk
#	row [-a AIM] [-n NOTE] [-j JSON] NAME VALUE UNIT
#				AIM: '<= N' or '>= N'; JSON: an object, for
#				those who read the row by a program
#	missing NAME WHY
#	bench_end
set -u
. "${BASH_SOURCE[0]%/*}/../lib/rig.sh"

GROUP=$(basename "$0" .sh)
OUT_DIR=$BUILD/bench
OUT=$OUT_DIR/$GROUP.jsonl
SHIM=$BUILD/libdlock-preload.so
NODE_DIR=$OUT_DIR/node
ETCD=''
bench_failed=0
export LC_ALL=C.UTF-8

param()
{
	if [ -z "${!1-}" ]; then
		if [ "${BENCH-}" = quick ]; then
			printf -v "$1" %s "$3"
		else
			printf -v "$1" %s "$2"
		fi
	fi
}

bench_begin()
{
	mkdir -p "$OUT_DIR"
	: >"$OUT"
	rig_start disks
	rig_configs ttl=30s connect_timeout=2s timeout=5s
}

# Status 1 if anything went wrong, or a key was left behind.
bench_end()
{
	if ! until_true 2 db_is_empty; then
		error "keys are left: $(rr keys '*' | head -5)"
	fi
	exit "$bench_failed"
}

error()
{
	echo "bench: $GROUP: $*" >&2
	bench_failed=1
}

# --- rows -------------------------------------------------------------------

heading()
{
	printf '\n%s\n' "$*"
}

row()
{
	local aim='' note='' json='{}' line mark='' OPTIND=1 o

	while getopts a:n:j: o; do
		case $o in
		a) aim=$OPTARG ;;
		n) note=$OPTARG ;;
		j) json=$OPTARG ;;
		*) return 64 ;;
		esac
	done
	shift $((OPTIND - 1))
	# shellcheck disable=SC2016 # jq's
	line=$(jq -nc --arg group "$GROUP" --arg name "$1" --arg value "$2" \
		--arg unit "$3" --arg aim "$aim" --arg note "$note" \
		--argjson json "$json" '
		{ group: $group, name: $name, value: ($value | tonumber),
		  unit: $unit } +
		if $aim == "" then {} else ($aim / " ") as $a |
			{ aim: $aim, missed: (if $a[0] == "<="
				then ($value | tonumber) > ($a[1] | tonumber)
				else ($value | tonumber) < ($a[1] | tonumber)
				end) } end +
		if $note == "" then {} else { note: $note } end + $json') || {
		error "$1: '$2' is no figure"
		return
	}
	echo "$line" >>"$OUT"
	[[ $line != *'"missed":true'* ]] || mark=' MISSED'
	printf '  %-46s %10s %-10s%s\n' "$1" "$2" "$3" \
		"${aim:+ aim $aim$mark}${note:+ ($note)}"
}

missing()
{
	jq -nc --arg group "$GROUP" --arg name "$1" --arg why "$2" \
		'{ group: $group, name: $name, missing: $why }' >>"$OUT"
	printf '  %-46s %10s %-10s (%s)\n' "$1" missing '' "$2"
}

# us NS, ratio A B
us()
{
	awk -v ns="$1" 'BEGIN { printf "%.1f\n", ns / 1000 }'
}

ratio()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f\n", b ? a / b : 0 }'
}

# Of "NAME NS" lines, the median of NAME's.
middle()
{
	awk -v name="$2" '$1 == name { print $2 }' "$1" | sort -n |
		awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# --- processes -----------------------------------------------------------------

# CPU time of processes, in ticks of 10 ms (proc(5), utime and stime).
cpu_of()
{
	local pid n=0 rest f

	for pid; do
		rest=$(cat "/proc/$pid/stat" 2>/dev/null) || continue
		read -ra f <<<"${rest##*) }"
		n=$((n + f[11] + f[12]))
	done
	echo "$n"
}

# --- the server ---------------------------------------------------------------

# All that it counts.
server_info()
{
	rr info everything | tr -d '\r'
}

# A field of one that was kept in a file.
info_field()
{
	sed -n "s/^$2://p" "$1"
}

# grown FIELD BEFORE AFTER
grown()
{
	awk -v a="$(info_field "$2" "$1")" -v b="$(info_field "$3" "$1")" \
		'BEGIN { print b - a }'
}

# Calls of a command, between two, and the microseconds that it took.
command_grown()
{
	awk -F'[:,=]' -v name="cmdstat_$1" '
		$1 == name { calls[NR == FNR] = $3; usec[NR == FNR] = $5 }
		END { print calls[0] - calls[1], usec[0] - usec[1] }' "$2" "$3"
}

# Microseconds of CPU, between two.
redis_cpu()
{
	awk -v u="$(grown used_cpu_user "$1" "$2")" \
		-v s="$(grown used_cpu_sys "$1" "$2")" \
		'BEGIN { printf "%.0f\n", (u + s) * 1e6 }'
}

# --- peers --------------------------------------------------------------------

# node's peers, once; $NODE_WHY says why not.
node_ready()
{
	local said

	NODE_WHY=''
	[ -d "$NODE_DIR/node_modules/redlock" ] &&
		[ -d "$NODE_DIR/node_modules/ioredis" ] && return 0
	if ! command -v npm >/dev/null; then
		NODE_WHY='npm is not installed'
		return 1
	fi
	mkdir -p "$NODE_DIR"
	if ! said=$(timeout 60 npm install --prefix "$NODE_DIR" --no-save \
		--no-audit --no-fund --fetch-retries=1 \
		redlock@5.0.0-beta.2 ioredis@5.4.1 2>&1); then
		NODE_WHY="npm: $(grep -m1 -i 'err' <<<"$said")"
		rm -rf "$NODE_DIR"
		return 1
	fi
}

# node's peer: by_node VERB ARG...
by_node()
{
	# It finds what it imports beside itself.
	cp "$TOP/tests/bench/redlock.mjs" "$NODE_DIR/redlock.mjs"
	node "$NODE_DIR/redlock.mjs" "$@"
}

etcd_is_up()
{
	etcdctl --endpoints="$ETCD" endpoint health >/dev/null 2>&1
}

# An etcd of our own, on host A and its tmpfs; $ETCD, or $ETCD_WHY.
etcd_up()
{
	local port peer

	free_port 2
	port=$FREE
	if ! command -v etcd >/dev/null || ! command -v etcdctl >/dev/null; then
		ETCD_WHY='etcd is not installed'
		return 1
	fi
	peer=http://127.0.0.1:$((port + 1))
	ETCD=http://127.0.0.1:$port
	export ETCDCTL_API=3
	on A etcd --name bench --data-dir "$MNT/etcd" --log-level error \
		--listen-client-urls "$ETCD" --advertise-client-urls "$ETCD" \
		--listen-peer-urls "$peer" \
		--initial-advertise-peer-urls "$peer" \
		--initial-cluster "bench=$peer" >"$RIG/etcd.log" 2>&1 &
	disown $!
	until_true 10 etcd_is_up && return 0
	ETCD_WHY="etcd: $(tail -1 "$RIG/etcd.log")"
	return 1
}
