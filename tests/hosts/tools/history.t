#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlockctl history: what befell the leases of a file, as break and lock leave it
# in a stream beside its key; what anybody may have put there does nothing.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

rig_start disks
rig_configs ttl=12s connect_timeout=2s
on A touch f
STREAM="{dlock:$MNT/f}%h"

told()
{
	ctl_on A --json history "$MNT/f"
	json "$1"
}

is "$(told '[.status, .entries]')" '[0,[]]' 'nothing is recorded'
ctl_on A history "$MNT/f"
like "$STATUS $ERR" '^0 .*nothing is recorded; what preloaded programs wait' \
	'... and it says what is not'
ctl_on A history /etc/hostname
is "$STATUS" 1 'no rule: 1'

# --- what is written ---
rr set "dlock:$MNT/f" "$(made_token A 65 $'w\x1b')" px 60000 >/dev/null
STATUS=0
on A env SUDO_USER=$'me\x1b' DLOCK_CONFIG="$RIG/A.conf" DLOCK_LOG=error:/dev/null \
	"$CTL" break --yes "$MNT/f" >/dev/null 2>&1 || STATUS=$?
is "$STATUS $(told '[.entries[] | .what, .family, .lasted_ms >= 65000,
	.token]')" '0 ["broken","flock",true,"00000000000000000000000000000007"]' \
	'a lease is broken'
is "$(told '.entries[0].who')" '"dlockctl break, uid 0, SUDO_USER me\u001b"' \
	'... by whom'
at_least "$(rr pttl "$STREAM")" 1000 'it ends some day'
rr set "dlock:$MNT/f" "$(made_token elsewhere 65 w)" px 60000 >/dev/null
ctl_on A break --yes "$MNT/f"
is "$(told '.entries[0] | [.what, .lasted_ms]')" '["broken",null]' \
	'of one whose age nobody here knows none is told'
ctl_on A history "$MNT/f"
like "$OUT" $' dlockctl break, uid 0 +- +flock' '... in words'
peer holder on A env DLOCK_CONFIG="$RIG/A.conf" "$CTL" lock "$MNT/f" -- \
	sh -c 'echo runs; exec sleep 1000'
hear holder
on B env DLOCK_CONFIG="$RIG/B.conf" "$CTL" lock "$MNT/f" -- true &
waiter=$!
waits()
{
	[ "$(rr hlen "{dlock:$MNT/f}%q")" -gt 0 ]
}
ok 'one waits' until_true 5 waits
sleep 1.2 # what is a long wait (tools/lock.c)
ctl_on A break --yes --token "$(rr get "dlock:$MNT/f" | cut -d' ' -f 2)"
wait "$waiter"
ok 'it is killed' until_true 10 pid_is_gone "${PEER_PID[holder]}"
is "$(told '[.entries[].what] | sort')" \
	'["broken","broken","broken","lost","waited"]' \
	'a loss, and a long wait'
ctl_on A history "$MNT/f"
like "$OUT" $'WHEN +WHAT +HOST .*\n20[0-9-]+ [0-9:]+ +(lost|waited|broken) ' \
	'in words'
unlike "$OUT" $'\x1b' '... of which none does anything'

# --- of both families, by the moments of their ends ---
rr rename "$STREAM" "{dlock:$MNT/f}kept" >/dev/null
RECORDS="{dlock:$MNT/f%rec}%h"
for at in 1000 3000; do
	rr xadd "$STREAM" $at-0 what lost host h who w pid 1 lasted 1 token 1
done >/dev/null
for at in 2000 4000; do
	rr xadd "$RECORDS" $at-0 what lost host h who w pid 1 lasted 1 token 1
done >/dev/null
is "$(told '[.entries[] | .at_ms, .family]')" \
	'[4000,"record",3000,"flock",2000,"record",1000,"flock"]' \
	'flock and record locks: the last first'
rr del "$STREAM" "$RECORDS" >/dev/null
rr rename "{dlock:$MNT/f}kept" "$STREAM" >/dev/null

# --- who may, what it costs, what others put there ---
for _ in {1..300}; do
	rr xadd "$STREAM" '*' what broken host h who w pid 1 lasted 1 token 1
done >/dev/null
rr set "dlock:$MNT/f" "$(made_token A 5 w)" px 60000 >/dev/null
ctl_on A break --yes "$MNT/f"
at_most "$(rr xlen "$STREAM")" 250 'it is capped'
rr del "$STREAM" >/dev/null
rr xadd "$STREAM" '*' what $'\x1b' host "$(printf '%01000d' 1)" who w token x \
	>/dev/null
rr xadd "$STREAM" '*' a b >/dev/null
rr xadd "$STREAM" '*' what $'x\x1b\n' host h who $'%1B\xff' pid x lasted x \
	token $'\x1b' >/dev/null
ctl_on A history "$MNT/f"
is "$STATUS $(wc -l <<<"$OUT")" '0 2' 'what is no entry is passed over'
unlike "$OUT" $'\x1b' 'and does nothing'
rr del "$STREAM" >/dev/null
rr set "$STREAM" x >/dev/null
ctl_on A history "$MNT/f"
is "$STATUS" 69 'a key of another type'
like "$ERR" 'another type' '... it says so'
rr set "dlock:$MNT/f" "$(made_token A 5 w)" px 60000 >/dev/null
ctl_on A break --yes "$MNT/f"
is "$STATUS" 0 'break does its work all the same'
like "$ERR" 'not in its history' '... and says so'
manual_user
rr del "$STREAM" >/dev/null
rr set "dlock:$MNT/f" "$(made_token A 5 w)" px 60000 >/dev/null
on A "$CTL" -c "$RIG/dlock.conf" break --yes "$MNT/f" >"$RIG/out" 2>"$RIG/err"
is "$(grep -v 'holds a password' "$RIG/err")" '' 'the user of dlock.conf(5) may write'
is "$(on A "$CTL" -c "$RIG/dlock.conf" --json history "$MNT/f" 2>/dev/null |
	jq '.entries | length')" 1 '... and read'
redis_kill
ctl_on A history "$MNT/f"
is "$STATUS" 69 'no server: 69'
done_testing
