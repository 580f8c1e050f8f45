#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlockctl: what is locked and why, for people and for machines.
. "${0%/*}/../lib/rig.sh"

DLOCK=$BUILD/dlock
CTL=$BUILD/dlockctl
unset DLOCK_CONFIG DLOCK_DISABLE LD_PRELOAD

setup()
{
	RIG=$(mktemp -d "${TMPDIR:-/tmp}/dlock-ctl.XXXXXX") || exit 1
	trap rig_cleanup EXIT
	trap 'exit 130' INT TERM HUP
	mkdir "$RIG/d"
	cd "$RIG" || exit 1
	redis_up
	cat >ctl.conf <<-END
	redis "main" { url = "unix://$RIG/redis.sock" restart_delay = "0s" }
	path "$RIG/" { redis = "main" ttl = "1m" }
	path "$RIG/d/" {
	    redis = "main"
	    key = "D:%r"
	    exclude = { "*.tmp", "cache/*" }
	}
	path "$RIG/one" { redis = "main" interop = true }
	END
	export DLOCK_CONFIG=$RIG/ctl.conf
}

# ctl ARG...: $STATUS, $OUT, $ERR
ctl()
{
	STATUS=0
	"$CTL" "$@" >"$RIG/out" 2>"$RIG/err" || STATUS=$?
	OUT=$(cat "$RIG/out")
	ERR=$(cat "$RIG/err")
}

# json FILTER: jq of $OUT, on one line
json()
{
	jq -c "$1" <<<"$OUT" 2>&1
}

