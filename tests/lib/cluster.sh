# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT
#
# A Redis Cluster, for rig.sh with RIG_MODE=cluster: nodes 1 to 3 are masters, each
# of a third of the slots, and 4 to 6 their replicas.  Node 1 is the rig's Redis, at
# $RIG/redis.sock; each is at $RIG/redisI.sock, too, as m, master_kill,
# master_stop and so on of quorum.sh want it, and at 127.0.0.1:${MASTER_PORT[I]}.
#
#	cluster_r COMMAND...	of a key: to whoever has it; else to all masters
#	slot_of KEY, key_of FILE
#	owner_of SLOT		the node that has it: I
#	node_id I
#	slot_opens SLOT I	it is to move to node I, and nothing has yet
#	slot_stays SLOT		it is not to move
#	slot_move SLOT I [MS]	to node I, as redis-cli --cluster reshard does: with
#				a pause before each step; it fails if that takes
#				60 s, as to a node that is no master
#	is_master I
# Nodes fail over after NODE_TIMEOUT ms, and begin with the options of NODE_MORE.
NODE_TIMEOUT=${NODE_TIMEOUT:-700}
declare -a LOADERS=() NODE_MORE+=()

node_id()
{
	printf '%040x' "$1"
}

# The ports of this try: those of the nodes, and of their bus.
cluster_ports()
{
	local base i

	free_port 27
	base=$FREE
	for ((i = 1; i <= N_MASTERS; i++)); do
		MASTER_PORT[i]=$((base + i))
		BUS_PORT[i]=$((base + i + 20))
	done
	PORT=${MASTER_PORT[1]}
}

# What node I knows when it begins: all, as if it had been told already.
cluster_nodes()
{
	local me=$1 i role slots=(0 0-5460 5461-10922 10923-16383)

	for ((i = 1; i <= N_MASTERS; i++)); do
		role='master -'
		[ "$i" -le 3 ] || role="slave $(node_id $((i - 3)))"
		[ "$i" != "$me" ] || role=myself,$role
		printf '%s 127.0.0.1:%d@%d %s 0 0 %d connected %s\n' \
			"$(node_id "$i")" "${MASTER_PORT[i]}" "${BUS_PORT[i]}" \
			"$role" "$(((i - 1) % 3 + 1))" "${slots[i]-}"
	done
	echo 'vars currentEpoch 6 lastVoteEpoch 0'
}

# node_up I: begins, or again, with the memory that it has on disk
node_up()
{
	local i=$1

	redis_start "${MASTER_PORT[i]}" "$(master_sock "$i")" \
		"$RIG/redis$i.log" --cluster-enabled yes \
		--cluster-config-file "nodes$i.conf" \
		--dbfilename "dump$i.rdb" \
		--cluster-port "${BUS_PORT[i]}" \
		--cluster-node-timeout "$NODE_TIMEOUT" \
		--cluster-allow-replica-migration no \
		--repl-diskless-sync-delay 0 "${NODE_MORE[@]}"
	MASTER_PID[i]=$STARTED
	[ "$i" != 1 ] || REDIS_PID=$STARTED
}

node_is_ready()
{
	m "$1" cluster info | grep -q '^cluster_state:ok' &&
		[ "$(m "$1" ping)" = PONG ]
}

replica_follows()
{
	m "$1" info replication | grep -q '^master_link_status:up'
}

# (Of several, kill succeeds if it does of one.)
all_nodes_live()
{
	local pid

	for pid in "${MASTER_PID[@]}"; do
		kill -0 "$pid" 2>/dev/null || return 1
	done
}

cluster_is_ready()
{
	local i

	all_nodes_live || return 1
	for ((i = 1; i <= N_MASTERS; i++)); do
		node_is_ready "$i" || return 1
		[ "$i" -le 3 ] || replica_follows "$i" || return 1
	done
}

# Or never will be: a port is taken.
cluster_is_decided()
{
	! all_nodes_live || cluster_is_ready
}

cluster_up()
{
	local try i pid

	for try in 1 2 3 4 5; do
		cluster_ports
		for ((i = 1; i <= N_MASTERS; i++)); do
			cluster_nodes "$i" >"$RIG/nodes$i.conf"
			node_up "$i"
		done
		until_true 15 cluster_is_decided
		! cluster_is_ready || return 0
		for pid in "${MASTER_PID[@]}"; do
			kill -KILL "$pid" 2>/dev/null
		done
	done
	rig_die "no cluster after $try attempts: see $RIG/redis1.log"
}

is_master()
{
	[ "$(m "$1" role | head -n 1)" = master ]
}

cluster_r()
{
	local i format=$1

	shift
	case ${1,,} in
	-n)
		shift 2
		cluster_r "$format" "$@"
		return
		;;
	ping)
		redis-cli -s "$RIG/redis.sock" "$format" "$@" ;;
	dbsize)
		for ((i = 1; i <= N_MASTERS; i++)); do
			! is_master "$i" || m "$i" dbsize
		done | add_up
		;;
	--scan | keys | flushall | flushdb | script | config | info | client | acl)
		for ((i = 1; i <= N_MASTERS; i++)); do
			! is_master "$i" ||
				redis-cli -s "$(master_sock "$i")" "$format" "$@"
		done
		;;
	*)
		for ((i = 1; i <= N_MASTERS; i++)); do
			! master_answers "$i" || break
		done
		redis-cli -c -p "${MASTER_PORT[i]}" "$format" "$@"
		;;
	esac
}

