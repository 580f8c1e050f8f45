#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 400
#
# dlockctl: what is locked and why, for people and for machines.
. "${0%/*}/../../lib/rig.sh"

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
	touch d/s
	for name in a d/t d/f d/w d/big d/many; do
		ln d/s "$name"
	done
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

# json FILTER: jq of $OUT, on one line; locks FILTER: of the locks in it
json()
{
	jq -c "$1" <<<"$OUT" 2>&1
}

locks()
{
	json ".locks | $1"
}

# A token of this host, taken SECONDS ago, or of another; its file is there
# under each name that is asked for.
token()
{
	local boot since file

	printf -v file '%x:%x:-' "$(stat -c %d d/s)" "$(stat -c %i d/s)"
	boot=$(tr -d - </proc/sys/kernel/random/boot_id)
	[ "$1" = here ] || boot=${boot//[0-9]/f}
	since=$(taken "$2")
	printf 'dlock1 %032x %s %s %s 42 web%%201 nightly\n' 7 "$boot" \
		"$file" "$since"
}

# share KEY FIELD MS: an owner in a hash of shared leases, with MS left.
share()
{
	rr hset "$1" dlock 1 "$2" "$(in_ms "$3")" >/dev/null
	rr pexpire "$1" 3600000 >/dev/null
}

# in_ms MS: by the server's clock.
in_ms()
{
	local s us

	{ read -r s; read -r us; } < <(rr time)
	echo $((s * 1000 + us / 1000 + $1))
}

# record KEY ID TOKEN MS {TYPE START END}...: an owner of record locks, with MS
# left, and its ranges, as the scripts keep them (shim/lease/scripts).
record()
{
	local key=$1 id head

	printf -v id %032d "$2"
	printf -v head '%020d %015d %020d %s' 3 "$(in_ms "$4")" 7 \
		"${3/ ????????????????????????????????/ $id}"
	rr hset "$key" dlock 1 "$id" "$head" >/dev/null
	shift 4
	while [ "$#" -ge 3 ]; do
		rr zadd "{$key}%r" 0 "$(printf 'O%s%019d%019d%s' "$id" "$2" \
			"$3" "$1")" 0 "$(printf 'S%s%019d%019d%s' "$1" "$2" \
			"$3" "$id")" 0 "$(printf 'E%s%019d%019d%s' "$1" "$3" \
			"$2" "$id")" >/dev/null
		shift 3
	done
	rr pexpire "$key" 3600000 >/dev/null
	rr pexpire "{$key}%r" 3600000 >/dev/null
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
while read -r args; do
	# shellcheck disable=SC2086 # words
	ctl ${args% | *}
	is "$STATUS:${ERR%%$'\n'*}" "64:dlockctl: ${args#* | }" "'${args% | *}'"
done <<'END'
-xq list | -x: no such option
list --nonsense | --nonsense: no such option
list -nw | -w: an argument is missing
list --path | --path: an argument is missing
lock --wa k | --wa: it may be several options
list --json=1 | --json=1: it takes no argument
END
for option in -c --redis --path --host; do
	ctl list "$option" ''
	like "$STATUS $ERR" '64 .*--[a-z]+: its argument is empty' \
		"$option with an argument that is empty: 64"
done

# --- list ---
ctl list
is "$STATUS:$OUT:$ERR" '0::dlockctl: no locks held' 'nothing locked'
ctl --json list
is "$STATUS $ERR $(json .)" \
	'0 dlockctl: no locks held {"schema":1,"verb":"list","locks":[],"messages":["no locks held"],"status":0}' \
	'nothing locked, for machines'

rr set "dlock:$RIG/a" "$(token here 245)" px 1830000 >/dev/null
rr set 'D:f%rec' "$(token there 245)" px 1830000 >/dev/null
rr set 'D:foreign' "$(printf 'x\033[31m%0100d' 0)" >/dev/null
rr rpush 'D:list' 1 >/dev/null
rr set '{D:f}%q' 1 >/dev/null
ctl list
is "$STATUS" 0 'locks are found'
is "$(wc -l <<<"$OUT")" 5 'a row each, and no companions'
like "$OUT" "$RIG/a +EX +web 1 +42 +nightly +[4-9]m[0-9]+s +(30|29|28)m[0-9]+s +0" \
	'a lock of this host'
like "$OUT" "$RIG/d/f +WRITE 0- +web 1 +42 +nightly +- +(30|29|28)m" \
	'record locks; how long is known here only'
like "$OUT" "$RIG/d/foreign +EX +foreign .* none .*never expires" \
	'a foreign holder without a ttl'
like "$OUT" "$RIG/d/list +\\? .*not a lock \(type list\)" 'another type'
like "$OUT" 'x\\x1b\[31m' 'control bytes are escaped'
unlike "$OUT" $'\x1b' 'none is printed'
unlike "$OUT" '0{41}' 'of a foreign value the beginning is enough'
ctl list --json
is "$(locks '[.[] | .mode]')" '["EX","WRITE","EX","?"]' 'modes, for machines'
is "$(locks '.[0] | [.path, .family, .owner, .host, .pid, .waiters]')" \
	"[\"$RIG/a\",\"flock\",\"dlock\",\"web 1\",42,0]" \
	'facts, for machines'
is "$(locks '[.[] | .held_ms == null]')" '[false,true,true,true]' \
	'unknown times are null'
is "$(locks '.[2].value | length')" 40 'a foreign value, for machines'

rr set $'D:not\xffutf8' "$(token here 1)" px 1830000 >/dev/null
ctl list --json
is "$(locks '.[-1].path | endswith("ÿutf8")')" true 'not UTF-8: \u00XX'
ctl list
like "$OUT" 'not\\xffutf8' 'not UTF-8: \xNN'

rr flushall >/dev/null
redis-cli -s "$RIG/redis.sock" eval \
	'for i = 1, 3000 do redis.call("SET", "D:" .. i, "x") end' 0 >/dev/null
ctl list --json
is "$(locks length)" 3000 'many locks'
rr flushall >/dev/null
head -c 3000000 /dev/zero | redis-cli -s "$RIG/redis.sock" -x set D:huge \
	>/dev/null
ctl list
like "$OUT" 'D?/huge|d/huge' 'a huge value is no obstacle'
rr flushall >/dev/null

# --- list: shared locks ---
share D:s "$(token here 245)" 1230000
share D:s "$(token there 245 | sed 's/ 42 web/ 43 far/')" 2430000
share D:s "$(token here 5 | sed 's/ 42 web/ 44 web/')" -1
ctl list
is "$STATUS:$(wc -l <<<"$OUT")" 0:3 'a row for each owner that lives'
like "$OUT" "$RIG/d/s +SH +web 1 +42 +nightly +[4-9]m[0-9]+s +(20|19|18)m[0-9]+s +0" \
	'a shared owner of this host, and what its own lease has left'
like "$OUT" "$RIG/d/s +SH +far 1 +43 +nightly +- +(40|39|38)m[0-9]+s +0" \
	'one of another host'
unlike "$OUT" ' 44 ' 'an expired owner is none'
unlike "$OUT" NOTE 'nothing is odd about them'
ctl list --json
is "$(locks '[.[] | [.path, .key, .mode, .family, .owner, .host, .pid]] ==
	[["'"$RIG"'/d/s", "D:s", "SH", "flock", "dlock", "far 1", 43],
	 ["'"$RIG"'/d/s", "D:s", "SH", "flock", "dlock", "web 1", 42]]')" true \
	'for machines'
is "$(locks '[.[] | .ttl_ms > 1800000, .held_ms == null, .note]')" \
	'[true,true,null,false,false,null]' 'their times, for machines'

share D:s $'joined\033[31m' 1230000
share D:s "dlock1 $(printf %0800d 0)" 1230000
rr hset D:s odd soon >/dev/null
ctl list
like "$OUT" 'SH +foreign .*foreign: "joined\\x1b\[31m"'$'\n' \
	'a foreign owner among ours'
like "$OUT" 'foreign: "dlock1 0{33}"' 'what is longer than a token is cut'
like "$OUT" 'none +0 +foreign: "odd"; its expiry is no number' \
	'an expiry that is none'
rr persist D:s >/dev/null
ctl list
is "$(grep -c 'no ttl: this key never expires' <<<"$OUT")" 5 \
	'a hash without a ttl'
rr flushall >/dev/null

share D:s "$(token here 245)" -1
ctl list
is "$STATUS:$OUT" 0: 'expired owners alone hold nothing'
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
rr pexpire D:big 1830000 >/dev/null
ctl list --json
is "$STATUS $(locks '[length, .[-1].mode, .[-1].owner, .[-1].note]')" \
	'0 [4097,"SH","unknown","904 more not shown"]' \
	'of a big hash a part is enough'
is "$(locks '[.[] | .value] | unique | length')" 4097 'each owner once'
rr flushall >/dev/null
share D:s "$(token here 1)" 1830000
rr set D:t "$(token here 1)" px 1830000 >/dev/null
head -c 3000000 /dev/zero | tr '\0' x |
	redis-cli -s "$RIG/redis.sock" -X FIELD hset D:s FIELD 1 >/dev/null
ctl list --json
is "$STATUS $(locks '[.[-2:][] | .path, .mode, .note]')" \
	"0 [\"$RIG/d/s\",\"SH\",\"2 more not shown\",\"$RIG/d/t\",\"EX\",null]" \
	'a huge owner is no obstacle'
rr flushall >/dev/null

# --- list: record locks ---
END=9223372036854775807
far=$(token there 245 | sed 's/ 42 web/ 43 far/')
record D:f%rec 1 "$(token here 245)" 1230000 W 0 9 R 10 $END
record D:f%rec 2 "$far" 2430000 R 4096 4097
record D:f%rec 3 "$(token here 5 | sed 's/ 42 web/ 44 web/')" -1 W 500 600
rr set 'dlock%wait:0011223344556677' 1 >/dev/null
ctl list
is "$STATUS:$(wc -l <<<"$OUT")" 0:4 'a row for each range of who lives'
like "$OUT" "d/f +WRITE 0-9 +web 1 +42 +nightly +[4-9]m[0-9]+s +(20|19|18)m[0-9]+s +0" \
	'an owner of this host'
like "$OUT" "d/f +READ 10- +web 1 +42 +nightly +[4-9]m[0-9]+s +(20|19|18)m[0-9]+s +0" \
	'a range of it to the end'
like "$OUT" "d/f +READ 4096-4097 +far 1 +43 +nightly +- +(40|39|38)m[0-9]+s +0" \
	'an owner of another host'
unlike "$OUT" ' 44 ' 'an expired owner is none'
unlike "$OUT" NOTE 'nothing is odd about them'
is "$(awk '{ print index($0, NR == 1 ? "COMMAND" : "nightly") }' <<<"$OUT" |
	sort -u | wc -l)" 1 'the columns line up'
ctl list --json
is "$(locks '[.[] | [.path, .key, .family, .mode, .start, .end, .host, .pid]] ==
	[["'"$RIG"'/d/f", "D:f%rec", "record", "READ", 4096, 4097, "far 1", 43],
	 ["'"$RIG"'/d/f", "D:f%rec", "record", "WRITE", 0, 9, "web 1", 42],
	 ["'"$RIG"'/d/f", "D:f%rec", "record", "READ", 10, null, "web 1", 42]]')" \
	true 'for machines'
is "$(locks '[.[] | .ttl_ms > 1800000, .held_ms == null, .owner, .note]')" \
	'[true,true,"dlock",null,false,false,"dlock",null,false,false,"dlock",null]' \
	'their times, for machines'
rr persist D:f%rec >/dev/null
ctl list
is "$(grep -c 'no ttl: this key never expires' <<<"$OUT")" 3 \
	'record locks without a ttl'
rr flushall >/dev/null

rr set D:s%rec "$(token here 5)" px 1830000 >/dev/null
rr set D:t%rec joined >/dev/null
rr set D:u "$(token here 5)" px 1830000 >/dev/null
ctl list --json
is "$(locks '[.[] | [.key, .mode, .owner, has("start"), .start, .end]]')" \
	'[["D:s%rec","WRITE","dlock",true,0,null],["D:t%rec","WRITE","foreign",true,0,null],["D:u","EX","dlock",false,null,null]]' \
	'a string is a write lock on the whole file'
rr flushall >/dev/null

record D:f%rec 1 "$(token here 245)" -1 W 0 9
ctl list
is "$STATUS:$OUT" 0: 'expired owners of records alone hold nothing'
rr persist D:f%rec >/dev/null
ctl list
like "$OUT" 'd/f +\? +unknown .* none .*no owner; no ttl: this key never' \
	'but their hash is in the way if it stays'
rr flushall >/dev/null

record D:f%rec 1 "$(token here 245)" 1230000 W 0 9
rr hset D:f%rec "$(printf %032d 2)" $'joined\033[31m' >/dev/null
rr zadd '{D:f%rec}%r' 0 "$(printf 'O%032d%019d%019dR' 2 20 29)" >/dev/null
rr zadd '{D:f%rec}%r' 0 "$(printf 'O%032d%019d%019dR' 3 30 39)" \
	0 O 0 "$(printf 'O%032d%019d%019dX' 1 40 49)" \
	0 "$(printf 'O%032d%019d%019dW' 1 59 50)" \
	0 "O${END}x" 0 P 0 A >/dev/null
ctl list
is "$STATUS:$(wc -l <<<"$OUT")" 0:3 'what is no range is none'
like "$OUT" 'd/f +READ 20-29 +foreign .*foreign: "joined\\x1b\[31m"; its exp' \
	'a foreign owner among ours'
rr del '{D:f%rec}%r' >/dev/null
ctl list
like "$OUT" 'd/f +\? +unknown .*its ranges are lost'$ 'ranges that are lost'
is "$(wc -l <<<"$OUT")" 2 'they are one row'
rr set '{D:f%rec}%r' 1 >/dev/null
ctl list
like "$OUT" 'd/f +\? +unknown .*its ranges are at a key of another type' \
	'ranges of another type'
rr del '{D:f%rec}%r' >/dev/null
head -c 3000000 /dev/zero | tr '\0' O |
	redis-cli -s "$RIG/redis.sock" -X M zadd '{D:f%rec}%r' 0 M >/dev/null
rr set D:t "$(token here 1)" px 1830000 >/dev/null
ctl list --json
is "$STATUS $(locks '[.[] | .path, .mode, .note]')" \
	"0 [\"$RIG/d/f\",\"?\",\"1 more ranges not shown\",\"$RIG/d/t\",\"EX\",null]" \
	'a huge range is no obstacle'
head -c 3000000 /dev/zero | tr '\0' x |
	redis-cli -s "$RIG/redis.sock" -X FIELD hset D:f%rec FIELD 1 >/dev/null
ctl list --json
is "$STATUS $(locks '[.[] | .mode, .note]')" \
	'0 ["?","3 more not shown; 1 more ranges not shown","EX",null]' \
	'nor is a huge owner'
rr flushall >/dev/null

# ranges N: of one owner, each in its place.
ranges()
{
	record D:big%rec 1 "$(token here 245)" 3600000
	redis-cli -s "$RIG/redis.sock" eval '
		for i = 1, ARGV[1] do
			redis.call("ZADD", KEYS[1], 0, string.format(
				"O%032d%019d%019dW", 1, 10 * i, 10 * i + 4))
		end' 1 '{D:big%rec}%r' "$1" >/dev/null
}

ranges 10000
STATUS=0
OUT=$(ulimit -v 100000; exec "$CTL" list --json) || STATUS=$?
is "$STATUS $(locks '[length, .[-1].start, ([.[] | .start] | unique | length),
	([.[] | .note] | unique)]')" '0 [10000,100000,10000,[null]]' \
	'10,000 ranges, in 100 MB of address space'
