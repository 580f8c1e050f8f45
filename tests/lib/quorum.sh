# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT
#
# Masters of a quorum, for rig.sh with RIG_MODE=quorum: 1 is the rig's Redis, the
# others are at $RIG/redis2.sock, ... and 127.0.0.1:${MASTER_PORT[I]}.
#
#	m I COMMAND...		to a master, raw
#	master_up I [OPTION...]	start it (again), empty
#	master_kill I		it is dead
#	master_stop I, master_cont I
#	votes FILE		how many masters have one and the same lease of
#				$MNT/FILE (flock, exclusive)
case ${RIG_MODE-} in
cluster)
	N_MASTERS=6 ;;
quorum)
	N_MASTERS=${N_MASTERS:-3} ;;
*)
	N_MASTERS=1 ;;
esac
declare -a MASTER_PID=() MASTER_PORT=() BUS_PORT=()

master_sock()
{
	[ "$1" = 1 ] && echo "$RIG/redis.sock" || echo "$RIG/redis$1.sock"
}

m()
{
	local i=$1

	shift
	redis-cli -s "$(master_sock "$i")" --raw "$@" 2>/dev/null
}

# To all but the first one.
masters_too()
{
	local i

	for ((i = 2; i <= N_MASTERS; i++)); do
		m "$i" "$@" >/dev/null
	done
}

master_pid()
{
	[ "$1" = 1 ] && echo "$REDIS_PID" || echo "${MASTER_PID[$1]}"
}

master_answers()
{
	[ "$(m "$1" ping)" = PONG ]
}

master_is_decided()
{
	master_answers "$1" || ! kill -0 "${MASTER_PID[$1]}" 2>/dev/null
}

master_up()
{
	local i=$1 try port

	shift
	if [ "$i" = 1 ]; then
		redis_up "$@"
		return
	fi
	for try in 1 2 3 4 5 6 7 8 9; do
		free_port
		port=${MASTER_PORT[$i]:-$FREE}
		redis_start "$port" "$RIG/redis$i.sock" "$RIG/redis$i.log" "$@"
		MASTER_PID[i]=$STARTED
		until_true 5 master_is_decided "$i"
		if master_answers "$i"; then
			MASTER_PORT[i]=$port
			return 0
		fi
		kill -KILL "${MASTER_PID[$i]}" 2>/dev/null
	done
	rig_die "no master $i after $try attempts: see $RIG/redis$i.log"
}

masters_up()
{
	local i

	for ((i = 2; i <= N_MASTERS; i++)); do
		master_up "$i"
	done
}

master_is_gone()
{
	! kill -0 "$(master_pid "$1")" 2>/dev/null
}

master_kill()
{
	kill -KILL "$(master_pid "$1")" 2>/dev/null
	until_true 5 master_is_gone "$1"
	rm -f "$(master_sock "$1")"
}

master_is_stopped()
{
	[[ $(cat "/proc/$(master_pid "$1")/stat") == *') T '* ]]
}

master_stop()
{
	kill -STOP "$(master_pid "$1")"
	until_true 5 master_is_stopped "$1"
}

master_cont()
{
	kill -CONT "$(master_pid "$1")"
}

# masters_config URL: the lines of a redis section, the first master's URL first;
# the others are for the same user
masters_config()
{
	local i urls="\"$1\"" last=$N_MASTERS login=''

	[ "$RIG_MODE" != cluster ] || last=3
	[[ $1 != *@* ]] || { login=${1%@*}@ && login=${login#redis://}; }
	for ((i = 2; i <= last; i++)); do
		urls+=", \"redis://${login}127.0.0.1:${MASTER_PORT[$i]}/0\""
	done
	printf 'mode = "%s"\n    urls = { %s }' "$RIG_MODE" "$urls"
}

votes()
{
	local i

	for ((i = 1; i <= N_MASTERS; i++)); do
		m "$i" get "dlock:$MNT/$1"
	done | grep . | sort | uniq -c | sort -n | tail -n 1 |
		awk '{ n = $1 } END { print n + 0 }'
}

has_votes()
{
	[ "$(votes "$1")" = "$2" ]
}

# masters_are_old SECONDS: for a young one grants nothing
masters_are_old()
{
	local i up

	for ((i = 1; i <= N_MASTERS; i++)); do
		up=$(m "$i" info server | sed -n 's/^uptime_in_seconds:\([0-9]*\).*/\1/p')
		[ "$up" -ge "$1" ] || return 1
	done
}
