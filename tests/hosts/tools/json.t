#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# dlockctl --json: every verb prints one object, whatever happens: at work, with
# what comes and goes meanwhile, on errors; and each member of it stands in the
# manual.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

rig_start disks
rig_configs ttl=30s connect_timeout=5s
NAME=$'n\n\x1b"\xff'
KEY="dlock:$MNT/n%0A%1B\""$'\xff'
MEMBERS=$RIG/members
# (lock has no --json: standard output is its command's; lock.t)
verbs=$("$CTL" help | sed -n 's/^  \([a-z]\{2,\}\)\( .*\)\?$/\1/p' |
	grep -vx lock)
ok 'there are verbs' test "$(wc -w <<<"$verbs")" -ge 6

# arguments VERB: some that it takes, one a line
arguments()
{
	case $1 in
	show | explain | history) printf '%s\0' "$MNT/$NAME" ;;
	watch) printf '%s\0' --count 1 ;;
	break) printf '%s\0' --yes "$MNT/$NAME" ;;
	esac
}

# called VERB [ARG...]: "STATUS WRONG", where WRONG is nothing or what is not as
# it has to be
called()
{
	local verb=$1 args

	shift
	mapfile -d '' args < <(arguments "$verb")
	ctl "$@" --json "$verb" "${args[@]}"
	jq -r '.. | objects | keys[]' "$RIG/out" >>"$MEMBERS" 2>/dev/null
	echo "$STATUS $(jq -s --arg verb "$verb" --argjson status "$STATUS" \
		'if length == 1 and (.[0] | .schema == 1 and .verb == $verb and
		  .status == $status and (.messages | type) == "array" and
		  (.status == 0 or .verb == "check" or .verb == "doctor" or
		   (.messages | length) > 0)) then empty else . end' \
		"$RIG/out" 2>&1)$(grep -c $'\x1b' "$RIG/err" "$RIG/out" |
			grep -v ':0$')"
}

# as_expected TEXT STATUS-OF-CHECK PATTERN [ARG...]: of all verbs; doctor has
# statuses of its own (doctor.t)
as_expected()
{
	local text=$1 check=$2 pattern=$3 verb

	shift 3
	for verb in $verbs; do
		if [ "$verb" = check ]; then
			like "$(called "$verb" "$@")" "^$check $" "$text: check"
		elif [ "$verb" = doctor ]; then
			like "$(called "$verb" "$@")" "^[0-3] $" "$text: doctor"
		else
			like "$(called "$verb" "$@")" "^$pattern $" \
				"$text: $verb"
		fi
	done
}

# --- at work: hostile names, foreign keys, records, who waits ---
fill()
{
	local far

	far="$(made_token elsewhere 5 "$(printf 'w\033')")"
	rr set "$KEY" "$(made_token A 5 "$(printf 'v\033')")" px 600000 >/dev/null
	rr hset "{$KEY}%q" head 1 tail 1 1 "$(printf '%015d 600000 - EX %s' \
		$((($(date +%s) + 600) * 1000)) "$far")" >/dev/null
	rr set "$KEY%rec" $'\x1b\xff\n' >/dev/null
	rr rpush "dlock:$MNT/l" x >/dev/null
	rr set "dlock:"$'\x1b\xff\n' x >/dev/null
	rr hset "dlock:$MNT/h" dlock 1 "$far" 99999999999999 \
		$'\x1b' 99999999999999 >/dev/null
}
on A touch "$NAME"
fill
as_expected 'at work' 1 0
rr flushall >/dev/null
is "$(called break)" '1 ' 'break: there is nothing to be broken'

# --- what vanishes, and becomes another, meanwhile ---
redis-cli -s "$RIG/redis.sock" -r -1 eval '
	local n, key = redis.call("INCR", "turns") % 5, KEYS[1]
	redis.call("DEL", key, KEYS[2])
	if n == 0 then
		redis.call("SET", key, ARGV[1])
		redis.call("HSET", KEYS[2], "head", 1, "tail", 1, 1, "x")
	elseif n == 1 then
		redis.call("HSET", key, "dlock", 1, ARGV[1], 99999999999999)
		redis.call("SET", KEYS[2], "x")
	elseif n == 2 then
		redis.call("RPUSH", key, "x")
	elseif n == 3 then
		redis.call("HSET", key, "other", 1)
	end' 2 "$KEY" "{$KEY}%q" "$(made_token A 5 web1)" >/dev/null 2>&1 &
CHURN=$!
look()
{
	for verb in $verbs; do
		echo "$verb $(called "$verb")"
		[ "$verb" != list ] ||
			jq -c '[.locks[].mode]' "$RIG/out" >>"$RIG/modes"
	done
}
two_were_seen()
{
	look >>"$RIG/seen"
	[ "$(sort -u "$RIG/modes" | wc -l)" -ge 2 ]
}
for _ in {1..8}; do
	look
done >"$RIG/seen"
changes=0
until_true 20 two_were_seen || changes=1
kill "$CHURN"
wait "$CHURN" 2>/dev/null
is "$(grep -vxE '[a-z]+ 0 |(check|break) 1 |doctor [12] ' "$RIG/seen")" '' \
	'what comes and goes is no error'
is "$changes" 0 '... and was seen to (control)'
rr flushall >/dev/null

# --- the user of dlock.conf(5), who may do all of it; and one who may not ---
manual_user
rr set "$KEY" "$(made_token A 5 web1)" px 600000 >/dev/null
as_expected 'the user of dlock.conf(5)' 0 0 -c "$RIG/dlock.conf"
rr acl setuser deaf on '>x' '~mine:*' '&*' +@all >/dev/null
sed "s,redis://,&deaf:x@," "$RIG/A.conf" >"$RIG/deaf.conf"
rr set "$KEY" x >/dev/null
as_expected 'who may not' 3 '(77|0)' -c "$RIG/deaf.conf"
is "$(called list -c "$RIG/deaf.conf")" '77 ' '... see (control)'
is "$(rr get "$KEY")" x 'nothing was broken'

# --- errors ---
as_expected 'no configuration' 3 78 -c "$RIG/none.conf"
as_expected 'an unknown option' 3 64 --frobnicate
ctl --json
is "$STATUS $(jq -c '[.schema, .verb, .status]' <<<"$OUT")" '64 [1,null,64]' \
	'no verb'
ctl --json frob
is "$STATUS $(jq -c '[.verb, .messages]' <<<"$OUT")" \
	'64 [null,["frob: no such verb; see dlockctl help"]]' 'no such verb'
redis_kill
as_expected 'no server' 2 '(69|0)'

# --- the manual ---
manual=$(sed -n 's/^\.Li \([a-z_]*\).*/\1/p' "$TOP/tools/dlockctl.1")
is "$(sort -u "$MEMBERS" | comm -23 - <(sort -u <<<"$manual"))" '' \
	'each member stands in the manual'
ok '... of some forty (control)' test "$(sort -u "$MEMBERS" | wc -l)" -ge 40
done_testing