ctl list
is "$(wc -l <<<"$OUT")" 10001 'and as text'
ranges 20000
ctl list --json
is "$STATUS $(locks '[length, .[-1].mode, .[-1].note]')" \
	'0 [16385,"?","3616 more ranges not shown"]' \
	'of more a part is enough'
rr flushall >/dev/null
for i in {1..40}; do
	record D:many%rec "$i" "$(token here "$i" | sed "s/ 42 / $i /")" \
		3600000 R "$i" 100
done
ctl list --json
is "$(locks '[.[] | .pid] == [range(1; 41)]')" true 'many owners'
is "$(locks '[.[] | .start] == [range(1; 41)]')" true 'with the range of each'
rr flushall >/dev/null

# --- the real thing ---
if [ -e "$BUILD/libdlock-preload.so" ]; then
	OUT=$("$DLOCK" run flock "$RIG/d/real" "$CTL" --json list)
	is "$(locks '[.[] | .path, .mode, .owner, .command]')" \
		"[\"$RIG/d/real\",\"EX\",\"dlock\",\"flock\"]" \
		'a lock that flock(1) holds'
	is "$(locks '.[0] | .held_ms < 60000 and .ttl_ms > 1000')" true \
		'its times'
	row="\"$RIG/d/real\",\"SH\",\"dlock\",\"flock\""
	sed '1i host_id = "second"' ctl.conf >second.conf
	OUT=$("$DLOCK" run flock -s "$RIG/d/real" \
		"$DLOCK" run -c second.conf flock -s "$RIG/d/real" \
		"$CTL" --json list)
	is "$(locks '[.[] | .path, .mode, .owner, .command]')" \
		"[$row,$row]" \
		'a lock that two hosts share'
	is "$(locks '[.[] | .held_ms < 60000 and .ttl_ms > 1000]')" \
		'[true,true]' 'their times'
	ok 'it ends with them' until_true 10 db_is_empty
	cat >rec.py <<-'END'
	import fcntl, subprocess, sys
	f = open(sys.argv[1], "w+")
	fcntl.lockf(f, fcntl.LOCK_EX)
	subprocess.run(sys.argv[2:])
	fcntl.lockf(f, fcntl.LOCK_UN, 90, 10)
	fcntl.lockf(f, fcntl.LOCK_SH, 5)
	subprocess.run(sys.argv[2:])
	END
	OUT=$("$DLOCK" run /usr/bin/python3 rec.py "$RIG/d/real" \
		"$CTL" --json list)
	row="\"$RIG/d/real\",\"record\""
	is "$(jq -sc '[.[].locks[] | .path, .family, .mode, .start, .end]' \
		<<<"$OUT")" \
		"[$row,\"WRITE\",0,null,$row,\"READ\",0,4,$row,\"WRITE\",5,9,$row,\"WRITE\",100,null]" \
		'record locks that Python holds'
	is "$(jq -sc '[.[].locks[] | .held_ms < 60000 and .ttl_ms > 1000 and
		.owner == "dlock"] | unique' <<<"$OUT")" '[true]' \
		'their times'
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
like "$OUT" 'warned of after 20s, its holder killed after 29\.298s; held until 29\.698s' \
	'the timeline'
