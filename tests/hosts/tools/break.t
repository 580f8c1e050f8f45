#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# dlockctl break: what was shown goes, and nothing else; who waits is served; who
# held it says so at its next renewal.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

# What is left on purpose (history.t).
forget()
{
	rr keys '*%h' | xargs -r -d '\n' redis-cli -s "$RIG/redis.sock" del \
		>/dev/null
}

# An answer may come two seconds late.
TIMES=(ttl=12s connect_timeout=2s)

rig_start disks
# Here who has lost its lease lives on, to be looked at.
rig_configs "${TIMES[@]}" path_more='on_lost = "report"'
on A touch f g r
export DLOCK_LOG=info:$RIG/log
CTL_LOG=$RIG/ctl.log

# brk ARG...: with a log of its own; its standard input is ours
brk()
{
	STATUS=0
	on A env DLOCK_CONFIG="$RIG/A.conf" DLOCK_LOG="warning:$CTL_LOG" \
		"$CTL" break "$@" >"$RIG/out" 2>"$RIG/err" || STATUS=$?
	OUT=$(cat "$RIG/out")
	ERR=$(cat "$RIG/err")
}

is_lost()
{
	grep -q "$1.*is LOST" "$RIG/log"
}

outcomes()
{
	jq -c '[.leases[].outcome]' <<<"$OUT" 2>&1
}

# --- a lease of a whole file ---
locker one dl A
locker two dl B
locker three dl B
for p in one two three; do
	ask "$p" 'open f f'
	ask "$p" 'open r r'
done
ask one 'lock f EX'
brk f </dev/null
is "$STATUS" 1 'no answer is a no'
like "$ERR" 'Break 1 lease\?.*nothing is broken' 'it has asked'
like "$OUT" "$MNT/f +EX .* locker " 'and shown what'
brk f <<<no
is "$STATUS" 1 'no is a no'
brk f <<<y
is "$STATUS" 1 'and so is all but yes'
ask two 'lock f EX NB'
is "$RESULT" EAGAIN 'nothing was broken (control)'
say two 'lock f EX'
waits_for_f()
{
	[ "$(rr hlen "{dlock:$MNT/f}%q")" = 3 ]
}
ok 'one waits' until_true 10 waits_for_f
brk f <<<yes
is "$STATUS" 0 'yes'
hear two 5
is "$RESULT" 0 'who waits is served'
like "$(cat "$CTL_LOG")" \
	"dlockctl break by uid 0: $MNT/f: broken: dlock1 [0-9a-f]{32} " \
	'it is logged, with the token'
ok 'the holder notices at its next renewal' until_true 10 is_lost "$MNT/f"
like "$(token_of f)" ' locker$' "the next one's lease is there"
ask two 'lock f UN'
ask one 'lock f UN'
forget
rig_empty 15

# --- a token ---
ask one 'lock f SH'
ask two 'lock f SH'
ctl_on A --json show f
token=$(jq -r '.locks[] | select(.held_ms >= 0) | .token' <<<"$OUT" | head -1)
cp "$RIG/out" "$RIG/shared"
is "$(jq '.locks | length' <<<"$OUT")" 2 'two share it (control)'
brk --json --yes --token "$token"
is "$STATUS $(outcomes)" '0 ["broken"]' '--token: one of two that share'
is "$(rr hlen "dlock:$MNT/f")" 2 'the other one has it still'
brk --yes --token "$token"
is "$STATUS $ERR" '1 dlockctl: no such lease is held' 'once is enough'
brk --yes --token "$token" /etc/hostname
is "$STATUS" 1 'a path of no rule'
like "$ERR" 'no rule manages it' 'it says so'
cp "$RIG/A.conf" "$RIG/two.conf"
cat >>"$RIG/two.conf" <<-END
	redis "away" {
	    url = "redis://127.0.0.1:1/0"
	}
	path "/away/" {
	    redis = "away"
	}