key_of()
{
	echo "dlock:$MNT/$1"
}

slot_of()
{
	rr cluster keyslot "$1"
}

# The first of the nodes who says that it has it itself.
owner_of()
{
	local i

	for ((i = 1; i <= N_MASTERS; i++)); do
		m "$i" cluster nodes | grep myself,master | cut -d' ' -f9- |
			tr ' ' '\n' | grep -v '\[' | awk -F- -v s="$1" '
			NF && s >= $1 && s <= ($2 == "" ? $1 : $2) { f = 1 }
			END { exit !f }' && echo "$i" && return
	done
	return 1
}

slot_opens()
{
	local from

	from=$(owner_of "$1") || return
	m "$2" cluster setslot "$1" importing "$(node_id "$from")" >/dev/null
	m "$from" cluster setslot "$1" migrating "$(node_id "$2")" >/dev/null
}

slot_stays()
{
	local i

	for ((i = 1; i <= N_MASTERS; i++)); do
		! is_master "$i" || m "$i" cluster setslot "$1" stable >/dev/null
	done
}

slot_move()
{
	local slot=$1 to=$2 ms=${3:-0} end=$((SECONDS + 60)) from i keys

	from=$(owner_of "$slot") || return
	[ "$from" != "$to" ] || return 0
	slot_opens "$slot" "$to"
	while sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))" &&
		mapfile -t keys < <(m "$from" cluster getkeysinslot "$slot" 3) &&
		[ -n "${keys-}" ]; do
		[ "$SECONDS" -lt "$end" ] || {
			diag "slot $slot does not move to node $to"
			return 1
		}
		m "$from" migrate 127.0.0.1 "${MASTER_PORT[to]}" '' 0 5000 \
			replace keys "${keys[@]}" >/dev/null
	done
	m "$to" cluster setslot "$slot" node "$(node_id "$to")" >/dev/null
	for ((i = 1; i <= N_MASTERS; i++)); do
		! is_master "$i" || m "$i" cluster setslot "$slot" node \
			"$(node_id "$to")" >/dev/null
	done
}

# --- under load -------------------------------------------------------------

# load_begin LIBRARY: survivors (survivor.c) on both hosts, in $LOAD; their log is
# at $LOAD/dlock.log.
load_begin()
{
	local host kind i=0

	LOAD=$(mktemp -d "$RIG/load.XXXXXX")
	: >"$LOAD/dlock.log"
	for host in A B; do
		for kind in ex mixed range; do
			i=$((i + 1))
			(
				tap_close_inherited # (the input of peers)
				on "$host" env LD_PRELOAD="$1" \
					DLOCK_CONFIG="$RIG/$host.conf" \
					DLOCK_LOG="warning:$LOAD/dlock.log" \
					"$BIN/survivor" "$kind" "$LOAD/$i.log" \
					"$LOAD/data" "$((RANDOM + i))" 20
			) >>"$LOAD/out" 2>&1 &
			LOADERS[i]=$!
			disown $!
		done
	done
	until_true 10 has_grants 20 || rig_die "no load: $(cat "$LOAD/out")"
}

# The intervals so far: $grants, $overlaps, $broken, $lost, $errors.
load_read()
{
	local words

	words=$(/usr/bin/python3 "$TOP/tests/programs/check_intervals.py" \
		"$LOAD/data" "$LOAD"/[0-9]*.log 2>/dev/null)
	[ -z "${1-}" ] || note "$words"
	read -r _ grants _ overlaps _ broken _ lost _ errors <<<"$words"
}

has_grants()
{
	load_read
	[ "${grants:-0}" -ge "$1" ]
}

# More than there were: the load goes on.
load_goes_on()
{
	load_read
	until_true 20 has_grants $((grants + ${1:-30}))
}

has_overlap()
{
	load_read
	[ "${overlaps:-0}" -ge 1 ]
}

# sees_two SECONDS: the load under the null shim, as a control, until two are seen
sees_two()
{
	load_begin "$BIN/null.so"
	until_true "$1" has_overlap
	load_end
	at_least "$overlaps" 1 'the null shim: two holders are seen (control)'
}

survivors()
{
	on "$1" pgrep -x survivor
}

# load_end: they are stopped, and judged: as load_read, and $died, how many had
# ended before.
load_end()
{
	local host pid

	# (By who started them: a child that is to become a keeper has their name.)
	died=0
	for pid in "${LOADERS[@]}"; do
		kill -0 "$pid" 2>/dev/null || died=$((died + 1))
	done
	for host in A B; do
		for pid in $(survivors "$host"); do
			on "$host" kill -KILL "$pid"
		done
	done
	LOADERS=()
	load_read say
	note "$(/usr/bin/python3 "$TOP/tests/programs/longest_wait.py" \
		"$LOAD"/[0-9]*.log) ms (that nobody had l0, l1, l2, bytes of r)"
}
