#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Two hosts with separate disks and one nightly job: one runs it.
. "${0%/*}/../../lib/rig.sh"

# One host's attempt: 'enter' from the job, 'exit STATUS' at its end.
attempt()
{
	local status=0

	# shellcheck disable=SC2016 # the job's shell expands it
	"$RUN" "$1" flock "${@:2}" nightly.lock sh -c \
		'echo enter >$0/cp/event; read x <$0/cp/go' "$RIG" ||
		status=$?
	echo "exit $status" >"$RIG/cp/event"
}

# Started at once: of two events exactly one is an entry, the other flock's
# status 1.  Both entering is what must not be.
one_runs()
{
	local first second

	attempt A -n &
	attempt B -n &
	cp_wait event; first=$CP
	cp_wait event; second=$CP
	cp_reach go
	[ "$first/$second" != enter/enter ] || cp_reach go
	wait
	cp_drain event
	cp_drain go
	case $first/$second in
	enter/exit\ 1|exit\ 1/enter)
		return 0
		;;
	esac
	diag "$RUN: $first, $second"
	return 1
}

always_one_runs()
{
	local round

	for round in 1 2 3 4 5 6 7 8; do
		if ! one_runs; then
			diag "$RUN: round $round"
			return 1
		fi
	done
}

# The second waits for as long as the first is in, and then has its turn.
# (Not to enter is to be seen by waiting only: 300 ms are many a time what a
# granted lock needs.  Where it is to enter, as in the controls, it has longer, and
# at each try.)
take_turns()
{
	local status=0 first=

	attempt A &
	cp_wait event || return 1
	attempt B &
	if cp_wait event "${TRIES:-0.3}"; then
		diag "$RUN: A and then B: $CP"
		status=1
		cp_reach go
		cp_reach go
	else
		cp_reach go
		# Either may be told of first: A has unlocked before it exits.
		cp_wait event && first=$CP && cp_wait event || status=2
		case $first/$CP in
		exit\ 0/enter|enter/exit\ 0) ;;
		*) status=3 ;;
		esac
		cp_reach go
	fi
	wait
	cp_drain event
	cp_drain go
	[ "$status" -lt 2 ] || diag "$RUN: turn $status: $CP"
	return "$status"
}

rig_start disks
cp_new event go
three_ways 'flock -n: one host runs the job, the other ends with 1' \
	always_one_runs
three_ways 'flock: a blocking pair takes turns' take_turns
rig_end
