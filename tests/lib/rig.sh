# shellcheck shell=bash disable=SC2034,SC2119,SC2120
# SPDX-License-Identifier: MIT
#
# The rig: two hosts, A and B, on one machine, and a Redis (DESIGN section 8).
#
#	. tests/lib/rig.sh
#	rig_start disks|share
#	on A CMD...		on host A, bare
#	null A CMD...		the same under the null shim
#	dl A CMD...		the same under dlock
#	...
#	rig_end			asserts that no key is left, then the plan
#
# A host has a mount and a pid namespace of its own.  `disks`: $MNT is a tmpfs
# of each host.  `share`: $MNT is a bindfs mount of one directory on each:
# data is shared, kernel locks are not.  Redis is at $RIG/redis.sock and at
# 127.0.0.1:$PORT, without persistence, and its `r` is redis-cli.
#
# To run a whole test otherwise: RIG_KIND=share|disks; RIG_LOCAL=shadow as the
# rule's `local`, with a state_dir of each host; RIG_MODE=quorum, with three
# masters, of which the test's Redis is the first one (tests/lib/quorum.sh);
# RIG_MODE=cluster, with a Redis Cluster (tests/lib/cluster.sh).
# RIG_MODE=sentinel, with a replica and three Sentinels (tests/lib/sentinel.sh).
#
# What the rig guarantees:
#  1. Nothing MUST outlive the test: each host's process 1 and Redis are
#     killed with the script (at exit, or by the kernel: PR_SET_PDEATHSIG),
#     mounts end with their namespace, and $RIG is removed.
#  2. Processes MUST meet at checkpoints, never at sleeps.
#  3. A test of exclusion MUST be shown to see: three_ways.
#
# Checkpoints are fifos that the script keeps open, so that a mark waits for
# its reader:	cp_new NAME; cp_reach NAME [TEXT]; cp_wait NAME [SECONDS]
# (sets $CP); in a job: echo TEXT >$RIG/cp/NAME, read x <$RIG/cp/NAME.
#
# Peers are programs that are told what to do, a line each, and answer with
# one:	peer NAME CMD...; say NAME LINE; hear NAME [SECONDS] (sets $HEARD);
#	peer_end NAME..., which waits until they have ended;
# ask NAME LINE [SECONDS].  Their standard error is $RIG/NAME.err.
#
# A locker (tests/programs/locker.c) answers 'RESULT START END': locker NAME
# on|null|dl HOST; after ask or hear, $RESULT, $START and $END.
TOP=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
BUILD=$TOP/build
BIN=$BUILD/tests
SHIM=$BUILD/libdlock-preload.so NULL=$BIN/null.so
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"

# shellcheck source=tests/lib/ports.sh
. "$TOP/tests/lib/ports.sh"
# shellcheck source=tests/lib/quorum.sh
. "$TOP/tests/lib/quorum.sh"
# shellcheck source=tests/lib/cluster.sh
. "$TOP/tests/lib/cluster.sh"
# shellcheck source=tests/lib/sentinel.sh
. "$TOP/tests/lib/sentinel.sh"
# shellcheck source=tests/lib/i386.sh
. "$TOP/tests/lib/i386.sh"

declare -A INIT UNSHARE CP_FD PEER_IN PEER_OUT PEER_PID
RIG='' MNT='' PORT='' REDIS_PID=''
HEARD='' HEARD_LINE='' CP='' RESULT='' START='' END=''

# The script ends without its plan, and so is counted as one that died; no
# "Bail out!", which would end all the others as well (prove(1)).
rig_die()
{
	diag "$*"
	exit 1
}

# pause MS: looks that follow each other leave the cores to those they look at.  No
# process is made for it: sleep(1) costs as much as most looks.
pause()
{
	local s

	[ -p "$RIG/never" ] || mkfifo "$RIG/never" 2>/dev/null
	printf -v s '0.%03d' "$1"
	IFS= read -r -t "$s" _ <>"$RIG/never" || :
}

