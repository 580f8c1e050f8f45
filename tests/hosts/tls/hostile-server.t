#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# What a server does cannot keep dlock-tls busy, nor for ever: not one that
# breaks off while the program reads nothing, nor one that never stops talking.
# shellcheck disable=SC2119 # expanded later; no options
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/tls.sh"

# ticks PID: of a core, that the process has had
ticks()
{
	on A cat "/proc/$1/stat" | awk '{ print $14 + $15 }'
}

# begin: a program of A has a lock by way of a server of its own
begin()
{
	peer server "$TOP/tests/programs/tlsflood.py" "$TLS/server.pem" \
		"$TLS/server.key" "127.0.0.1:$PORT"
	hear server
	rig_config A url="rediss://127.0.0.1:$HEARD/0" redis_more="
		ca_file = \"$TLS/ca.pem\"
		server_name = \"redis.test\""
	locker a dl A
	ask a 'open f f'
	ask a 'lock f EX'
	is "$RESULT" 0 'A has a lock'
	# (A child of it may have its name for a moment, and its keeper a helper.)
	locker=$(on A pgrep -ox locker)
	helper=$(helpers A | head -n 1)
}

rig_start disks
tls_up

begin
on A kill -STOP "$locker"
ask server reset
is "$HEARD" ok 'a server breaks off, and a stopped program reads nothing'
before=$(ticks "$helper")
sleep 1
at_most "$(($(ticks "$helper") - before))" 5 'dlock-tls is idle'
on A kill -KILL "$locker"
peer_end a
ok '... and ends with the program' until_true 5 pid_is_gone_on A "$helper"
peer_end server
ok 'nothing is left' until_true 10 lease_is_gone f

begin
ask server flood
on A kill -KILL "$locker"
peer_end a
ok 'a server that never stops talking is left when the program has ended' \
	until_true 5 pid_is_gone_on A "$helper"
peer_end server
ok 'nothing is left' until_true 10 lease_is_gone f
rig_end
