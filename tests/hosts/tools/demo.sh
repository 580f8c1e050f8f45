#!/bin/bash
# SPDX-License-Identifier: MIT
#
# make demo: dlock's main job, shown on two hosts of this machine.
#
# A host here is a mount and a pid namespace with a disk of its own; so no
# kernel lock is shared.  What is claimed below is checked below: the exit
# status is 0 only if all of it was seen.
if [ "$(id -u)" != 0 ]; then
	if unshare -Ur -m -p -f --mount-proc true 2>/dev/null; then
		exec unshare -Ur -m -p -f --mount-proc bash "$0"
	fi
	echo 'demo: needs root, for it makes two hosts out of namespaces.' >&2
	echo '      sudo make demo' >&2
	exit 1
fi
# shellcheck source=tests/lib/rig.sh
. "${0%/*}/../../lib/rig.sh"

bold='' plain='' red='' green=''
if [ -t 1 ]; then
	bold=$'\e[1m' plain=$'\e[0m' red=$'\e[31m' green=$'\e[32m'
fi
wrong=0

say_title()
{
	printf '\n%s%s%s\n' "$bold" "$*" "$plain"
}

say_line()
{
	printf '  %s\n' "$*"
}

# claim TEXT COMMAND...: true, or the demo has failed.
claim()
{
	local text=$1

	shift
	if "$@"; then
		printf '  %s=> %s%s\n' "$green" "$text" "$plain"
	else
		printf '  %s=> NOT SEEN: %s%s\n' "$red" "$text" "$plain"
		wrong=1
	fi
}

# The job's name, its host, and the two marks: that it runs, that it may end.
# shellcheck disable=SC2016 # expanded by the job's shell
job='#!/bin/sh
echo "enter $1" >"$MARKS/event"
read -r _ <"$MARKS/go"'

# nightly HOW HOST [FLOCK-OPTION]: the cron line, in the background.
nightly()
{
	local how=$1 host=$2

	shift 2
	{
		status=0
		"$how" "$host" env MARKS="$RIG/cp" flock "$@" \
			"$JOBS/nightly.lock" ./job "$host" || status=$?
		echo "exit $host $status" >"$RIG/cp/event"
	} &
}

# The next event in words; kept in $events.
events=''
next_event()
{
	if ! cp_wait event 5; then
		events="$events/silence"
		return
	fi
	events="$events/$CP"
	case $CP in
	enter*)
		say_line "host ${CP#enter }:  ./job runs"
		;;
	*' 0')
		;;
	exit*)
		say_line "host ${CP:5:1}:  flock ends with status ${CP##* }"
		;;
	esac
}

let_go()
{
	local i

	for ((i = 0; i < $1; i++)); do
		cp_reach go
	done
	wait
	cp_drain event
	cp_drain go
	events=''
}

# --- two hosts ------------------------------------------------------------

JOBS=$(readlink -f /var/lock)/jobs
RIG_MNT=$JOBS
made=
if [ ! -d "$JOBS" ]; then
	mkdir -p "$JOBS" 2>/dev/null && made=$JOBS
fi
if [ ! -d "$JOBS" ]; then
	# Not even root may: then the lock files are elsewhere.
	JOBS='' RIG_MNT=''
fi

rig_start disks >/dev/null
trap 'rig_cleanup; [ -z "$made" ] || rmdir "$made" 2>/dev/null' EXIT
JOBS=$MNT
rig_configs ttl=30s connect_timeout=5s
cp_new event go
for host in A B; do
	# shellcheck disable=SC2016 # expanded there
	on "$host" sh -c 'printf "%s\n" "$0" >job; chmod +x job' "$job"
done

say_title 'Two hosts, A and B, each with its own disk, and one nightly job:'
say_line "flock -n $JOBS/nightly.lock ./job"
say_line "(a Redis of the demo's own serves at 127.0.0.1:$PORT)"

say_title '1. Without dlock'
nightly on A -n
next_event
nightly on B -n
next_event
claim 'both hosts run the job: that is the problem' \
	test "$events" = '/enter A/enter B'
let_go 2

say_title '2. With dlock: LD_PRELOAD=libdlock-preload.so'
nightly dl A -n
nightly dl B -n
next_event
next_event
one_of_two()
{
	[[ $events == '/enter '[AB]'/exit '[AB]' 1' ]] ||
		[[ $events == '/exit '[AB]' 1/enter '[AB] ]]
}
claim 'started at once, one host runs it; the other leaves, as flock -n does' \
	one_of_two

say_title '3. While it runs: dlockctl list'
listing=$(DLOCK_CONFIG=$RIG/A.conf "$BUILD/dlockctl" list)
printf '%s\n' "$listing" | sed 's/^/  /'
is_listed()
{
	[[ $listing == *"$JOBS/nightly.lock"*EX* ]]
}
claim 'host, pid and command of the holder, seen from any host' is_listed
let_go 1

say_title '4. Without -n the second waits for its turn'
nightly dl A
next_event
nightly dl B
waits()
{
	! cp_wait event 0.5
}
claim 'B waits while A has the lock' waits
cp_reach go
say_line 'host A:  ./job ends'
next_event
[ "${CP%% *}" = enter ] || next_event
b_entered()
{
	[[ $events == *'/enter B'* ]]
}
claim 'and then B has its turn' b_entered
let_go 1

say_title '5. kill -9 of a holder, with a waiter on the same host'
locker holder dl A
locker waiter dl A
ask holder 'open a nightly.lock'
ask waiter 'open a nightly.lock'
ask holder pid
victim=$RESULT
ask holder 'lock a EX'
say_line "host A:  process $victim holds the lock, another one waits"
say waiter 'lock a EX'
waits_still()
{
	! hear waiter 0.3
}
claim 'it waits' waits_still
say_line "host A:  kill -9 $victim"
killed=$(now)
on A kill -KILL "$victim"
hear waiter
us=$(((END - killed) / 1000))
say_line "host A:  the waiter has it $((us / 1000)).$((us / 100 % 10)) ms later"
claim 'the living need not sit out the lease of the dead (30 s)' \
	test "$RESULT" = 0 -a "$us" -gt 0 -a "$us" -lt 6000000
ask waiter 'lock a UN'
peer_end waiter holder

say_title '6. And after all that'
claim 'no key is left in Redis' until_true 3 db_is_empty

if [ "$wrong" != 0 ]; then
	say_title 'Not all of this was as it must be: see above.'
	exit 1
fi
say_title 'Your turn'
cat <<END
  One command, no configuration (a private Redis, this machine only):
      build/dlock run --path /tmp/jobs/ -- flock -n /tmp/jobs/lock sleep 60
  Across hosts: any Redis >= 7.0, this file on each of them, and then
      config/dlock.conf  ->  /etc/dlock/dlock.conf     (dlock.conf(5))
      dlock run -- COMMAND        or LD_PRELOAD=.../libdlock-preload.so
      dlockctl explain /var/lock/jobs/nightly.lock     what will happen
  Install:  make install       All tests:  make check
END