END
brk -c "$RIG/two.conf" --yes --token "$token"
is "$STATUS" 69 'once more, and another server is away: 69'
unlike "$ERR" 'no such lease' '... for it may have it'
token=$(jq -r --arg token "$token" '.locks[] | .token |
	select(. != $token)' "$RIG/shared")
brk -c "$RIG/two.conf" --json --yes --token "$token"
is "$STATUS $(outcomes) $(rr exists "dlock:$MNT/f")" '69 ["broken"] 0' \
	'what the one has is broken, though the other is away'
like "$ERR" 'redis "away": 127.0.0.1:1/0: ' '... and that is told'
ask one 'lock f UN'
ask two 'lock f UN'
forget
rig_empty 15

# --- what changed in between stays ---
lock_anew()
{
	ask one 'lock f UN'
	ask two 'lock f EX'
}
ask one 'lock f EX'
meanwhile f true
is "$STATUS $(outcomes)" '0 ["broken"]' 'nothing has changed (control)'
like "$ERR" "^PATH .*"$'\n'"$MNT/f +EX .*"$'\n''Break 1 lease\?' \
	'who is asked with --json was shown what about'
ask one 'lock f UN'
ask one 'lock f EX'
meanwhile f lock_anew
is "$STATUS $(outcomes)" '1 ["changed"]' 'another has it by now: not touched'
like "$ERR" 'changed in between: not touched' 'it says so'
like "$(token_of f)" '^dlock1 ' 'its lease is there'
ask two 'lock f UN'

# --- record locks ---
renewed_once()
{
	[ "$(rr pttl "dlock:$MNT/r%rec")" -gt "$1" ]
}
renewed()
{
	until_true 10 renewed_once 10000
	until_true 10 eval '! renewed_once 10000'
	until_true 10 renewed_once 10000
}
more_ranges()
{
	ask one 'range r F_WRLCK 100 1'
}
ask one 'range r F_WRLCK 0 10'
ask one 'range r F_RDLCK 20 10'
ask two 'range r F_WRLCK 50 10'
meanwhile r more_ranges
is "$STATUS $(jq -c '[.leases[].outcome] | sort' <<<"$OUT")" \
	'1 ["broken","changed"]' 'an owner that has locked more: not touched'
ask three 'range r F_WRLCK 0 1'
is "$RESULT" EAGAIN 'its ranges are there'
ctl_on A --json show r
is "$(jq -c '[.locks[].start] | sort' <<<"$OUT")" '[0,20,100]' \
	"the other's are not"
say three 'range r F_WRLCK 5 1 WAIT'
waits_for_r()
{
	[ "$(rr hlen "{dlock:$MNT/r%rec}%q")" = 3 ]
}
ok 'one waits' until_true 10 waits_for_r
meanwhile r renewed
is "$STATUS $(outcomes)" '0 ["broken"]' \
	'a renewal in between changes nothing: all its ranges are one lease'
hear three 5
is "$RESULT" 0 'who waits is served'
ok 'the holder notices' until_true 10 is_lost "$MNT/r"
for p in one two three; do
	ask "$p" 'range r F_UNLCK 0 0'
done
forget
rig_empty 15

# --- who has done it ---
rr set "dlock:$MNT/f" "$(made_token B 5 x)" px 600000 >/dev/null
: >"$CTL_LOG"
DLOCK_LOG=error:$CTL_LOG SUDO_USER=$'an\nna' ctl break --yes "$MNT/f"
is "$STATUS" 0 'with a log of errors alone, by sudo'
like "$(cat "$CTL_LOG")" "break by uid 0, SUDO_USER an.x0ana: $MNT/f: broken: " \
	'it is logged, too'
is "$(wc -l <"$CTL_LOG")" 1 '... on one line'
long=$(printf '%0100d/' {1..20})f
rr set "dlock:$MNT/$long" "$(made_token B 5 x)" px 600000 >/dev/null
: >"$CTL_LOG"
DLOCK_LOG=warning:$CTL_LOG ctl break --yes --token "$(printf %032x 7)"
like "$STATUS $(cat "$CTL_LOG")" "^0 .*/0+1/.*: broken: dlock1 .* nightly\$" \
	'... and of a long path with the whole token'
forget

# --- others' ---
rr set "dlock:$MNT/f" $'jo\x1bined' >/dev/null
brk f --yes
is "$STATUS $(rr exists "dlock:$MNT/f")" '0 0' 'a foreign lock without a ttl'
unlike "$(cat "$CTL_LOG")$OUT" $'\x1b' 'its name does nothing'
rr set "dlock:$MNT/f%rec" joined >/dev/null
brk f --yes
is "$STATUS $(rr exists "dlock:$MNT/f%rec")" '0 0' '... of record locks'
rr hset "dlock:$MNT/f" dlock 1 joined 99999999999999 other 99999999999999 \
	>/dev/null
brk --token joined --yes
is "$STATUS $(rr hlen "dlock:$MNT/f")" '0 2' 'one that shares'
rr del "dlock:$MNT/f" >/dev/null
rr set "dlock:$MNT/f" "$(printf %040d 0)" >/dev/null
rr rpush "dlock:$MNT/f%rec" x >/dev/null
brk --json f --yes
is "$STATUS $(outcomes) $(rr exists "dlock:$MNT/f" "dlock:$MNT/f%rec")" \
	'1 ["refused","refused"] 2' \
	'what is too long to be compared, and what is no lock, stays'
rr flushall >/dev/null
rr script flush >/dev/null
ask one 'open f f'
rr set "dlock:$MNT/f" "$(made_token B 5 x)" >/dev/null
rr script flush >/dev/null
brk f --yes
is "$STATUS $(rr exists "dlock:$MNT/f")" '0 0' \
	'a server that does not know the scripts'

# --- what is released, and kept for hold_at_least ---
rr flushall >/dev/null
rig_configs "${TIMES[@]}" path_more='hold_at_least = "60s"'
locker four dl A
locker five dl B
for p in four five; do
	ask "$p" 'open g g'
done
ask four 'lock g EX'
ask four 'lock g UN'
is_kept()
{
	ctl_on A --json list
	[ "$(jq -r '.locks[0].note' <<<"$OUT")" = \
		'released, kept for hold_at_least' ]
}
ok 'list says that it is released' until_true 5 is_kept
is "$(jq -c '.locks[0] | [.held_ms, .ttl_ms > 50000]' <<<"$OUT")" \
	'[null,true]' '... and for how long it is kept'
ask five 'lock g EX NB'
is "$RESULT" EAGAIN 'others are kept out (control)'
brk g --yes
is "$STATUS" 0 'it is broken'
ask five 'lock g EX NB'
is "$RESULT" 0 'and they have it'
ask five 'lock g UN'
rr flushall >/dev/null
rig_configs "${TIMES[@]}" path_more='on_lost = "report"'

# --- no ---
brk
is "$STATUS" 64 'neither a path nor a token: 64'
rr set "dlock:$MNT/f" "$(made_token B 5 x)" >/dev/null
rr acl setuser reader on '>x' '~*' '&*' +@read +@connection +info +ping >/dev/null
sed "s,redis://,&reader:x@," "$RIG/A.conf" >"$RIG/reader.conf"
brk -c "$RIG/reader.conf" --json --yes f
is "$STATUS $(outcomes)" '77 ["failed"]' 'who may only read: 77'
is "$(rr exists "dlock:$MNT/f")" 1 'it stays'
rig_config A "${TIMES[@]}" restart_delay=1h
brk --yes f
is "$STATUS" 0 'a young server'
like "$ERR" 'within its restart_delay: holders that live put' 'is warned of'
redis_kill
brk --yes f
is "$STATUS" 69 'no server: 69'
done_testing