# Until COMMAND succeeds, at most SECONDS, and as long again as somebody waited
# for a core meanwhile, but four times at most; for states of which nobody tells.
# What comes late is looked at less often.
until_true()
{
	local end=$((SECONDS + $1 + 1)) last=$((SECONDS + 5 * $1 + 1)) was looks=0

	shift
	tap_stalled
	was=$TAP_STALLED
	until "$@"; do
		if [ "$SECONDS" -ge "$end" ]; then
			tap_stalled
			[ "$SECONDS" -lt "$last" ] &&
				[ $((SECONDS - end)) -lt \
				$(((TAP_STALLED - was) / 1000000)) ] || return 1
		fi
		looks=$((looks + 1))
		pause $((looks < 30 ? 10 : looks < 60 ? 20 : 40))
	done
}

# throughout MS N COMMAND...: it succeeds all that time, and N times at least; a
# gap that one of its looks would miss is shorter than they are apart.
throughout()
{
	local end=$((${EPOCHREALTIME/[.,]/} + $1 * 1000)) n=$2 looks=0

	shift 2
	until [ "$looks" -ge "$n" ] && [ "${EPOCHREALTIME/[.,]/}" -ge "$end" ]; do
		"$@" || return 1
		looks=$((looks + 1))
		pause 20
	done
	note "$looks looks"
}

# read_line FD SECONDS: in $HEARD_LINE, without blanks at its ends.  When the time
# is up, a part of it has perhaps been read already.
declare -A READ_PART=()
read_line()
{
	local part status=0

	IFS= read -r -t "$2" -u "$1" part || status=$?
	HEARD_LINE=${READ_PART[$1]-}$part
	READ_PART[$1]=
	[ "$status" != 0 ] || { read -r HEARD_LINE <<<"$HEARD_LINE"; return 0; }
	[ "$status" -le 128 ] || READ_PART[$1]=$HEARD_LINE
	HEARD_LINE=
	return "$status"
}

# next_line FD SECONDS: in $HEARD_LINE.  Where it is to come, which is where it is
# given 2 s or more, it is given four times as much on a busy machine.
next_line()
{
	local was

	tap_stalled
	was=$TAP_STALLED
	read_line "$1" "$2" && return
	[[ $2 =~ ^([2-9]|[1-9][0-9]+)$ ]] || return
	tap_stalled
	[ $((TAP_STALLED - was)) -gt $(($2 * 500000)) ] || return
	read_line "$1" $((4 * $2))
}

now()
{
	"$BIN/now"
}

# taken SECONDS: the moment so long ago, as tokens have it.  No lock is older than
# the machine is up: on one that was just made it is waited for.
taken()
{
	until_true "$1" is_up_for "$1"
	printf '%020d' $(($(now) - $1 * 1000000000))
}

is_up_for()
{
	[ "$(now)" -gt $(($1 * 1000000000)) ]
}

# --- Redis ----------------------------------------------------------------

# Of several masters all are told it, and the first one answers.
r()
{
	if [ "${RIG_MODE-}" = cluster ]; then
		cluster_r --no-raw "$@" 2>&1
		return
	fi
	masters_too "$@"
	redis-cli -s "$RIG/redis.sock" --no-raw "$@" 2>&1
}

# The bare text, for values.
rr()
{
	if [ "${RIG_MODE-}" = cluster ]; then
		cluster_r --raw "$@" 2>/dev/null
		return
	fi
	masters_too "$@"
	redis-cli -s "$RIG/redis.sock" --raw "$@" 2>/dev/null
}

redis_is_up()
{
	[ "$(rr ping)" = PONG ] || [[ $(rr ping) == NOAUTH* ]]
}

# Up, or gone again because the port is taken.
redis_is_decided()
{
	redis_is_up || ! kill -0 "$REDIS_PID" 2>/dev/null
}

# redis_start PORT SOCKET LOG [OPTION...]: begins one, in $RIG; its number is
# $STARTED.  By the command of $SERVER_BY, if there is one.  A server has a machine
# of its own: who has a core for long on this one is not on that.  (No real-time
# priority: a script that never ends would have a core for itself.)
redis_start()
{
	local port=$1 socket=$2 log=$3

	shift 3
	(
		# A peer's end would be its own, too.
		tap_close_inherited
		# shellcheck disable=SC2086 # words
		exec ${SERVER_BY-} nice -n -20 setpriv --pdeathsig KILL redis-server \
			--bind 127.0.0.1 --port "$port" --unixsocket "$socket" \
			--dir "$RIG" --save '' --appendonly no --logfile "$log" \
			--daemonize no "$@"
	) >/dev/null 2>&1 &
	STARTED=$!
	disown "$STARTED"
}

