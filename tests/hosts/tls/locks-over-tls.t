#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Locks by rediss://: two hosts exclude each other, waits are woken, leases are
# renewed and released, whatever becomes of the process that speaks TLS.
# shellcheck disable=SC2119,SC2016 # expanded later; no options
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/tls.sh"

no_helper()
{
	! helpers A >/dev/null
}

TTL=12000 # ms
# (With the time for a handshake on a busy machine.)
TLS_MORE=("ttl=${TTL}ms" connect_timeout=2s)

# renewed KEY MS: its ttl has more than MS left
renewed()
{
	[ "$(rr pttl "dlock:$MNT/$1")" -gt "$2" ]
}

older()
{
	! renewed "$@"
}

# renewed_by_another KEY: what was renewed before has grown older first
renewed_by_another()
{
	until_true 10 older "$1" $((TTL * 5 / 6)) &&
		until_true 10 renewed "$1" $((TTL * 5 / 6))
}

rig_start disks
tls_up
tls_trusted A
tls_trusted B

# --- exclusion, and a wait ---
locker a dl A
locker b dl B
ask a 'open f f'
ask b 'open f f'
ask a 'lock f EX'
is "$RESULT" 0 'A has it'
ask b 'lock f EX NB'
is "$RESULT" EAGAIN 'B is refused'
say b 'lock f EX'
ok 'B waits' until_true 10 eval '[ "$(rr exists "{dlock:$MNT/f}%q")" = 1 ]'
ask a 'lock f UN'
hear b
is "$RESULT" 0 'B has it when A has unlocked'
ask b 'lock f UN'
ask a 'record f F_WRLCK'
is "$RESULT" 0 'a record lock of A'
ask b 'record f F_WRLCK'
is "$RESULT" EAGAIN '... refuses B'
ask a 'record f F_UNLCK'
rig_empty 5 'nothing is left'

# --- the process that speaks TLS ends ---
# (The keeper of a lock has one of its own.)
has_one()
{
	no_keeper A && [ "$(helpers A | wc -l)" = 1 ]
}
ok 'a process of ours speaks TLS' until_true 10 has_one
ask a 'lock f EX'
token=$(token_of f)
on A pkill -KILL -x dlock-tls
ok 'killed: a lease is renewed by another one' renewed_by_another f
on A pkill -KILL -x dlock-tls
ask a 'open g g'
ask a 'lock g EX'
is "$RESULT" 0 '... and the next lock is had'
is "$(token_of f)" "$token" '... the lease is the same'
is "$(cat "$RIG/a.err")" '' 'nothing is said'
ask b 'lock f EX NB'
is "$RESULT" EAGAIN 'B is refused still'
peer_end b a
ok 'it ends with the program' until_true 10 no_helper
rig_empty 10 'nothing is left of those who ended'

# --- short ones: what is sent last arrives ---
left=0
for ((i = 0; i < 60; i++)); do
	dl A flock h true || fail "lock $i"
	[ "$(rr exists "dlock:$MNT/h")" = 0 ] ||
		until_true 1 eval '[ "$(rr exists "dlock:$MNT/h")" = 0 ]' ||
		left=$((left + 1))
done
is "$left" 0 '60 programs that lock and end leave no lease'

# --- a lock that outlives its process is the keeper's, who has one of its own ---
peer shell on A bash
say shell 'exec 9>f'
say shell "LD_PRELOAD=$BUILD/libdlock-preload.so DLOCK_CONFIG=$RIG/A.conf flock 9"
say shell 'echo locked'
hear shell
token=$(token_of f)
like "$token" dlock1 'a shell has the lock of a program that has ended'
on A pkill -KILL -x dlock-tls
ok '... and the keeper renews it' renewed_by_another f
is "$(token_of f)" "$token" '... the same'
peer_end shell
rig_empty 10 '... until the shell has ended'

ok 'dlockctl asks by it, too' on A env DLOCK_CONFIG="$RIG/A.conf" \
	"$BUILD/dlockctl" check
like "$(on A env DLOCK_CONFIG="$RIG/A.conf" "$BUILD/dlockctl" explain "$MNT/f")" \
	'transport +tls' 'explain says so'
rig_end
