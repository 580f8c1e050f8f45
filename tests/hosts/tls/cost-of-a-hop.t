#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# What TLS costs a program: a process beside it, and none of OpenSSL in itself;
# no more system calls for a lock; and the time of a hop, which is printed.  The
# same of a helper that logs in, and does not speak TLS.
# shellcheck disable=SC2119,SC2016 # expanded later; no options
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/tls.sh"
. "${0%/*}/../../lib/memory.sh"
. "${0%/*}/../../lib/credentials.sh"

LOCKS=300

# calls_of HOST: system calls of so many locks and unlocks, start and end apart.  Those
# that wait for an answer, and read it (alone, or with the one before), and wake a
# thread that may be awake, are as many as chance has it (185 to 334 wakes of 300
# locks, seen on an idle machine).
calls_of()
{
	echo $(($(least_of "$1" $((LOCKS + 1))) - $(least_of "$1" 1)))
}

# least_of HOST LOCKS: of the runs so far, and three more
least_of()
{
	for _ in 1 2 3; do
		dl "$1" strace -qq -o "$RIG/strace.$1" \
			"$BIN/bench_lock" calls f "$2" >/dev/null
		grep -cvE '^(p?poll|fstat|recvfrom|futex)\(' "$RIG/strace.$1" \
			>>"$RIG/calls.$1.$2"
	done
	sort -n "$RIG/calls.$1.$2" | head -n 1
}

# no_more_calls HOW NAME: of host A than of host B, in turns.  What is asked twice, because
# an answer was late, is no cost of TLS: the least of as many runs as show it.
no_more_calls()
{
	rm -f "$RIG"/calls.*
	for _ in 1 2 3 4 5; do
		with=$(calls_of A)
		without=$(calls_of B)
		[ "$with" -gt $((without + without / 50)) ] || break
	done
	note "$LOCKS locks and unlocks: $with system calls $1, $without without"
	at_most "$with" $((without + without / 50)) "$2"
}

# Its descriptors: what was given up, being late, is closed a moment later.
has_open()
{
	[ "$(on A ls "/proc/$helper/fd" | grep -c .)" = "$1" ]
}

median()
{
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

rig_start disks
tls_up
tls_trusted A
on A touch f
on B touch f

locker a dl A
ask a 'open f f'
ask a 'lock f EX'
# (A child of it may have its name for a moment.)
pid=$(on A pgrep -o -x locker)
is "$(on A grep -cE 'ssl|crypto' "/proc/$pid/maps")" 0 \
	'no OpenSSL in the program'
helper=$(helpers A | head -n 1) # (The keeper may have one, too.)
ok '... but in the process beside it' \
	on A grep -q libssl "/proc/$helper/maps"
note "dlock-tls: $(on A awk '/^Pss:/ { print $2 }' \
	"/proc/$helper/smaps_rollup") kB of its own and its share"
ok '... which has 0 to 3, the program and the server open' \
	until_true 5 has_open 6
is "$(on A readlink "/proc/$helper/fd/2" "/proc/$helper/cwd")" \
	$'/dev/null\n/' '... and nothing of the program'"'"'s'
ask a 'lock f UN'
peer_end a

no_more_calls 'by TLS' 'a lock makes no more system calls'

# in_turns: the median of a call's time, of host A and of B, in ns
in_turns()
{
	local i

	rm -f "$RIG/with" "$RIG/without"
	for ((i = 0; i < 5; i++)); do
		dl A "$BIN/bench_lock" calls f "$LOCKS" >>"$RIG/with"
		dl B "$BIN/bench_lock" calls f "$LOCKS" >>"$RIG/without"
	done
	a=$(median <"$RIG/with")
	b=$(median <"$RIG/without")
	ok 'both were measured' test "$a" -gt 0 -a "$b" -gt 0
}

in_turns
note "a call takes $((a / 1000)) us by TLS, $((b / 1000)) us without, in turns"

user_up
by_helper A
no_more_calls 'where a helper logs in' 'nor has it more where a helper logs in'
in_turns
note "a call takes $((a / 1000)) us by a helper that logs in, $((b / 1000)) us without"
rig_end
