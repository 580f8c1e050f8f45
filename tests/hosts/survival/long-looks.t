#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# A look for those who have a lock takes longer than a keeper may leave its standby
# without an answer, for there is a process with very many descriptors: it is not
# taken for one that hangs amidst it, and stops them itself.  A server that is back
# before they are to be stopped keeps them alive, though the look has begun by then.
# And where it takes longer than there is time for it, nobody runs on.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/sharers.sh"

TTL=18 # s

# crowd NAME N: so many processes, each with as many descriptors as any may have; they
# are looked at one after the other.
crowd()
{
	peer "$1" on A /usr/bin/python3 -c '
import os, resource, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
end, ours = os.pipe()
null = os.open("/dev/null", os.O_RDONLY)
for i in range(min(most, 20000) - 64):
    os.dup(null)
for i in range(int(sys.argv[1]) - 1):
    if not os.fork():
        os.close(ours)
        os.read(end, 1)
        os._exit(0)
print("are there", flush=True)
sys.stdin.readline()' "$2"
	hear "$1" 30
}

# shell NAME: that has the descriptor only; its number on host A
shell()
{
	# shellcheck disable=SC2016 # sh's
	peer "$1" dl A env DLOCK_LOG="warning:$RIG/log" bash -c \
		'exec 9>"$0"; flock 9; echo $$; read -r _' "$1"
	hear "$1" || rig_die "$1: $(cat "$RIG/$1.err")"
	SHELL_PID=$HEARD
	ok "$1: its keeper has a standby" until_true 5 have_standbys A 1
	KEEPER=$(pids_of A -o -x dlock-keeper)
}

# The keeper has a directory of descriptors of its own, while it looks at them.
looks()
{
	find "/proc/$KEEPER/fd" -lname '*/fd' 2>/dev/null | grep -q .
}

left_ms()
{
	rr pttl "dlock:$MNT/$1"
}

# Who has it is stopped when there are 0.5 s left of the lease, and looked for in the
# last third of it (what is learnt by a look before is not meant here); of one that is
# over by then nothing is seen.
STOP_MS=520
looks_or_is_over()
{
	local left

	left=$(left_ms "$1")
	[ "$left" -lt $STOP_MS ] || { [ "$left" -lt $((TTL * 333)) ] && looks; }
}

is_renewed()
{
	[ "$(left_ms "$1")" -gt $((TTL * 500)) ]
}

# From a look to its mark there are some seconds: who is to see it has a core, and the
# proxy and its server, too.
renice -n -20 $$ >/dev/null || rig_die 'cannot come first'
rig_start disks
proxy proxy
: >"$RIG/log"
rig_config A ttl=${TTL}s connect_timeout=300ms url="redis://127.0.0.1:$PROXY/0"
crowd crowd 30

shell killed
ask proxy hang >/dev/null
ok 'killed: the server is away: it dies' \
	until_true $((2 * TTL)) pid_is_gone_on A "$SHELL_PID"
is "$(pids_of A -o -x dlock-keeper)" "$KEEPER" 'killed: by the keeper that it had'
# (Who kills says so afterwards.)
ok 'killed: which says so' until_true 5 \
	grep -q "these who have its lock are killed: $SHELL_PID " "$RIG/log"
unlike "$(cat "$RIG/log")" 'its standby carries them on' \
	'killed: and was not taken for one that hangs'
note "$(cat "$RIG/log")"
ask proxy pass >/dev/null
peer_end killed

# back_amidst_a_look NAME: the server is, for NAME's holder, and $left are left.  While
# the look lasts nothing is asked; what is asked afterwards arrives, for who is sent a
# question that never does waits for its answer until they are to be stopped.  (Keepers
# that look, of other tests as well, come before all that have no real-time priority.)
back_amidst_a_look()
{
	local amidst=true

	ask proxy hang >/dev/null
	chrt -r -p 10 $$
	until_true $((2 * TTL)) looks_or_is_over "$1"
	ask proxy hold >/dev/null
	looks || amidst=false
	left=$(left_ms "$1")
	ask proxy pass >/dev/null
	chrt -o -p 0 $$
	note "$1: amidst a look: $amidst, $left ms left"
	$amidst && is_early
}

is_early()
{
	[ "$left" -ge $((STOP_MS + 300)) ]
}

# It ended when it was too late for a question: its holder was stopped at once, or had
# been by its own timer.
look_was_late()
{
	local unrenewed

	unrenewed=$(sed -n 's/.* was not renewed for \([0-9]*\) ms.*/\1/p' "$RIG/log" |
		head -n 1)
	[ "${unrenewed:-0}" -gt $((TTL * 1000 - STOP_MS + 100)) ]
}

# A look that ends where those are stopped for whom it is begins no sooner: then
# there are more to be looked at, until one begins in time.
in_time=no
for name in kept kept-{2..6}; do
	: >"$RIG/log"
	shell "$name"
	if back_amidst_a_look "$name" &&
		{ until_true $TTL is_renewed "$name" || ! look_was_late; }; then
		in_time=yes
		break
	fi
	peer_end "$name"
	is_early || crowd "beside-$name" 20
done
is "$in_time" yes 'kept: the server is back when who is to be stopped is looked for'
ok 'kept: it is back: the lease is renewed' is_renewed "$name"
ok 'kept: and its holder lives' on A kill -0 "$SHELL_PID"
is "$(cat "$RIG/log")" '' 'kept: nothing is said to be lost'
peer_end "$name"

# --- between the warning and the mark there is less time than a look takes ---
MANY=100

# Who works for a holder, and has no descriptor, is found by him, whose own timer comes
# before the look has ended; and they are more than a keeper may have descriptors.
: >"$RIG/log"
rig_config A ttl=6s
# shellcheck disable=SC2016 # sh's
peer workers dl A env DLOCK_LOG="warning:$RIG/log" setsid bash -c \
	'ulimit -n 64; exec flock -o f bash -c "$1" "$0"' "$MANY" \
	'for ((i = 0; i < $0; i++)); do sleep 1000 & done; echo held; wait'
hear workers
ok "workers: $MANY work for a holder" until_true 20 have_all
ok 'workers: its keeper has a standby' until_true 5 have_standbys A 1
kill -STOP "$REDIS_PID"
ok 'workers: the server is silent: they die' until_true 10 none_is_left
kill -CONT "$REDIS_PID"
ok 'workers: which is said' until_true 10 \
	grep -q 'these who have its lock are killed' "$RIG/log"
unlike "$(cat "$RIG/log")" 'nobody is found|runs on|by its own timer' \
	'workers: and not that there is nobody, or that one runs on'
note "$(cat "$RIG/log")"
peer_end workers
peer_end crowd
rig_end
