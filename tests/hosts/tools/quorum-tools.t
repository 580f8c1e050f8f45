#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlockctl with a quorum: what its masters have is one lock, and one of them that is
# away is told of and no more.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

rig_start disks
rig_configs ttl=12s connect_timeout=2s
export DLOCK_LOG=warning:$RIG/log
locker a dl A
ask a 'open f f'
ask a 'lock f EX'
is "$RESULT" 0 'a lock'
all_have_it()
{
	[ "$(votes f)" = 3 ]
}
ok '... that all masters have' until_true 5 all_have_it
ctl_on A --json list
is "$STATUS $(json '[.locks[] | .mode, .command, .note]')" \
	'0 ["EX","locker",null]' 'list: one row'
m 1 set "dlock:$MNT/half" "$(made_token B 5 web1)" px 600000 >/dev/null
ctl_on A --json list --path "$MNT/half"
is "$(json '[.locks[].note]')" '["at 1 of 3 masters, no majority"]' \
	'... of which it says if there is no majority'
ctl_on A --json check
is "$STATUS $(json '[.state, .locks]')" '0 ["OK",2]' 'check'
ctl_on A --json stats
is "$STATUS $(json '[.servers[] | .redis, .up]')" '0 ["main",true]' 'stats'
ctl_on A --json doctor
is "$(json '[.findings[] | select(.check | IN("privileges", "persistence") | not) |
	.what]')" '[]' 'doctor: nothing but what this rig is'
is "$(json '[.findings[] | select(.check == "privileges")] | length')" 3 \
	'... of each master'
m 1 del "dlock:$MNT/half" >/dev/null
# Where a master was away when doctor ran on that host, another one knows it.
boot=$(tr -d - </proc/sys/kernel/random/boot_id)
rr set "dlock:$MNT/far" "$(made_token elsewhere 100 web1)" px 600000 >/dev/null
for i in 2 3; do
	m "$i" hset dlock%fleet "${boot//[0-9]/f}:elsewhere web1" \
		"1 $(date +%s%3N) $(now)" >/dev/null
done
ctl_on A --json list --path "$MNT/far"
is "$(json '[.locks[] | .held_ms // 0 | . >= 100000 and . < 3600000]')" \
	'[true]' 'list: for how long another host has it, as one of them knows'
rr del "dlock:$MNT/far" dlock%fleet >/dev/null

# --- the fleet ---
# fleet: what doctor on host A finds of it
fleet()
{
	ctl_on A --json doctor
	json '[.findings[] | select(.check == "fleet") | .severity, .what]'
}
# other TITLE MODE ADDRESS...: host B has those, where doctor runs
other()
{
	local urls

	urls=$(printf ', "redis://%s"' "${@:3}")
	rr del dlock%fleet >/dev/null
	sed -i "s|mode = .*|mode = \"$2\"|; s|urls\{0,1\} = .*|urls = { ${urls#, } }|" \
		"$RIG/B.conf"
	[ "$2" = quorum ] || sed -i 's/urls = { \(.*\) }/url = \1/' "$RIG/B.conf"
	ctl_on B --json doctor
	like "$(fleet)" "^\\[\"CRITICAL\",\"host [^ ]+ locks $MNT/ with mode $2.*$(
		), this one with quorum ${at[*]}\"\\]$" "another host: $1"
}
at=()
for port in "$PORT" "${MASTER_PORT[@]}"; do
	at+=("127.0.0.1:$port/0")
done
ctl_on B --json doctor
is "$(fleet)" '[]' 'another host of this quorum (control)'
other 'in another order' quorum "${at[1]}" "${at[0]}" "${at[2]}"
other 'one of its masters' quorum 127.0.0.1:1/0 "${at[2]}" 127.0.0.1:2/0
other 'that one alone' single "${at[1]}"
rr del dlock%fleet >/dev/null
rig_config B ttl=12s connect_timeout=2s

master_kill 3
ctl_on A --json list
is "$STATUS $(json '[.locks[] | .mode, .note]')" \
	'0 ["EX","at 2 of 3 masters"]' 'one is away: list'
like "$ERR" "127.0.0.1:${MASTER_PORT[3]}/0: .*(refused|Broken|reset)" \
	'... it is told'
ctl_on A check
like "$STATUS $OUT" \
	"^1 DLOCK WARNING - .*1 of its 3 masters does not answer: 127.0.0.1:${MASTER_PORT[3]}/0: " \
	'check: a warning, for of the next one locks fail'
