#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlockctl watch: a screen that stays in its place, or a line for each change.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

rig_start disks
rig_configs ttl=30s connect_timeout=5s

# --- lines ---
rr set "dlock:$MNT/old" "$(made_token A 65 web1)" px 600000 >/dev/null
peer w env DLOCK_CONFIG="$RIG/A.conf" stdbuf -oL "$CTL" watch --interval 100ms
hear w
like "$HEARD" "^[0-9:]{8} \\+ $MNT/old EX web1 42 nightly$" 'what is there'
rr set "dlock:$MNT/n%0Aew" "$(made_token A 1 $'w\x1b')" px 600000 >/dev/null
hear w
like "$HEARD" "^[0-9:]{8} \\+ $MNT/n\\\\x0aew EX w\\\\x1b 42 nightly$" \
	'what comes, and does nothing'
rr del "dlock:$MNT/old" >/dev/null
hear w
like "$HEARD" "^[0-9:]{8} - $MNT/old EX web1 42 nightly$" 'what goes'
soon=$((($(date +%s) + 600) * 1000))
rr hset "dlock:$MNT/h" dlock 1 "$(made_token A 5 r1)" "$soon" \
	"$(made_token B 5 r2 | sed 's/ 0\{31\}7 / 00000000000000000000000000000008 /')" \
	"$soon" >/dev/null
rr pexpire "dlock:$MNT/h" 600000 >/dev/null
hear w
one=$HEARD
hear w
like "$one/$HEARD" "\\+ $MNT/h SH r1 .*/.*\\+ $MNT/h SH r2 " 'two owners of one'
kill "${PEER_PID[w]}"
peer_end w

# --- a screen ---
screen()
{
	/usr/bin/python3 "$TOP/tests/programs/on_a_terminal.py" "$1" "$CTL" \
		-c "$RIG/A.conf" watch --count 2 --interval 100ms
}
like "$(screen 80)" $'\x1b\\[2J\x1b\\[H.*3 locks, every 100ms\x1b\\[K.*\x1b\\[J\x1b\\[H' \
	'it is drawn in its place'
is "$(screen 80 | sed 's/\x1b\[[0-9;]*[a-zA-Z]//g' | tr -d '\r' | wc -L)" 79 \
	'80 columns: none is wider'
for n in {1..60}; do
	rr set "dlock:$MNT/many$n" "$(made_token A 65 web1)" px 600000
done >/dev/null
at_most "$(screen 200 | tr -d '\r' | grep -c web1)" 46 \
	'no more rows than there is room for'

# --- filters, numbers, machines ---
ctl --json watch --count 2 --interval 100ms --path "$MNT/h"
is "$STATUS $(jq -c '[.looks[] | [.complete, (.locks | length)]]' <<<"$OUT")" \
	'0 [[true,2],[true,2]]' 'for machines: one object'
for args in '--count 0' '--count x' '--interval 1' '--sort x'; do
	# shellcheck disable=SC2086 # words
	ctl watch $args
	is "$STATUS" 64 "usage: $args"
done
rr acl setuser deaf on '>x' '~mine:*' '&*' +@all >/dev/null
sed "s,redis://,&deaf:x@," "$RIG/A.conf" >"$RIG/deaf.conf"
ctl -c "$RIG/deaf.conf" watch --count 1
is "$STATUS" 77 'not allowed: 77'
# --- a share that hangs ---
share_at A "$RIG/slow"
server=$(pids_of A -f "bindfs.*$RIG/slow")
rig_configs ttl=30s connect_timeout=5s prefix="$RIG/slow/"
rr flushall >/dev/null
peer w on A env DLOCK_CONFIG="$RIG/A.conf" stdbuf -oL "$CTL" watch --interval 100ms
for n in 1 2 3 4; do
	rr set "dlock:$RIG/slow/$n" "$(made_token A 1 w)" px 600000 >/dev/null
	hear w
	like "$HEARD" "\\+ $RIG/slow/$n EX w " "a look: $n"
	[ "$n" != 1 ] || kill -STOP "$server"