ctl explain one
like "$OUT" 'interop +true' 'what is set'
like "$OUT" 'on_lost +kill'$'\n' 'what works has no note'
like "$OUT" 'state_dir +/run/dlock' 'where shadows would be'
like "$OUT" 'fair +false'$'\n' 'what is at rest has no note'
sed 's/interop = true/& unreachable = "local"/' ctl.conf >local.conf
ctl explain -c local.conf one
like "$OUT" 'unreachable +local  \(.*no other host' 'what is to be known of it'
sed 's/key = "D:%r"/& on_lost = "pause" pause_at_most = "5m"/' ctl.conf >local.conf
ctl explain -c local.conf d/x
like "$OUT" 'its holder stopped after 29\.298s; held until .*on_lost +pause'$'\n''pause_at_most +300s' \
	'a holder that is stopped, and for how long'
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
is "$(json '[.managed, .rule.line, .flock_key, .record_key,
	.timeline.deadline_ms]')" '[true,3,"D:x","D:x%rec",29698]' \
	'explained, for machines'
# long N: a template that makes a key of N bytes of a name of 255.
long()
{
	local rest

	printf -v rest '%%r%.0s' {1..64}
	rest+=$(printf '%0*d' $(($1 - 64 * 255)) 0)
	printf 'redis "main" { url = "unix://%s/redis.sock" }\n' "$RIG"
	printf 'path "%s/" { key = "%s" }\n' "$RIG" "$rest"
}