# A token of this host, taken SECONDS ago, or of another.
token()
{
	local boot since

	boot=$(tr -d - </proc/sys/kernel/random/boot_id)
	[ "$1" = here ] || boot=${boot//[0-9]/f}
	since=$(printf '%020d' $(($(now) - $2 * 1000000000)))
	printf 'dlock1 %032x %s 1:2:- %s 42 web%%201 nightly\n' 7 "$boot" \
		"$since"
}

# share KEY FIELD MS: an owner in a hash of shared leases, with MS left.
share()
{
	local s us

	{ read -r s; read -r us; } < <(rr time)
	rr hset "$1" dlock 1 "$2" $((s * 1000 + us / 1000 + $3)) >/dev/null
	rr pexpire "$1" 60000 >/dev/null
}

setup

# --- the command line ---
like "$("$CTL" help)" 'explain PATH' 'help is on stdout'
is "$("$CTL" --version | cut -d' ' -f1)" dlockctl '--version'
for args in '' frobnicate explain 'list x' '--nonsense list'; do
	# shellcheck disable=SC2086 # words
	ctl $args
	is "$STATUS" 64 "usage: '$args'"
done
ctl -c missing.conf list
is "$STATUS" 78 'no configuration: 78'

# --- list ---
ctl list
is "$STATUS:$OUT:$ERR" '1::dlockctl: no locks held' 'nothing locked'
ctl --json list
is "$STATUS:$OUT" '1:[]' 'nothing locked, for machines'

rr set "dlock:$RIG/a" "$(token here 65)" px 30000 >/dev/null
rr set 'D:f%rec' "$(token there 65)" px 30000 >/dev/null
rr set 'D:foreign' "$(printf 'x\033[31m%0100d' 0)" >/dev/null
rr rpush 'D:list' 1 >/dev/null
rr set '{D:f}%q' 1 >/dev/null
ctl list
is "$STATUS" 0 'locks are found'
is "$(wc -l <<<"$OUT")" 5 'a row each, and no companions'
like "$OUT" "$RIG/a +EX +web 1 +42 +nightly +1m0[5-9]s +2[0-9]\.[0-9]s +-" \
	'a lock of this host'
like "$OUT" "$RIG/d/f +WRITE +web 1 +42 +nightly +- +2" \
	'record locks; how long is known here only'
like "$OUT" "$RIG/d/foreign +EX +foreign .* none .*never expires" \
	'a foreign holder without a ttl'
like "$OUT" "$RIG/d/list +\\? .*not a lock \(type list\)" 'another type'
like "$OUT" 'x\\x1b\[31m' 'control bytes are escaped'
unlike "$OUT" $'\x1b' 'none is printed'
unlike "$OUT" '0{41}' 'of a foreign value the beginning is enough'
ctl list --json
is "$(json '[.[] | .mode]')" '["EX","WRITE","EX","?"]' 'modes, for machines'
is "$(json '.[0] | [.path, .family, .owner, .host, .pid, .waiters]')" \
	"[\"$RIG/a\",\"flock\",\"dlock\",\"web 1\",42,null]" \
	'facts, for machines'
is "$(json '[.[] | .held_ms == null]')" '[false,true,true,true]' \
	'unknown times are null'
is "$(json '.[2].value | length')" 40 'a foreign value, for machines'

rr set $'D:not\xffutf8' "$(token here 1)" px 30000 >/dev/null
ctl list --json
is "$(json '.[-1].path | endswith("ÿutf8")')" true 'not UTF-8: \u00XX'
ctl list
like "$OUT" 'not\\xffutf8' 'not UTF-8: \xNN'

rr flushall >/dev/null
redis-cli -s "$RIG/redis.sock" eval \
	'for i = 1, 3000 do redis.call("SET", "D:" .. i, "x") end' 0 >/dev/null
ctl list --json
is "$(json length)" 3000 'many locks'
rr flushall >/dev/null
head -c 3000000 /dev/zero | redis-cli -s "$RIG/redis.sock" -x set D:huge \
	>/dev/null
ctl list
like "$OUT" 'D?/huge|d/huge' 'a huge value is no obstacle'
rr flushall >/dev/null

# --- list: shared locks ---
share D:s "$(token here 65)" 20000
share D:s "$(token there 65 | sed 's/ 42 web/ 43 far/')" 40000
share D:s "$(token here 5 | sed 's/ 42 web/ 44 web/')" -1
ctl list
is "$STATUS:$(wc -l <<<"$OUT")" 0:3 'a row for each owner that lives'
like "$OUT" "$RIG/d/s +SH +web 1 +42 +nightly +1m0[5-9]s +1[89]\.[0-9]s +-" \
	'a shared owner of this host, and what its own lease has left'
like "$OUT" "$RIG/d/s +SH +far 1 +43 +nightly +- +3[89]\.[0-9]s +-" \
	'one of another host'
unlike "$OUT" ' 44 ' 'an expired owner is none'
unlike "$OUT" NOTE 'nothing is odd about them'
ctl list --json
is "$(json '[.[] | [.path, .key, .mode, .family, .owner, .host, .pid]] ==
	[["'"$RIG"'/d/s", "D:s", "SH", "flock", "dlock", "far 1", 43],
	 ["'"$RIG"'/d/s", "D:s", "SH", "flock", "dlock", "web 1", 42]]')" true \
	'for machines'
is "$(json '[.[] | .ttl_ms > 30000, .held_ms == null, .note]')" \
	'[true,true,null,false,false,null]' 'their times, for machines'

share D:s $'joined\033[31m' 20000
share D:s "dlock1 $(printf %0800d 0)" 20000
rr hset D:s odd soon >/dev/null
ctl list
like "$OUT" 'SH +foreign .*foreign: "joined\\x1b\[31m"'$'\n' \
	'a foreign owner among ours'
like "$OUT" 'foreign: "dlock1 0{33}"' 'what is longer than a token is cut'
like "$OUT" 'none +- +foreign: "odd"; its expiry is no number' \
	'an expiry that is none'
rr persist D:s >/dev/null
ctl list
is "$(grep -c 'no ttl: this key never expires' <<<"$OUT")" 5 \
	'a hash without a ttl'
rr flushall >/dev/null

share D:s "$(token here 65)" -1
ctl list
is "$STATUS:$OUT" 1: 'expired owners alone hold nothing'
rr persist D:s >/dev/null
ctl list
like "$OUT" 'SH +unknown .* none .*no owner; no ttl: this key never' \
	'but a hash that stays is in the way'
rr flushall >/dev/null

rr hset D:h a 1 >/dev/null
rr hset D:i dlock 2 "$(token here 1)" 99999999999999 >/dev/null
head -c 3000000 /dev/zero | redis-cli -s "$RIG/redis.sock" -x hset D:j dlock \
	>/dev/null
ctl list
is "$STATUS:$(grep -c ' ? .*not a lock (type hash)$' <<<"$OUT")" 0:3 \
	'a hash without the mark is no lock'
rr flushall >/dev/null

redis-cli -s "$RIG/redis.sock" eval \
	'redis.call("HSET", "D:big", "dlock", "1")
	 for i = 1, 5000 do
		redis.call("HSET", "D:big", "x" .. i, 99999999999999)
	 end' 0 >/dev/null
rr pexpire D:big 30000 >/dev/null
ctl list --json
is "$STATUS $(json '[length, .[-1].mode, .[-1].owner, .[-1].note]')" \
	'0 [4097,"SH","unknown","904 more not shown"]' \
	'of a big hash a part is enough'
is "$(json '[.[] | .value] | unique | length')" 4097 'each owner once'
rr flushall >/dev/null
share D:s "$(token here 1)" 30000
rr set D:t "$(token here 1)" px 30000 >/dev/null
head -c 3000000 /dev/zero | tr '\0' x |
	redis-cli -s "$RIG/redis.sock" -X FIELD hset D:s FIELD 1 >/dev/null
ctl list --json
is "$STATUS $(json '[.[-2:][] | .path, .mode, .note]')" \
	"0 [\"$RIG/d/s\",\"SH\",\"2 more not shown\",\"$RIG/d/t\",\"EX\",null]" \
	'a huge owner is no obstacle'
rr flushall >/dev/null

# --- the real thing ---
if [ -e "$BUILD/libdlock-preload.so" ]; then
	OUT=$("$DLOCK" run flock "$RIG/d/real" "$CTL" --json list)
	is "$(json '[.[] | .path, .mode, .owner, .command]')" \
		"[\"$RIG/d/real\",\"EX\",\"dlock\",\"flock\"]" \
		'a lock that flock(1) holds'
	is "$(json '.[0] | .held_ms < 5000 and .ttl_ms > 1000')" true \
		'its times'
	row="\"$RIG/d/real\",\"SH\",\"dlock\",\"flock\""
	sed '1i host_id = "second"' ctl.conf >second.conf
	OUT=$("$DLOCK" run flock -s "$RIG/d/real" \
		"$DLOCK" run -c second.conf flock -s "$RIG/d/real" \
		"$CTL" --json list)
	is "$(json '[.[] | .path, .mode, .owner, .command]')" \
		"[$row,$row]" \
		'a lock that two hosts share'
	is "$(json '[.[] | .held_ms < 5000 and .ttl_ms > 1000]')" \
		'[true,true]' 'their times'
	rig_empty
fi

# --- explain ---
ctl explain d/../d/x
is "$STATUS" 0 'a managed path'
like "$OUT" "path +$RIG/d/x" 'the name that the kernel has'
like "$OUT" "rule +$RIG/ctl.conf:3: path \"$RIG/d/\"" 'the rule and its place'
like "$OUT" "not by +$RIG/ctl.conf:2: .*longer prefix" 'the rule that lost'
like "$OUT" 'flock key +D:x' 'the key'
like "$OUT" 'record key +D:x%rec' 'the key of record locks'
like "$OUT" 'held until 29\.698s' 'the timeline'
ctl explain one
like "$OUT" 'interop +true  \(.*no effect yet' 'what does nothing yet'
like "$OUT" 'fair +false'$'\n' 'what is at rest has no note'
ln -s d/target link
ctl explain link
like "$OUT" "path +$RIG/d/target" 'a link that leads nowhere yet'
ctl explain d
like "$OUT" "rule +$RIG/ctl.conf:2" 'a directory is not below itself'
ctl explain d/x.tmp
is "$STATUS" 1 'an excluded path: 1'
like "$OUT" 'not managed: locks on it stay local' 'it says so'
like "$OUT" 'ctl.conf:3: .*excluded by "\*\.tmp"' 'and by what'
ctl explain --json /etc/hostname
is "$STATUS $(json '[.managed, .others]')" '1 [false,[]]' \
	'no rule, for machines'
ctl explain --json d/x
is "$(json '[.managed, .rule.line, .flock_key, .timeline.deadline_ms]')" \
	'[true,3,"D:x",29698]' 'explained, for machines'

# --- no Redis ---
redis_kill
ctl list
is "$STATUS" 69 'Redis is gone: 69'
like "$ERR" 'redis.sock' 'it names the server'
ctl explain d/x
is "$STATUS" 0 'explain asks no server'

done_testing
