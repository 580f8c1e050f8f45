#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 150
#
# A master is cut off from its replicas, and lives: with one Sentinel and host A on
# its side, while the other two make a replica the master of host B, and the other
# one its replica.  With replicas = 1 no two hold a lock.  Without, the window is
# seen (control).
. "${0%/*}/../../lib/rig.sh"
# shellcheck source=tests/lib/survival.sh
. "$TOP/tests/lib/survival.sh"

TTL=4 DOWN_MS=3000

# Each side has a network, that of a process which does nothing.
declare -A NET
in_net()
{
	nsenter -t "${NET[$1]}" -n -- "${@:2}"
}

net_start()
{
	local pid

	setpriv --pdeathsig KILL unshare -n sleep 1000 &
	pid=$!
	disown "$pid"
	NET[$1]=$pid
	PEER_PID[net$1]=$pid
	until_true 5 has_net "$pid"
}

has_net()
{
	[ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]
}

nets_start()
{
	net_start A
	net_start B
	ip link add cut netns "${NET[A]}" type veth \
		peer name cut netns "${NET[B]}"
	net_up A 10.77.0.1
	net_up B 10.77.0.2
}

net_up()
{
	in_net "$1" ip address add "$2/24" dev cut
	in_net "$1" ip link set lo up
	in_net "$1" ip link set cut up
}

dl()
{
	local h=$1

	shift
	in_net "$h" nsenter -t "${INIT[$h]}" -m -p --wdns="$MNT" -- env \
		LD_PRELOAD="$BUILD/libdlock-preload.so" \
		DLOCK_CONFIG="$RIG/$h.conf" "$@"
}

# server I SIDE ADDRESS PORT [OPTION...]
server()
{
	local i=$1 side=$2 address=$3 port=$4

	shift 4
	in_net "$side" nice -n -20 setpriv --pdeathsig KILL redis-server --port "$port" \
		--bind "$address" 127.0.0.1 --protected-mode no --save '' \
		--unixsocket "$RIG/redis$i.sock" --repl-diskless-sync-delay 0 \
		--dir "$RIG" "$@" >"$RIG/redis$i.log" 2>&1 &
	PEER_PID[server$i]=$!
	disown "$!"
	until_true 5 master_answers "$i"
}

sentinel()
{
	local i=$1 side=$2 address=$3

	cat >"$RIG/sentinel$i.conf" <<-END
	port 2637$i
	bind $address
	protected-mode no
	dir $RIG
	logfile $RIG/sentinel$i.log
	unixsocket $RIG/redis1$i.sock
	sentinel monitor rig 10.77.0.1 6379 2
	sentinel down-after-milliseconds rig $DOWN_MS
	sentinel failover-timeout rig 10000
	END
	in_net "$side" nice -n -20 setpriv --pdeathsig KILL redis-server \
		"$RIG/sentinel$i.conf" --sentinel >/dev/null 2>&1 &
	PEER_PID[sentinel$i]=$!
	disown "$!"
	until_true 5 master_answers "1$i"
	m "1$i" sentinel debug info-period 1000 ask-period 100 \
		publish-period 100 tilt-period 1000 >/dev/null
}

sentinel_sees_all()
{
	[ "$(m "1$1" sentinel master rig |
		sed -n '/^num-other-sentinels$/{n;p}')" = 2 ] &&
		[ "$(m "1$1" sentinel master rig |
			sed -n '/^num-slaves$/{n;p}')" = 2 ]
}

# (As by the majority of them; an election may have no winner for long.)
is_promoted()
{
	m 12 sentinel failover rig >/dev/null
	[ "$(m 12 sentinel get-master-addr-by-name rig | head -n 1)" = 10.77.0.2 ]
}

is_old_enough()
{
	[ "$(info_of 2 uptime_in_seconds)" -gt $((TTL + 1)) ]
}