# redis_up [OPTION...]: on $PORT if it has one already.
redis_up()
{
	local try port

	for try in 1 2 3 4 5 6 7 8 9; do
		free_port
		port=${PORT:-$FREE}
		redis_start "$port" "$RIG/redis.sock" "$RIG/redis.log" "$@"
		REDIS_PID=$STARTED
		until_true 5 redis_is_decided
		if kill -0 "$REDIS_PID" 2>/dev/null && redis_is_up; then
			PORT=$port
			return 0
		fi
		kill -KILL "$REDIS_PID" 2>/dev/null
	done
	rig_die "no redis-server after $try attempts: see $RIG/redis.log"
}

redis_is_gone()
{
	! kill -0 "$REDIS_PID" 2>/dev/null
}

redis_kill()
{
	kill -KILL "$REDIS_PID" 2>/dev/null
	until_true 5 redis_is_gone
	rm -f "$RIG/redis.sock"
}

# --- hosts ----------------------------------------------------------------

host_start()
{
	local h=$1

	[ -p "$RIG/$h.up" ] || mkfifo "$RIG/$h.up"
	setpriv --pdeathsig KILL unshare -m -p -f --kill-child=KILL \
		--mount-proc --propagation private "$BIN/host_init" \
		>"$RIG/$h.up" 2>"$RIG/$h.unshare" &
	UNSHARE[$h]=$!
	disown $!
	# For both ways: the end of one that is dying is not read as this one's.
	read -r -t 60 _ <>"$RIG/$h.up" ||
		rig_die "host $h: $(cat "$RIG/$h.unshare")"
	read -r "INIT[$h]" _ <"/proc/${UNSHARE[$h]}/task/${UNSHARE[$h]}/children"
}

# host_plain HOST: a disk of its own, and no pid namespace: where this machine's is
# the first one, /proc/locks shows the locks of the dead as well.
host_plain()
{
	mkfifo "$RIG/$1.up"
	# shellcheck disable=SC2016 # its own
	setpriv --pdeathsig KILL unshare -m --propagation private sh -c \
		'mount -t tmpfs "host-$0" "$1" && exec "$2"' \
		"$1" "$MNT" "$BIN/host_init" >"$RIG/$1.up" &
	INIT[$1]=$!
	disown $!
	read -r -t 60 _ <>"$RIG/$1.up" || rig_die "no plain host $1"
}

# The host's file system at $MNT.
host_mount()
{
	if [ "$2" = share ]; then
		nsenter -t "${INIT[$1]}" -m -p bindfs -o \
			attr_timeout=0,entry_timeout=0,negative_timeout=0 \
			-o subtype=bindfs "$RIG/share" "$MNT"
	else
		nsenter -t "${INIT[$1]}" -m -p \
			mount -t tmpfs "host-$1" "$MNT"
	fi || rig_die "host $1: no $2 at $MNT"
}

# share_at HOST DIR [OPTION...]: $RIG/share at DIR of the host as well, by
# bindfs with these options; without any, with its default timeouts.
share_at()
{
	local h=$1 dir=$2

	shift 2
	on "$h" mkdir -p "$dir"
	on "$h" bindfs -o subtype=bindfs "$@" "$RIG/share" "$dir" ||
		rig_die "host $h: no share at $dir"
}

host_is_gone()
{
	! kill -0 "${INIT[$1]}" 2>/dev/null
}

# A power cut.
host_dead()
{
	kill -KILL "${INIT[$1]}" 2>/dev/null
}

# host_new HOST disks|share: (again) after host_dead
host_new()
{
	host_start "$1"
	host_mount "$1" "$2"
}

on()
{
	local h=$1

	shift
	"$BIN/in_host" "${INIT[$h]}" "$MNT" "$@"
}

# pids_of HOST ARGUMENT... (of pgrep): its processes, by their numbers here
pids_of()
{
	local h=$1

	shift
	pgrep --ns "${INIT[$h]}" --nslist pid "$@"
}