done
looks_by_one()
{
	[ "$(pgrep -c -P "$(pids_of A -o -x dlockctl)")" = 1 ]
}
ok 'a share that hangs: one looks there, and none is left of those before' \
	until_true 5 looks_by_one
kill -CONT "$server"
kill "$(pids_of A -o -x dlockctl)"
peer_end w
rig_configs ttl=30s connect_timeout=5s

# --- one of two servers ---
master_up 2
rig_also A second "$RIG/other/" ttl=30s connect_timeout=5s \
	url="redis://127.0.0.1:${MASTER_PORT[2]}/0"
# comes I FILE WHY, goes I FILE WHY: at that server; and it is the next that is told
comes()
{
	m "$1" set "dlock:$2" "$(made_token A 1 web1)" px 600000 >/dev/null
	hear w
	like "$HEARD" "^[0-9:]{8} \\+ $2 EX web1 " "$3"
}
goes()
{
	m "$1" del "dlock:$2" >/dev/null
	hear w
	like "$HEARD" "^[0-9:]{8} - $2 EX web1 " "$3"
}
rr flushall >/dev/null
peer w env DLOCK_CONFIG="$RIG/A.conf" stdbuf -oL "$CTL" watch --interval 100ms
comes 1 "$MNT/one" 'two servers: what comes at the first one'
comes 2 "$RIG/other/two" '... and at the second one'
master_kill 2
ok 'one is away' until_true 5 grep -q refused "$RIG/w.err"
comes 1 "$MNT/more" '... what comes at the other one is told'
goes 1 "$MNT/one" '... and what goes there; nothing of the one that is away'
master_up 2
hear w
like "$HEARD" " - $RIG/other/two EX web1 " '... but when that answers, and has it no more'
kill "${PEER_PID[w]}"
peer_end w
master_kill 2
peer w env DLOCK_CONFIG="$RIG/A.conf" stdbuf -oL "$CTL" watch --interval 100ms
hear w
like "$HEARD" " \\+ $MNT/more EX web1 " 'one was never there: what the other one has is told'
kill "${PEER_PID[w]}"
peer_end w

# --- one server, by two users ---
# their FILE: what a program has at the server, which tells both its path
their()
{
	rr set "dlock:$MNT/$1" "$(made_token A 1 web1) $MNT/$1" px 600000 >/dev/null
	hear w
	like "$HEARD" "^[0-9:]{8} \\+ $MNT/$1 EX web1 " "$2"
}
rr flushall >/dev/null
rr acl setuser ann on '>x' '~*' '&*' +@all >/dev/null
rig_configs ttl=30s connect_timeout=5s url="redis://ann:x@127.0.0.1:$PORT/0"
rig_also A second "$RIG/other/" ttl=30s connect_timeout=5s
peer w env DLOCK_CONFIG="$RIG/A.conf" stdbuf -oL "$CTL" watch --interval 100ms
their one 'one server, by two users: what comes'
their two '... comes once'
rr acl setuser ann off >/dev/null
ok '... one is let in no more' until_true 5 grep -q WRONGPASS "$RIG/w.err"
their three '... what the other one sees is news only if it is new'
rr acl setuser ann on >/dev/null
their four '... and so when both are let in again'
rr del "dlock:$MNT/two" >/dev/null
hear w
like "$HEARD" " - $MNT/two EX web1 " '... what goes goes once'
rr del "dlock:$MNT/one" >/dev/null
hear w
like "$HEARD" " - $MNT/one EX web1 " '... as the next one does'
kill "${PEER_PID[w]}"
peer_end w
rig_configs ttl=30s connect_timeout=5s

redis_kill
ctl watch --count 2 --interval 100ms
is "$STATUS $(grep -c refused <<<"$ERR")" '69 2' \
	'no server: it goes on, and says so each time'
ctl --json watch --count 4 --interval 100ms
is "$STATUS $(grep -c refused <<<"$ERR") $(json '.messages | length')" '69 4 1' \
	'... and keeps it once, for machines'
done_testing
