# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT
#
# Replicas of the rig's Redis, and Sentinels, which know its master as "rig".  The
# servers are numbered as a quorum's masters are (quorum.sh): 1 is the rig's own, m
# I COMMAND... speaks to one, master_stop, master_cont and master_kill do that.
#
#	replica_up I		server I begins as a replica of the rig's Redis
#	follows I		it has all of its master
#	sentinels_too		server 2, a replica, and three Sentinels: what
#				RIG_MODE=sentinel has
#	sentinels_up PORT [N]	Sentinels of the master at that port
#	s I COMMAND...		to Sentinel I, raw
#	each_sentinel COMMAND...	to each of them, raw
#	sentinel_names I	the port that it names the master by
#	failover		they are asked to make one, and have (as all see it):
#				the server that is the master then is $MASTER
#	failed_over I		server I is the master, by all Sentinels
#	demote			who was it before becomes its replica at last, which
#				takes 8 s else: so long there are two
#
# Sentinels ask each other, and tell, each 100 ms, and take a server for dead after
# $DOWN_MS, for which a busy machine is not to be enough: none fails over but who is
# asked to, or whose master is gone.  (Pings and INFO are each second: nobody is
# promoted who told of itself longer ago than five of the one, or three of the other
# where the master lives, and who is to be it is asked but once a second.)
declare -a SENTINEL_PID=() SENTINEL_PORT=()
MASTER=1 DOWN_MS=${DOWN_MS:-3000}

replica_up()
{
	m 1 config set repl-diskless-sync-delay 0 >/dev/null
	master_up "$1" --replicaof 127.0.0.1 "${2:-$PORT}" \
		--repl-diskless-sync-delay 0
	until_true 10 follows "$1" || rig_die "server $1 follows nobody"
}

info_of()
{
	m "$1" info | tr -d '\r' | sed -n "s/^$2://p"
}

follows()
{
	[ "$(info_of "$1" master_link_status)" = up ]
}

server_port()
{
	[ "$1" = 1 ] && echo "$PORT" || echo "${MASTER_PORT[$1]}"
}

s()
{
	redis-cli -p "${SENTINEL_PORT[$1]}" --raw "${@:2}" 2>/dev/null
}

each_sentinel()
{
	local i

	for i in "${!SENTINEL_PORT[@]}"; do
		s "$i" "$@" >/dev/null
	done
}

sentinel_names()
{
	s "$1" sentinel get-master-addr-by-name rig | sed -n 2p
}

sentinel_is_decided()
{
	[ -n "$(sentinel_names "$1")" ] || ! kill -0 "${SENTINEL_PID[$1]}" 2>/dev/null
}

# sentinel_up I PORT
sentinel_up()
{
	local i=$1 try

	for try in 1 2 3 4 5 6 7 8 9; do
		free_port
		SENTINEL_PORT[i]=$FREE
		cat >"$RIG/sentinel$i.conf" <<-END
		port ${SENTINEL_PORT[$i]}
		bind 127.0.0.1
		dir $RIG
		logfile $RIG/sentinel$i.log
		sentinel monitor rig 127.0.0.1 $2 2
		sentinel down-after-milliseconds rig $DOWN_MS
		sentinel failover-timeout rig 10000
		${SENTINEL_MORE-}
		END
		(
			tap_close_inherited
			exec nice -n -20 setpriv --pdeathsig KILL redis-server \
				"$RIG/sentinel$i.conf" --sentinel
		) >/dev/null 2>&1 &
		SENTINEL_PID[i]=$!
		disown "$!"
		until_true 5 sentinel_is_decided "$i"
		[ -z "$(sentinel_names "$i")" ] || break
		kill -KILL "${SENTINEL_PID[$i]}" 2>/dev/null
	done
	[ -n "$(sentinel_names "$i")" ] || rig_die "no Sentinel $i: see $RIG/sentinel$i.log"
	s "$i" sentinel debug info-period 1000 ask-period 100 \
		publish-period 100 tilt-period 1000 >/dev/null
}

# It knows the other Sentinels, and a replica.
sees()
{
	[ "$(s "$1" sentinel master rig | sed -n '/^num-other-sentinels$/{n;p}')" = \
		$((${#SENTINEL_PID[@]} - 1)) ] &&
		[ "$(s "$1" sentinel master rig | sed -n '/^num-slaves$/{n;p}')" -ge 1 ]
}

sentinels_up()
{
	local i

	for ((i = 1; i <= ${2:-3}; i++)); do
		sentinel_up "$i" "$1"
	done
	for ((i = 1; i <= ${2:-3}; i++)); do
		until_true 10 sees "$i" ||
			rig_die "Sentinel $i does not see the others"
	done
	publish_each 2000
}

sentinels_too()
{
	replica_up 2
	sentinels_up "$PORT"
}

sentinels_config()
{
	local i urls=''

	for i in "${!SENTINEL_PORT[@]}"; do
		urls+="${urls:+, }\"redis://127.0.0.1:${SENTINEL_PORT[$i]}/0\""
	done
	printf 'mode = "sentinel"\n    urls = { %s }\n    master = "rig"' "$urls"
}

failed_over()
{
	local i

	for i in "${!SENTINEL_PORT[@]}"; do
		[ "$(sentinel_names "$i")" = "$(server_port "$1")" ] || return 1
	done
	[ "$(info_of "$1" role)" = master ]
}

# (One that is not through is given up, or undone, by them, and asked for again.)
failover()
{
	local to=$((3 - MASTER)) try

	for try in 1 2 3 4; do
		until_true 10 asked_for_failover "$to"
		until_true 12 failover_is_over "$to"
		if failed_over "$to"; then
			MASTER=$to
			return
		fi
	done
	rig_die "server $to is no master"
}

# Sentinel 1 names who was the master, and makes no other one.
failover_is_off()
{
	local has

	has=$(s 1 sentinel master rig)
	[[ $has == *$'\nport\n'"$(server_port $((3 - $1)))"$'\n'* &&
		$has != *failover_in_progress* ]]
}

failover_is_over()
{
	failed_over "$1" || failover_is_off "$1"
}

# (Not if none of its replicas is good enough at the moment; and once it has another
# master, it would make the old one the master again.)
asked_for_failover()
{
	failed_over "$1" || {
		failover_is_off "$1" && [ "$(s 1 sentinel failover rig)" = OK ]
	}
}

is_demoted()
{
	[ "$(info_of "$1" role)" = slave ] && follows "$1"
}

# publish_each MS: in four of these a replica that says it is a master is made a
# replica again, by who has not heard of its failover.
publish_each()
{
	local i

	for i in "${!SENTINEL_PORT[@]}"; do
		s "$i" sentinel debug publish-period "$1" >/dev/null
	done
}

demote()
{
	publish_each 100
	until_true 15 is_demoted $((3 - MASTER)) ||
		rig_die "server $((3 - MASTER)) is no replica"
	publish_each 2000
}