name=$(printf %0255d 0)
long 16380 >long.conf
ctl -c long.conf explain --json "$name"
is "$(json '[(.flock_key | length), (.record_key | length)]')" \
	'[16380,16384]' 'the longest keys'
long 16381 >long.conf
ctl -c long.conf explain --json "$name"
is "$(json '[(.flock_key | length), .record_key]')" '[16381,null]' \
	'one that is too long for record locks alone'
ctl -c long.conf explain "$name"
like "$OUT" 'record key +too long  \(locking fails with ENOLCK\)' 'it says so'

# --- who waits ---
r flushall >"$RIG/none"
r set D:w "$(token here 3)" px 60000 >"$RIG/none"
ctl list --json
is "$(locks 'map(.waiters)')" '[0]' 'nobody waits'
# entry SECONDS: of a waiter whose place is believed for so long
entry()
{
	printf '%015d 2000 - EX %s' $((($(date +%s) + $1) * 1000)) "$(token here 0)"
}
r hset '{D:w}%q' head 1 tail 4 1 "$(entry 600)" 2 "$(entry -1)" \
	3 "$(entry 600)" 4 "$(entry -600)" >"$RIG/none"
ctl list --json
is "$(locks 'map(.waiters)')" '[2]' 'two wait, and the places of two dead are none'
ctl list
like "$OUT" ' 2$' 'the table says so'
r del '{D:w}%q' >"$RIG/none"
r set '{D:w}%q' x >"$RIG/none"
ctl list --json
is "$(locks 'map(.waiters)')" '[0]' 'a queue of another type is none'

# --- a server that answers to TYPE what it likes ---
r rpush dlock:/l 1 >"$RIG/none"
proxy p
typed()
{
	ctl list --redis "redis://127.0.0.1:$PROXY" "$@"
}
ask p $'change +list +\e[1m'
typed
is "$STATUS" 0 'a type of control bytes'
like "$OUT" 'not a lock \(type \\x1b\[1m\)' '... is escaped'
unlike "$OUT" $'\x1b' '... all of it'
ask p 'change +list $-1'
typed --json
is "$STATUS $(locks length)" '0 0' 'of no type at all: it is gone'
ask p 'change +list -WRONGTYPE'
typed --json
is "$STATUS $(locks length)" '0 0' '... and an error names none'
peer_end p

# --- no Redis ---
redis_kill
ctl list
is "$STATUS" 69 'Redis is gone: 69'
like "$ERR" 'redis.sock' 'it names the server'
ctl explain d/x
is "$STATUS" 0 'explain asks no server'

done_testing