null()
{
	local h=$1

	shift
	on "$h" env LD_PRELOAD="$NULL" "$@"
}

dl()
{
	local h=$1

	shift
	on "$h" env LD_PRELOAD="$SHIM" DLOCK_CONFIG="$RIG/$h.conf" "$@"
}

# section NAME: of a configuration, by the caller's variables
section()
{
	cat <<-END
	redis "$1" {
	    $where
	    connect_timeout = "$connect_timeout"
	    restart_delay = "$restart_delay"
	    $redis_more
	}
	path "$prefix" {
	    redis = "$1"
	    ttl = "$ttl"
	    timeout = "$timeout"
	    $path_more
	}
	END
}

# rig_config HOST [NAME=VALUE...]: its configuration; NAME is url, ttl,
# timeout, connect_timeout, restart_delay, prefix, redis_more or path_more
# (lines of text).  dlock wants ttl >= 6 x connect_timeout.
rig_config()
{
	local h=$1 setting
	local url="redis://127.0.0.1:$PORT/0" ttl=5s timeout=10s
	local connect_timeout=500ms restart_delay=0s prefix=$MNT/
	local redis_more='' path_more='' where

	shift
	for setting; do
		local "${setting?}"
	done
	where="url = \"$url\""
	case ${RIG_MODE-} in
	quorum | cluster) where=$(masters_config "$url") ;;
	sentinel) where=$(sentinels_config "$url") ;;
	esac
	{
		echo "host_id = \"$h\""
		section main
	} >"$RIG/$h.conf.new"
	if [ -n "${RIG_LOCAL-}" ]; then
		sed -i "s/^path .*/&\n    local = \"$RIG_LOCAL\"/" \
			"$RIG/$h.conf.new"
		echo "state_dir = \"$RIG/state.$h\"" >>"$RIG/$h.conf.new"
	fi
	mv "$RIG/$h.conf.new" "$RIG/$h.conf"
}

# rig_also HOST SECTION PREFIX [NAME=VALUE...]: and what is there is kept at another
# server (a single one).
rig_also()
{
	local h=$1 name=$2 prefix=$3 setting where
	local url="redis://127.0.0.1:$PORT/0" ttl=5s timeout=10s
	local connect_timeout=500ms restart_delay=0s redis_more='' path_more=''

	shift 3
	for setting; do
		local "${setting?}"
	done
	where="url = \"$url\""
	section "$name" >>"$RIG/$h.conf"
}

rig_configs()
{
	rig_config A "$@"
	rig_config B "$@"
}

# --- what is at Redis, and who carries it ----------------------------------

# The exclusive flock lease of $MNT/FILE; nothing if it has none.
token_of()
{
	rr get "dlock:$MNT/$1"
}

lease_is_gone()
{
	[ -z "$(token_of "$1")" ]
}

# stat_of SECTION NAME: a number of Redis' info (of a cluster's masters, the sum);
# of a command, its calls
stat_of()
{
	rr info "$1" | sed -n "s/^$2:\\(calls=\\)\\{0,1\\}\\([0-9]*\\).*/\\2/p" |
		add_up
}

# The sum of numbers, a line each; nothing if there is none.
add_up()
{
	awk 'NF { n += $1; any = 1 } END { if (any) print n }'
}

# The words of dlock.conf(5) that make its user at Redis.
manual_acl()
{
	sed -n '/^ACL SETUSER/,/^\.Ed/{p; /^\.Ed/q}' "$TOP/config/dlock.conf.5" |
		grep -v '^\.Ed' | tr -d '\\\n' | sed 's/&&/\&/g'
}

# How often a script was called: what asks for leases and releases them.
scripts_called()
{
	stat_of commandstats cmdstat_evalsha
}

# redis_is_old SECONDS: for a restarted server grants nothing while it is young
redis_is_old()
{
	masters_are_old "$1"
}

# The pids of the host's keepers; and with those of their standbys.  (What a keeper
# has forked just now, a standby or a watchdog, has its name for a moment.)
keepers()
{
	on "$1" ps -C dlock-keeper -o pid=,ppid= | awk '
		{ pid[NR] = $1; parent[$1] = $2 }
		END {
			for (i = 1; i <= NR; i++)
				if (!(parent[pid[i]] in parent) && ++n)
					print pid[i]
			exit !n
		}'
}

