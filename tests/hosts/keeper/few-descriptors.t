#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# With few descriptors (RLIMIT_NOFILE) a keeper carries a lease on for as long as its
# lock is there, also by a new connection, or its standby, and stops the holder when
# it cannot; or it takes none, which a line says, with what to do.  By no limit is a
# holder killed for want of a descriptor.
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/idioms.sh"

LEAST=16 # DLK_KEEP_DESCRIPTORS
TTL=6000 FILES=5
limits=({6..24})

# A shell that only has the descriptor; a program that was executed by who locked, one
# file or FILES of them, of which some are told to have no keeper.
# shellcheck disable=SC2016 # the inner shell's
shell='ulimit -n "$0"; exec 4>"$1"; flock 4 && echo held; exec sleep "10$0"'
executed='import fcntl, os, resource, sys
limit, number, *names = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (int(limit),) * 2)
for name in names:
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.set_inheritable(fd, True)
print("held", flush=True)
os.execvp("sleep", ["sleep", number])'

# begins NAME NUMBER COMMAND...: whose holder is "sleep NUMBER"
declare -A NUMBER
begins()
{
	: >"$RIG/$1.log"
	NUMBER[$1]=$2
	dl A env DLOCK_LOG="warning:$RIG/$1.log" "${@:3}" \
		>"$RIG/$1.out" 2>"$RIG/$1.err" &
}

pid_of()
{
	pids_of A -x -f "sleep ${NUMBER[$1]}"
}

lives()
{
	[ -n "$(pid_of "$1")" ]
}

all_live()
{
	local name

	for name; do
		lives "$name" || { diag "$name is dead"; return 1; }
	done
}

are_kept()
{
	all_live "$@" && are_refused "$@"
}

holds()
{
	grep -q held "$RIG/$1.out" && lives "$1"
}

refused='no keeper for the lease .*: Too many open files; it ends by its ttl '
refused+='when this process ends\.  Raise the limit of open files'
is_said()
{
	grep -qE "$refused" "$RIG/$1.log"
}

is_refused()
{
	is_said "$1" || grep -qE 'ENOLCK|Bad file descriptor' \
		"$RIG/$1.log" "$RIG/$1.err"
}

# Of several files those that a keeper has; in $CARRIED.
find_carried()
{
	local n i

	for n in "${limits[@]}"; do
		[ "$n" -ge "$LEAST" ] || continue
		for ((i = 0; i < FILES; i++)); do
			grep -q "no keeper for the lease [^ ]*/$n-$i:" \
				"$RIG/several$n.log" || CARRIED+=("$n-$i")
		done
	done
}

rig_start disks
make_owner
proxy p
rig_configs ttl=${TTL}ms connect_timeout=300ms
rig_config A ttl=${TTL}ms connect_timeout=300ms \
	url="redis://127.0.0.1:$PROXY/0"
names=() several=()
for n in "${limits[@]}"; do
	begins "shell$n" "10$n" bash -c "$shell" "$n" "shell$n"
	begins "executed$n" "20$n" /usr/bin/python3 -c "$executed" "$n" "20$n" \
		"executed$n"
	names+=("shell$n" "executed$n")
	[ "$n" -ge "$LEAST" ] || continue
	files=()
	for ((i = 0; i < FILES; i++)); do
		files+=("$n-$i")
	done
	begins "several$n" "30$n" /usr/bin/python3 -c "$executed" "$n" "30$n" \
		"${files[@]}"
	several+=("several$n")
done
kept=() not=() CARRIED=()
for name in "${names[@]}"; do
	n=${name//[a-z]/}
	if [ "$n" -ge "$LEAST" ]; then
		ok "$name: has the lock" until_true 20 holds "$name"
		kept+=("$name")
	else
		not+=("$name")
	fi
done
# (Who is to be refused has locked by now, or was refused that.)
for name in "${not[@]}"; do
	ok "$name: it has no lock, or no keeper, and that is said" \
		until_true 20 is_refused "$name"
done
for name in "${several[@]}"; do
	ok "$name: has the locks" until_true 20 holds "$name"
done
find_carried
note "of $FILES files each: ${CARRIED[*]}"
at_least "${#CARRIED[@]}" "${#several[@]}" 'of several files one at the least has a keeper'
at_most "${#CARRIED[@]}" $((FILES * ${#several[@]} - 1)) \
	'... and not all have one'

ok 'all others are carried on, for two ttl' \
	throughout $((2 * TTL)) 3 are_kept "${kept[@]}"
rr client kill type normal skipme yes >"$RIG/killed"
at_least "$(cat "$RIG/killed")" 1 'the server closes all connections'
ok '... for two more' throughout $((2 * TTL)) 3 are_kept "${kept[@]}"
on A pkill -KILL -x dlock-keeper
ok '... and for two by their standbys' \
	throughout $((2 * TTL)) 3 are_kept "${kept[@]}"
for name in "${kept[@]}"; do
	like "$(cat "$RIG/$name.log")" 'its standby carries them on' \
		"$name: its standby has it"
	unlike "$(cat "$RIG/$name.log")" 'LOST|not renewed|no keeper|no standby' \
		"$name: nothing is lost"
done
ok 'several: all who hold them live' all_live "${several[@]}"
ok '... and those with a keeper are refused to others' \
	are_refused "${CARRIED[@]}"
for name in "${several[@]}"; do
	unlike "$(cat "$RIG/$name.log")" 'LOST|killed' "$name: nobody is killed"
done
for name in "${not[@]}"; do
	unlike "$(cat "$RIG/$name.log")" 'LOST|killed' "$name: nobody is killed"
done

# --- and they are stopped when it is lost -------------------------------------

# Some stand for all: each keeper looks at all processes by the mark, and of more than
# forty that do so at once the last one has the cores too late.
some=()
for name in "${kept[@]}"; do
	case $name in
	*16 | *17 | *24) some+=("$name") ;;
	esac
done
are_alone()
{
	[ "$(on A pgrep -fcx 'sleep [0-9]*')" = $# ]
}
for name in "${names[@]}" "${several[@]}"; do
	[[ " ${some[*]} " == *" $name "* ]] || ! lives "$name" ||
		kill -KILL "$(pid_of "$name")"
done
ok 'the others have ended' until_true 20 are_alone "${some[@]}"
kept=("${some[@]}")

declare -A DIED PID
watch()
{
	local pids=() name

	for name in "${kept[@]}"; do
		pids+=("$(pid_of "$name")")
		PID[$name]=$(pid_of "$name")
	done
	peer deaths nice -n -20 "$BIN/deaths" "${pids[@]}"
	hear deaths
	is "$HEARD" ready 'their deaths are watched'
}

watch
others_get '' 30 "${kept[@]}"
say deaths ''
while hear deaths && [ "$RESULT" != all ]; do
	DIED[$RESULT]=$START
done
for name in "${kept[@]}"; do
	took=$(((${DIED[${PID[$name]}]:-$(now)} - $(<"$RIG/$name.owned")) / 1000000))
	at_most "$took" -1 "... $name: who had it died $took ms after"
done
say p pass
hear p
rig_end