ctl_on A stats
like "$STATUS $OUT" "^0 .*127.0.0.1:${MASTER_PORT[3]}/0: " 'stats names it'
ctl_on A --json doctor
is "$(json '[.findings[] | select(.check == "answers") | .severity]')" \
	'["WARNING"]' 'doctor: a warning'
master_kill 2
ctl_on A list
is "$STATUS" 69 'two are away: 69'
ctl_on A check
is "$STATUS" 2 'check: critical'
ctl_on A --json doctor
is "$(json '[.findings[] | select(.check == "answers") | .severity]')" \
	'["CRITICAL","CRITICAL"]' 'doctor: critical'
ctl_on A show f
is "$STATUS" 69 'show says that it cannot'
like "$ERR" 'cannot connect' '... and why'
master_up 2
master_up 3
peer_end a
redis_kill
redis_up

# --- a password that cannot be read is one fault, however many masters ---
rig_config A ttl=12s connect_timeout=2s redis_more="password_file = \"$RIG/gone\""
for args in list 'show f' 'history f' check; do
	# shellcheck disable=SC2086 # words
	ctl_on A $args
	is "$(grep -c 'gone" cannot be read' <<<"$ERR")" 1 "no password: ${args% *}, once"
done
ctl_on A --json doctor
is "$(json '[.findings[] | select(.check == "answers") | .what |
	contains("cannot be used")]')" '[true]' '... and doctor'
rig_config A ttl=12s connect_timeout=2s
m 2 config set requirepass x >/dev/null
ctl_on A check
like "$STATUS $OUT" "^1 .*1 of its 3 masters cannot be used: $(
	)127.0.0.1:${MASTER_PORT[2]}/0: NOAUTH" 'one that refuses does answer'
redis-cli -s "$(master_sock 2)" -a x config set requirepass '' >/dev/null 2>&1

# --- break, of record locks, where one master lags behind ---
# asked SEQ MASTER...: there an owner has ten bytes of r, by its request SEQ
asked()
{
	local i id key="dlock:$MNT/r%rec" seq

	id=$(printf %032x 7)
	seq=$(printf %020d "$1")
	for i in "${@:2}"; do
		m "$i" hset "$key" dlock 1 "$id" "$seq $(
			)00$(date +%s -d '+10 min')000 $seq $(made_token B 5 web1)"
		m "$i" zadd "{$key}%r" 0 "O$id$(printf '%019d%019dW' 0 9)"
		m "$i" pexpire "$key" 600000
		m "$i" pexpire "{$key}%r" 600000
	done >/dev/null
}
have_r()
{
	local i

	for i in 1 2 3; do
		m "$i" exists "dlock:$MNT/r%rec"
	done | paste -sd ' '
}
on A touch r
asked 5 1
asked 7 2 3
ctl_on A --json break --yes r
is "$STATUS $(json '[.leases[].outcome]') $(have_r)" '0 ["broken"] 0 0 0' \
	'break: one that lags has it no more either'
asked 5 1 2 3
meanwhile r asked 7 2 3
is "$STATUS $(json '[.leases[].outcome]') $(have_r)" '1 ["changed"] 0 1 1' \
	'... what a majority has by a later request is not broken'
rr del "dlock:$MNT/r%rec" "{dlock:$MNT/r%rec}%r" >/dev/null