all_keepers()
{
	on "$1" pgrep -x 'dlock-[ks].*'
}

# Host A has a keeper that is not $KEEPER.
has_another()
{
	pids_of A -x dlock-keeper | grep -qvx "$KEEPER"
}

no_keeper()
{
	! all_keepers "$1" >/dev/null
}

# Each of N keepers has a standby.
have_standbys()
{
	[ "$(keepers "$1" | wc -l)" = "$2" ] &&
		[ "$(on "$1" pgrep -xc dlock-standby)" = "$2" ]
}

# are_carried N: keepers say in $RIG/log that they have taken as many leases
are_carried()
{
	[ "$(grep -c ' is carried on: ' "$RIG/log")" -ge "$1" ]
}

# pid_is_gone_on HOST PID
pid_is_gone_on()
{
	! on "$1" kill -0 "$2" 2>/dev/null
}

# Host A has its process 1, and no other.
host_is_idle()
{
	[ "$(pids_of A -c)" = 1 ]
}

# refused_for MS FILE...: to host B, by the lease alone, all that time, each
# file and often enough to have seen a gap
refused_for()
{
	local ms=$1

	shift
	throughout "$ms" $((40 / $# + 1)) are_refused "$@"
}

are_refused()
{
	local file

	for file; do
		if dl B flock -n "$file" true; then
			diag "$file: granted"
			return 1
		fi
	done
}

# --- start and end --------------------------------------------------------

rig_start()
{
	[ "$(id -u)" = 0 ] || rig_die 'the rig needs root (namespaces)'
	RIG=$(mktemp -d "${TMPDIR:-/tmp}/dlock-rig.XXXXXX") || exit 1
	MNT=${RIG_MNT:-$RIG/mnt}
	trap rig_cleanup EXIT
	trap 'exit 130' INT TERM HUP
	mkdir -p "$RIG/cp" "$RIG/share" "$MNT"
	case ${RIG_MODE-} in
	cluster)
		cluster_up ;;
	quorum)
		redis_up
		masters_up
		;;
	sentinel)
		redis_up
		sentinels_too
		;;
	*)
		redis_up ;;
	esac
	host_new A "${RIG_KIND:-$1}"
	host_new B "${RIG_KIND:-$1}"
	rig_configs
}

rig_cleanup()
{
	local h p

	trap '' INT TERM HUP
	for h in "${!INIT[@]}"; do
		host_dead "$h"
	done
	for p in "${PEER_PID[@]}" "$REDIS_PID" "${MASTER_PID[@]}" \
		"${SENTINEL_PID[@]}"; do
		[ -z "$p" ] || kill -KILL "$p" 2>/dev/null
	done
	for h in "${!INIT[@]}"; do
		until_true 5 host_is_gone "$h"
	done
	if [ -n "${RIG_KEEP-}" ]; then
		diag "kept: $RIG"
	else
		rm -rf "$RIG"
	fi
}

# What is kept of the past, the server's (DESIGN 5.4) and that of lost leases
# (lease/chronicle.h), is no lock.
PAST='^dlock%run:|}%h$'

# The keys that there are, but for that.
keys_left()
{
	rr --scan | grep -vE "$PAST"
}

db_is_empty()
{
	local i

	for ((i = 1; i <= N_MASTERS; i++)); do
		[ "$(m "$i" --scan | grep -vcE "$PAST")" = 0 ] || return 1
	done
}

# Nothing is left in Redis, within SECONDS.
rig_empty()
{
	if until_true "${1:-2}" db_is_empty; then
		pass "${2:-no key is left in Redis}"
	else
		fail "${2:-no key is left in Redis}"
		diag "$(rr keys '*')"
	fi
}

rig_end()
{
	rig_empty
	done_testing
}

# --- checkpoints and peers ------------------------------------------------

cp_new()
{
	local name fd

	for name; do
		mkfifo "$RIG/cp/$name"
		exec {fd}<>"$RIG/cp/$name"
		CP_FD[$name]=$fd
	done
}

cp_reach()
{
	echo "${2-}" >&"${CP_FD[$1]}"
}