# players HOST: two survivors, for whom a lock is mostly held briefly
players()
{
	local kind

	for kind in ex range; do
		dl "$1" "$BIN/survivor" "$kind" "$RIG/$1-$kind.log" "$RIG/data" \
			"$RANDOM" 500 >/dev/null 2>>"$RIG/$1.said" &
		PEER_PID[$1$kind]=$!
		disown "$!"
	done
}

figures()
{
	/usr/bin/python3 "$TOP/tests/programs/check_intervals.py" "$RIG/data" "$@" 2>/dev/null
}

has_grants()
{
	read -r _ grants _ < <(figures "$RIG/$1"-*.log)
	[ "${grants:-0}" -gt "$2" ]
}

has_overlap()
{
	read -r _ _ _ overlaps _ < <(figures "$RIG"/?-*.log)
	[ "${overlaps:-0}" -ge 1 ]
}

both_lock()
{
	has_grants A 5 && has_grants B 5
}

# side_config HOST REPLICAS
side_config()
{
	rig_config "$1" ttl="${TTL}s" timeout=1s connect_timeout=600ms \
		restart_delay=${TTL}s redis_more="replicas = $2"
	sed -i "s|url = .*|mode = \"sentinel\"; urls = { $URLS }; master = \"rig\"|
		s/; /\n    /g" "$RIG/$1.conf"
}
URLS='"redis://10.77.0.1:26371", "redis://10.77.0.2:26372"'
URLS+=', "redis://10.77.0.2:26373"'

both_follow()
{
	follows 3 && follows 4
}

all_up()
{
	local i

	nets_start
	server 2 A 10.77.0.1 6379
	server 3 B 10.77.0.2 6379 --replicaof 10.77.0.1 6379
	server 4 B 10.77.0.2 6380 --replicaof 10.77.0.1 6379
	until_true 10 both_follow ||
		rig_die 'no replicas'
	sentinel 1 A 10.77.0.1
	sentinel 2 B 10.77.0.2
	sentinel 3 B 10.77.0.2
	for i in 1 2 3; do
		until_true 15 sentinel_sees_all "$i" || rig_die "Sentinel $i is alone"
	done
	until_true 10 is_old_enough
}

all_down()
{
	local p

	host_dead A
	host_dead B
	until_true 5 host_is_gone A
	until_true 5 host_is_gone B
	for p in "${!PEER_PID[@]}"; do
		kill -KILL "${PEER_PID[$p]}" 2>/dev/null
		unset "PEER_PID[$p]"
	done
	rm -f "$RIG"/redis?*.sock
}

# cut_off REPLICAS: what check_intervals.py says, in $overlaps and so on
cut_off()
{
	local before words began

	rm -f "$RIG"/?-*.log "$RIG/data"
	all_up
	side_config A "$1"
	side_config B "$1"
	players A
	players B
	ok "replicas = $1: both sides lock" until_true 10 both_lock
	in_net A ip link set cut down
	began=$(now)
	ok "replicas = $1: cut off, a replica is promoted" \
		until_true 20 is_promoted
	is "$(info_of 2 role)" master '... and it lives'
	has_grants B 0
	before=$grants
	ok '... B locks by the new one' until_true 20 has_grants B $((before + 5))
	note "after $((($(now) - began) / 1000000)) ms"
	if [ "$1" = 0 ]; then
		has_grants A 0
		ok '... and A by the old one' until_true 10 has_grants A \
			$((grants + 5))
		until_true 20 has_overlap
	fi
	all_down
	words=$(figures "$RIG"/?-*.log)
	note "$words"
	read -r _ grants _ overlaps _ broken _ lost _ <<<"$words"
}

rig_start disks
cut_off 1
is "$overlaps $broken $lost" '0 0 0' 'with a replica: never two holders'
host_new A disks
host_new B disks
cut_off 0
at_least "$overlaps" 1 'without: two holders are seen (control)'
done_testing