# --- two foreign holders at one key: another program's votes are split ---
# split_votes A B: A has the first master, and B the others
split_votes()
{
	local i

	m 1 set "dlock:$MNT/s" "$1" px 600000 >/dev/null
	for i in 2 3; do
		m "$i" set "dlock:$MNT/s" "$2" px 600000 >/dev/null
	done
}
on A touch s
split_votes minor major
ctl_on A --json list --path "$MNT/s"
is "$STATUS $(json '[.locks[] | .value, (.note | sub(".*\"; "; ""))]')" \
	"0 $(
	)[\"major\",\"at 2 of 3 masters\",\"minor\",\"at 1 of 3 masters, no majority\"]" \
	'list: two foreign values at one key are two holders'
ctl_on A --json break --yes --token major
is "$STATUS $(json '[.leases[] | .outcome, .lock.value]') $(votes s)" \
	'0 ["broken","major"] 1' '... of which break takes the one that it is told'
split_votes minor major
ctl_on A --json break --yes s
is "$STATUS $(json '[.leases[].outcome]') $(votes s)" '0 ["broken","broken"] 0' \
	'... or both, and then nobody has the key'

# --- history: each entry is at the first master that takes it ---
# broke MASTER...: a lease of z that those have is broken
broke()
{
	local i

	for i; do
		m "$i" set "dlock:$MNT/z" "$(made_token B "$i" web1)" px 600000
	done >/dev/null
	ctl_on A --json break --yes z
}
on A touch z none
broke 1 2 3
has_z()
{
	local i

	for i in 1 2 3; do
		m "$i" xlen "{dlock:$MNT/z}%h"
	done | paste -sd ' '
}
is "$(has_z)" '1 0 0' 'history: what is broken stands at the first master'
ctl_on A --json history z
is "$STATUS $(json '[.entries[].what]')" '0 ["broken"]' '... and is told once'
m 1 acl setuser default -xadd >/dev/null
broke 1 2 3
is "$STATUS $(has_z)" '0 1 1 0' '... or at the next one, where that refuses it'
unlike "$ERR" 'history' '... without a word'
m 1 acl setuser default +xadd >/dev/null
# (By the first master's clock, and by the second one's: one machine's.)
ctl_on A --json history z
is "$STATUS $(json '[.entries | length, (map(.at_ms) | . == (sort | reverse))]')" \
	'0 [2,true]' 'both are told, the last first'
mapfile -t fields < <(m 2 xrevrange "{dlock:$MNT/z}%h" + - count 1 | tail -n +2)
m 3 xadd "{dlock:$MNT/z}%h" '*' "${fields[@]}" >/dev/null
ctl_on A --json history z
is "$(has_z) $(json '.entries | length')" '1 1 1 2' \
	'what two masters have, for one was late, is told once'
m 3 del "{dlock:$MNT/z}%h" >/dev/null
master_kill 1
ctl_on A --json history z
is "$STATUS $(json '[.entries[].what]')" '0 ["broken"]' \
	'a master is away: what another one has is told'
like "$ERR" "127.0.0.1:$PORT/0: .*connect" '... and who is away'
ctl_on A --json history none
is "$STATUS $(json '[.entries, .status]')" '69 [[],69]' \
	'... where the others have nothing it is not known: 69'
unlike "$ERR" 'nothing is recorded' '... so that is not said'
broke 2 3
is "$STATUS" 0 'break, while the first one is away'
unlike "$ERR" 'not in its history' '... is recorded all the same'
ctl_on A --json history z
is "$STATUS $(json '[.entries[].what]')" '0 ["broken","broken"]' '... and told'
master_up 1
for i in 1 2 3; do
	m "$i" del "{dlock:$MNT/z}%h"
	m "$i" set "{dlock:$MNT/z}%h" x
done >/dev/null
broke 1 2 3
is "$STATUS" 0 'no master takes it: break does its work all the same'
like "$ERR" "dlock:$MNT/z: \"broken\" is not in its history at redis \"main\" \\($(
	)127.0.0.1:$PORT/0: WRONGTYPE.*; 127.0.0.1:${MASTER_PORT[2]}/0: WRONG.*; $(
	)127.0.0.1:${MASTER_PORT[3]}/0: WRONG.*\\): see" '... and names all of them'
rr del "{dlock:$MNT/z}%h" >/dev/null

# --- lock ---
rig_configs ttl=6s connect_timeout=1s
peer one on A env DLOCK_CONFIG="$RIG/A.conf" "$CTL" lock "$MNT/g" -- sh -c \
	'echo runs; read -r _'
hear one
is "$RESULT" runs 'lock: it runs'
ctl_on B lock -n "$MNT/g" -- true
is "$STATUS" 1 '... alone'
peer two on B env DLOCK_CONFIG="$RIG/B.conf" "$CTL" lock "$MNT/g" -- echo ran
ok 'another waits' test "$(hear two 0.5 || echo silent)" = silent
sleep 7 # longer than the ttl: it is renewed
ctl_on B lock -n "$MNT/g" -- true
is "$STATUS" 1 '... for as long as it runs'
say one go
ok '... and then has its turn' hear two
is "$RESULT" ran '... and runs'
# A split vote: the first master is free, and each other one has another's lease.
for i in 2 3; do
	m "$i" set "dlock:$MNT/h" "$(made_token B "$i" "web$i")" px 60000 >/dev/null
done
no_vote()
{
	[ "$(m 1 exists "dlock:$MNT/h")" = 0 ]
}
ctl_on B lock -n "$MNT/h" -- echo ran
is "$STATUS $OUT" '1 ' 'who has one vote is refused'
ok '... and gives it back' until_true 5 no_vote
done_testing