cp_wait()
{
	CP=
	next_line "${CP_FD[$1]}" "${2:-10}" || return
	CP=$HEARD_LINE
}

# Marks that nobody read.
cp_drain()
{
	while read -r -t 0.01 -u "${CP_FD[$1]}" _; do
		:
	done
}

peer()
{
	local name=$1 in out fd closed=''

	shift
	[ -z "${PEER_IN[$name]-}" ] || peer_end "$name"
	rm -f "$RIG/$name.in" "$RIG/$name.out"
	mkfifo "$RIG/$name.in" "$RIG/$name.out"
	exec {in}<>"$RIG/$name.in" {out}<>"$RIG/$name.out"
	PEER_IN[$name]=$in
	PEER_OUT[$name]=$out
	READ_PART[$out]=
	# An older one would not end as long as this one had its input as well.
	for fd in "${PEER_IN[@]}" "${PEER_OUT[@]}"; do
		closed+=" $fd>&-"
	done
	eval '"$@" <"$RIG/$name.in" >"$RIG/$name.out" 2>"$RIG/$name.err"' \
		"$closed &"
	PEER_PID[$name]=$!
	disown $!
}

# peer_end NAME...: their input ends, and with it they: when it returns, none of
# their locks is left in the kernel.  All are told before the first one is waited
# for, so one may wait for another one's lock.
peer_end()
{
	local name in out pids=()

	for name; do
		in=${PEER_IN[$name]} out=${PEER_OUT[$name]}
		exec {in}>&- {out}>&-
		pids+=("${PEER_PID[$name]}")
		unset "PEER_IN[$name]" "PEER_OUT[$name]" "PEER_PID[$name]"
	done
	until_true 10 pid_is_gone "${pids[@]}" && return
	diag "$* do not end:" "$(process_tree "${pids[@]}")"
	return 1
}

# process_tree PID...: they and their children: number, state, where they wait
process_tree()
{
	local pid

	for pid; do
		ps -o pid=,stat=,wchan:24=,args= -p "$pid"
		# shellcheck disable=SC2046 # numbers
		process_tree $(cat /proc/"$pid"/task/*/children 2>/dev/null)
	done
}

# pid_is_gone PID...: all of them
pid_is_gone()
{
	! kill -0 "$@" 2>/dev/null
}

say()
{
	printf '%s\n' "$2" >&"${PEER_IN[$1]}"
}

hear()
{
	HEARD=''
	RESULT=silence START=0 END=0
	next_line "${PEER_OUT[$1]}" "${2:-10}" || return 1
	HEARD=$HEARD_LINE
	read -r RESULT START END <<<"$HEARD"
}

ask()
{
	say "$1" "$2"
	hear "$1" "${3:-10}"
}

locker()
{
	peer "$1" "$2" "$3" "$BIN/locker"
}

# proxy NAME [PORT]: a proxy before Redis, or the server at that port, and as prompt;
# its own port in $PROXY.
proxy()
{
	peer "$1" nice -n -20 /usr/bin/python3 \
		"$TOP/tests/programs/tcpproxy.py" "127.0.0.1:${2:-$PORT}"
	hear "$1" || rig_die "no proxy: $(cat "$RIG/$1.err")"
	# shellcheck disable=SC2034 # the caller's
	PROXY=$RESULT
}

# --- blindness ------------------------------------------------------------

# Whether it fails in one of five tries: where two have to meet, they may miss
# each other once, on a busy machine above all.  Who wants to may do TRIES times
# as much in a try: 1, 2, 4, 8, 16.
fails_once()
{
	local TRIES

	for TRIES in 1 2 4 8 16; do
		"$@" || return 0
		note "$RUN: nothing went wrong in $TRIES times as much"
	done
	return 1
}

# three_ways NAME FUNCTION [ARG...]: FUNCTION runs commands by "$RUN" HOST
# CMD... and succeeds if exclusion held.  Bare and under the null shim it must
# not, or it proves nothing; under dlock it must.
three_ways()
{
	local name=$1

	shift
	RUN=on
	ok "$name: fails without dlock (control)" fails_once "$@"
	RUN=null
	ok "$name: fails under the null shim" fails_once "$@"
	RUN=dl
	ok "$name" "$@"
}
