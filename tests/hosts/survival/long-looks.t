#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# A look for those who have a lock takes longer than a keeper may leave its standby
# without an answer, for there is a process with very many descriptors: it is not
# taken for one that hangs amidst it, and stops them itself.  A server that is back
# before they are to be stopped keeps them alive, though the look has begun by then.
. "${0%/*}/../../lib/rig.sh"

TTL=12 # s

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

# It looks for those whom it is to stop when there are 0.5 s left of the lease; of one
# that is over by then nothing is seen.
STOP_MS=520
looks_or_is_over()
{
	local left

	left=$(left_ms "$1")
	[ "$left" -lt $STOP_MS ] || { [ "$left" -lt 2000 ] && looks; }
}

is_renewed()
{
	[ "$(left_ms "$1")" -gt $((TTL * 500)) ]
}

# From a look to its mark there is a second at most: who is to see it has a core, and
# the proxy and its server, too.
renice -n -20 $$ >/dev/null || rig_die 'cannot come first'
rig_start disks
proxy proxy
: >"$RIG/log"
rig_config A ttl=${TTL}s connect_timeout=300ms url="redis://127.0.0.1:$PROXY/0"
crowd crowd 20

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

# A look that ends where those are stopped for whom it is begins no sooner: then
# there are more to be looked at, until one begins in time.  While it lasts nothing is
# asked; what is asked afterwards arrives, for who is sent a question that never does
# waits for its answer until they are to be stopped.
for name in kept kept-{2..5}; do
	: >"$RIG/log"
	shell "$name"
	ask proxy hang >/dev/null
	until_true $((2 * TTL)) looks_or_is_over "$name"
	ask proxy hold >/dev/null
	left=0
	! looks || left=$(left_ms "$name")
	ask proxy pass >/dev/null
	note "$name: $left ms left"
	[ "$left" -lt $((STOP_MS + 300)) ] || break
	peer_end "$name"
	crowd "beside-$name" 20
done
ok 'kept: the server is back when who is to be stopped is looked for' \
	[ "$left" -ge $((STOP_MS + 300)) ]
peer_end crowd
ok 'kept: it is back: the lease is renewed' until_true 5 is_renewed "$name"
ok 'kept: and its holder lives' on A kill -0 "$SHELL_PID"
is "$(cat "$RIG/log")" '' 'kept: nothing is said to be lost'
peer_end "$name"
rig_end
