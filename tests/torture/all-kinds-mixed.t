#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 4000
#
# POSIX, OFD and flock locks of one file, of processes and threads on three
# hosts, each of which keeps a far byte locked all the time; they fork, exec,
# close in storms, and are killed (everybody_locks.c).  No two owners, nobody
# waits for ever, nothing is refused that bare is not, nothing is said, and
# nothing is left; with and without SIGALRM at 1 kHz (SA_RESTART), and with a
# ttl of a second beside eight busy loops.  Bare on one host, as a control: the
# same, and no wedge; the null shim on three: two owners.
#
# MIXED_SECONDS of each mode, MIXED_SEED; MIXED_MODES: bare alarmed-bare null
# plain alarmed busy.  MIXED_SECONDS=600 bash tests/torture/all-kinds-mixed.t
. "${0%/*}/../lib/rig.sh"

TIME=${MIXED_SECONDS:-20}
SEED=${MIXED_SEED:-$RANDOM}
MODES=${MIXED_MODES:-bare alarmed-bare null plain alarmed busy}

in_all()
{
	local name

	for name in one two three; do
		"$@" "$name"
	done
}

started()
{
	hear "$1" 30 || rig_die "$MODE: no far lock: $(cat "$RIG/$1.err")"
}

go()
{
	say "$1" go
}

at_end()
{
	hear "$1" $((seconds + 2 * LIMIT + 30))
	end="$end$HEARD "
}

leave()
{
	say "$1" end
	hear "$1" 30
}

# What a wedge looks like, before anybody is killed.
dump()
{
	local h

	diag "$("$BIN/everybody_locks" report "$RIG/arena")"
	diag "/proc/locks:" "$(cat /proc/locks)"
	[ "$RUN" = dl ] || return 0
	for h in A B C; do
		diag "dlockctl on $h:" "$(on "$h" "$BUILD/dlockctl" \
			-c "$RIG/$h.conf" list)"
	done
}

# mixed RUN SECONDS FLAGS HOST...: the report's figures in $grants, $violations
# $deadlocks $errors $stuck; what was said in $said
mixed()
{
	local flags=$3 i=0 names=(one two three) h seconds=$2

	RUN=$1
	shift 3
	rm -f "$RIG/arena" "$RIG"/{one,two,three}.err
	"$BIN/everybody_locks" new "$RIG/arena" "$seconds" "$LIMIT"
	for h; do
		peer "${names[i]}" "$RUN" "$h" "$BIN/everybody_locks" host \
			"$RIG/arena" "$MNT/f" "$i" "$SEED" "$flags"
		i=$((i + 1))
	done
	in_all started
	in_all go
	end=
	in_all at_end
	[ "$end" = 'done done done ' ] || dump
	read -r grants violations deadlocks errors stuck longest kills forks \
		execs closes late < <("$BIN/everybody_locks" report "$RIG/arena")
	note "$MODE: $grants grants in $seconds s, $violations violations," \
		"$deadlocks EDEADLK, $errors errors, $stuck stuck, longest" \
		"wait $longest ms; $kills kills, $forks forks, $execs execs," \
		"$closes closes; $late ms without a core, at most"
	note "$("$BIN/everybody_locks" report "$RIG/arena" | tail -n +2 | tail -n 30)"
	left=
	[ "$RUN" != dl ] || until_true 10 few_owners ||
		left=$(rr zrange "{dlock:$MNT/f%rec}%r" 0 20)
	in_all leave
	said=$(cat "$RIG"/{one,two,three}.err)
}

# Whoever has ended has no owner left: the far locks' three stay.
few_owners()
{
	[ "$(rr hlen "dlock:$MNT/f%rec")" = 4 ] &&
		[ "$(rr exists "dlock:$MNT/f")" = 0 ]
}

# With a ttl of 1 s the server has 150 ms to answer: where who only sleeps gets
# no core for half of that, nothing is shown of the leases.
right()
{
	if [ "$MODE" = busy ] && [ "$late" -gt 75 ]; then
		skip "$MODE" "the machine gave no core for $late ms"
		is "$stuck" 0 "$MODE: nobody waits for ever"
		return
	fi
	is "$violations" 0 "$MODE: no two owners"
	is "$stuck" 0 "$MODE: nobody waits for ever"
	is "$deadlocks $errors" '0 0' "$MODE: nothing fails"
	is "$(head -n 5 <<<"$said")" '' "$MODE: nothing is said"
	is "$left" '' "$MODE: only the far locks are left at Redis"
}

busy_loops()
{
	local i

	for ((i = 0; i < $1; i++)); do
		(while :; do :; done) &
		LOOPS+=($!)
	done
}

rig_start disks
note "MIXED_SEED=$SEED"
host_new C disks
for MODE in $MODES; do
	LIMIT=20
	LOOPS=()
	left=
	rig_configs ttl=3s
	rig_config C ttl=3s
	case $MODE in
	bare)
		mixed on $((TIME < 30 ? TIME : 30)) '-' A A A
		is "$violations $stuck $deadlocks $errors" '0 0 0 0' \
			"$MODE: on one host all is well (control)"
		;;
	alarmed-bare)
		mixed on $((TIME < 30 ? TIME : 30)) 'a' A A A
		is "$violations $stuck $deadlocks $errors" '0 0 0 0' \
			"$MODE: on one host all is well (control)"
		;;
	null)
		mixed null 2 '-' A B C
		at_least "$violations" 1 "$MODE: two owners are seen (control)"
		;;
	plain)
		mixed dl "$TIME" '-' A B C
		right
		;;
	alarmed)
		mixed dl "$TIME" 'a' A B C
		right
		;;
	busy)
		rig_configs ttl=1s connect_timeout=150ms timeout=10s
		rig_config C ttl=1s connect_timeout=150ms timeout=10s
		busy_loops 8
		mixed dl "$TIME" 'a' A B C
		kill "${LOOPS[@]}"
		wait "${LOOPS[@]}" 2>/dev/null
		right
		;;
	esac
	rig_empty 10 "$MODE: no key is left in Redis"
	rr flushall >/dev/null
done
done_testing
