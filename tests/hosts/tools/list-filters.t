#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 400
#
# dlockctl list: which locks it shows, in which order, how it fits a terminal,
# and what it says where nothing is to be shown or it may not look.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

rig_start disks
rig_configs ttl=30s connect_timeout=5s
on A mkdir -p jobs other
# What the last one said, in a subshell or not.
said()
{
	cat "$RIG/err"
}

# listed ARG...: the paths below $MNT, in order
listed()
{
	ctl --json list "$@"
	echo "$STATUS $(jq -r '.locks[].path' <<<"$OUT" |
		sed "s,^$MNT/,," | paste -sd ' ')"
}

# --- filters ---
rr set "dlock:$MNT/jobs/a" "$(made_token A 130 web1)" px 1800000 >/dev/null
rr set "dlock:$MNT/jobs/b" "$(made_token A 250 web2)" px 1200000 >/dev/null
rr set "dlock:$MNT/other/c" "$(made_token elsewhere 250 db1)" px 2400000 >/dev/null
rr set "dlock:$MNT/other/d" joined >/dev/null
rr set "dlock:$MNT/jobs/n%0Aame \"x\\" "$(made_token B 10 "$(printf 'w\033%%n')")" \
	px 600000 >/dev/null
rr hset "{dlock:$MNT/jobs/b}%q" head 1 tail 2 1 "$(queue_entry 600)" \
	2 "$(queue_entry 600)" >/dev/null
rr hset "{dlock:$MNT/jobs/a}%q" head 1 tail 2 1 "$(queue_entry -600)" >/dev/null
ctl --json list
is "$(jq '.locks | length' <<<"$OUT")" 5 'all of them (control)'
is "$(listed --path "$MNT/jobs/a")" '0 jobs/a' '--path: one'
is "$(cd "$RIG" && listed --path mnt/../mnt/jobs/a)" '0 jobs/a' \
	'--path: below the working directory'
is "$(listed --path '*/other/*')" '0 other/c other/d' '--path: a pattern'
is "$(listed --path "$MNT/o*")" '0 other/c other/d' '--path: over slashes'
is "$(listed --path $'*\n*')" "0 jobs/n ame \"x\\" '--path: with a newline'
rr set "dlock:$MNT/jobs/raw"$'\n\xff\x1b' x px 600000 >/dev/null
is "$(listed --path $'*raw\n\xff?')" '0 null' 'a key that no path has: by the key'
rr del "dlock:$MNT/jobs/raw"$'\n\xff\x1b' >/dev/null
is "$(listed --path "$MNT/jobs/[ab]")" '0 jobs/a jobs/b' '--path: a set'
is "$(listed --path "$MNT/")" '1 ' '--path: a directory has no lock'
like "$(said)" "below it: --path '$MNT/\*'" '... and it is said what to write'
is "$(listed --host web1)" '0 jobs/a' '--host: one'
is "$(listed --host 'web*')" '0 jobs/a jobs/b' '--host: a pattern'
is "$(listed --host foreign)" '0 ' '--host: who is not known has none'
is "$(listed --here)" '0 jobs/a jobs/b' '--here: the kernel and the host_id'
is "$(listed --redis "redis://127.0.0.1:$PORT" --here)" '0 jobs/a jobs/b' \
	"... the host's, also with --redis"
is "$(listed --waiting)" '0 jobs/b' '--waiting'
is "$(listed --older 2m)" '0 jobs/a jobs/b' '--older'
like "$(said)" 'own host only: 2 left out' '... of others it is not known'
is "$(listed --older 4m)" '0 jobs/b' '--older: four minutes'
is "$(listed --older 2m --path '*/a')" '0 jobs/a' 'two filters'
is "$(listed --older 50h)" '0 ' 'none is so old'
like "$(said)" 'none of the locks held is like that \(there are 5\)' 'it says so'

# --- the order ---
is "$(listed --sort path)" '0 jobs/a jobs/b jobs/n ame "x\ other/c other/d' \
	'--sort path'
is "$(listed --sort held --path '*[abc]')" '0 jobs/b jobs/a other/c' \
	'--sort held: the oldest first'
is "$(listed --sort ttl --path '*[abcd]')" \
	'0 jobs/b jobs/a other/c other/d' \
	'--sort ttl: who ends first, first; who never ends, last'
is "$(listed --sort waiters --path '*[abc]')" '0 jobs/b jobs/a other/c' \
	'--sort waiters: the most first'
is "$(listed --sort host --path '*[abcd]')" '0 other/c jobs/a jobs/b other/d' \
	'--sort host: by name, who has none last'
for args in '--older 5' '--older x' '--sort age' '--path' '--frob' \
	'--waiting=1'; do
	# shellcheck disable=SC2086 # words
	ctl --json list $args
	is "$STATUS $(jq -c '[.status, .schema, (.messages | length > 0)]' \
		<<<"$OUT")" '64 [64,1,true]' "usage: $args"
done
ctl explain --waiting /x
is "$STATUS $ERR" '64 dlockctl: --waiting is no option of explain' \
	'an option of another verb'

# --- a terminal ---
# screen COLUMNS ARG...: what list prints there
screen()
{
	local columns=$1

	shift
	/usr/bin/python3 "$TOP/tests/programs/on_a_terminal.py" "$columns" \
		"$CTL" -c "$RIG/A.conf" list "$@"
}

long=$MNT/jobs/$(printf '%060d' 0)/nightly.lock
rr set "dlock:$long" "$(made_token A 65 web1)" px 1800000 >/dev/null
widest()
{
	sed 's/\x1b\[[0-9;]*m//g' | wc -L
}
is "$(screen 80 --path '*/nightly.lock' | widest)" 79 '80 columns: none is wider'
like "$(screen 80 --path '*/nightly.lock')" '\.\.\.[0-9]*/nightly.lock .* EX' \
	'of a long path the end is left'
like "$(screen 200 --path '*/nightly.lock')" \
	"[0-9]{60}/nightly.lock .* nightly " '200 columns: nothing is cut'
ctl list --path '*/nightly.lock'
like "$OUT" "$long  EX" 'no terminal: nothing is cut'
unlike "$OUT" $'\x1b' 'and there is no colour'
like "$(screen 200)" $'\x1b\\[1mPATH' 'a terminal: headings are bold'
like "$(screen 200)" $'\x1b\\[33m2\x1b\\[0m' '... who waits is coloured'
unlike "$(NO_COLOR=1 screen 200)" $'\x1b' 'but not with NO_COLOR'
unlike "$(TERM=dumb screen 200)" $'\x1b' 'nor with TERM=dumb'
like "$(screen 200 --path $'*\n*')" 'jobs/n\\x0aame "x\\\\ .* w\\x1b%n ' \
	'a hostile name does nothing'
is "$(screen 200 --path $'*\n*' | sed 's/\x1b\[[0-9]*m//g' | wc -l)" 2 \
	'... and stays in its line'
rr flushall >/dev/null

# --- a prefix that leads through a link: both names are those of its files ---
# named CONFIG PATH: the locks of it, on host A
named()
{
	STATUS=0
	OUT=$(on A "$CTL" -c "$RIG/$1.conf" --json list --path "$2") || STATUS=$?
	echo "$STATUS $(jq -r '.locks[] | .path // .key' <<<"$OUT" |
		sed "s,^$MNT/,," | paste -sd ' ')"
}
# linked CONFIG PREFIX [KEY]: its only path section is that one
linked()
{
	sed "s,path \"$MNT/\" {,path \"$MNT/$2\" { ${3:+key = \"$3\"}," \
		"$RIG/A.conf" >"$RIG/$1.conf"
}
on A mkdir -p real/jobs
on A ln -s real link
linked L link/jobs/
linked F link/one
for name in jobs/a jobs/b one; do
	rr set "dlock:$MNT/link/$name" "$(made_token A 5 web1)" px 1800000 >/dev/null
done
is "$(named L "$MNT/link/jobs/a")" '0 link/jobs/a' 'a link: as the rule spells it'
is "$(named L "$MNT/real/jobs/a")" '0 link/jobs/a' '... as the kernel names it'
is "$(named L link/jobs/a)" '0 link/jobs/a' '... below the working directory'
is "$(named L "$MNT/real/jobs/c")" '0 ' '... and no other'
is "$(named F "$MNT/real/one") $(named F "$MNT/link/one")" \
	'0 link/one 0 link/one' '... of a rule for one file'
is "$(named L "$MNT/link/*")" '0 link/jobs/a link/jobs/b' \
	'a pattern, as the rule spells it'
is "$(named L "$MNT/real/jobs/*")" '0 link/jobs/a link/jobs/b' \
	'... as the kernel names it'
is "$(named L "$MNT/real/*/[bc]")" '0 link/jobs/b' '... and no other'
is "$(named F "$MNT/real/*")" '0 link/one' '... of a rule for one file'

# A key by inode tells no path, and a holder names the file as it likes.
share_at A "$MNT/share"
on A touch share/f
on A ln share/f share/g
linked I share/ i:%i
key=$(on A "$CTL" -c "$RIG/I.conf" --json explain share/f | jq -r .flock_key)
like "$key" '^i:[0-9]+$' 'a key by inode (control)'
rr set "$key" "$(made_token A 5 web1)" px 1800000 >/dev/null
rr set "$key%rec" x px 1800000 >/dev/null
rr set "${key}0" x px 1800000 >/dev/null
is "$(named I share/f)" "0 $key $key%rec" 'its locks are found'
is "$(named I share/g)" "0 $key $key%rec" '... by each name of the file'
on A umount share
rr flushall >/dev/null

# --- nothing to be shown: which nothing? ---
ctl list
is "$STATUS $ERR" '0 dlockctl: no locks held' 'none is held: 0'
ctl --json list --path /etc/hostname
is "$STATUS $(jq -c '[.status, .messages[0], has("locks")]' <<<"$OUT")" \
	'1 [1,"/etc/hostname: no rule manages it, its locks stay local",false]' \
	'no rule: 1'
ctl list --path '/etc/*'
is "$STATUS" 1 'no rule can have that: 1'
ctl list --path "${MNT%??}*"
is "$STATUS" 0 'one may: 0'
sed '/^path/,$d' "$RIG/A.conf" >"$RIG/none.conf"
ctl -c "$RIG/none.conf" list
is "$STATUS" 1 'no path section at all: 1'
like "$ERR" 'none.conf has no path section' 'it says so'
rr acl setuser blind on '>x' '~*' '&*' +@all -scan >/dev/null
rr acl setuser deaf on '>x' '~mine:*' '&*' +@all >/dev/null
for user in blind deaf wrong; do
	rr set "dlock:$MNT/jobs/a" x >/dev/null
	sed "s,redis://,&$user:x@," "$RIG/A.conf" >"$RIG/$user.conf"
	ctl -c "$RIG/$user.conf" --json list
	is "$STATUS $(jq .status <<<"$OUT")" '77 77' "not allowed ($user): 77"
	like "$ERR" 'not allowed: (NOPERM|WRONGPASS)' 'it says so'
done
rr flushall >/dev/null

# --- what comes and goes, and changes its type, meanwhile ---
# A lease, readers, a list, nothing: another one each time.
redis-cli -s "$RIG/redis.sock" -r -1 eval '
	local n, key = redis.call("INCR", "turns") % 4, KEYS[1]
	redis.call("DEL", key)
	if n == 0 then
		redis.call("SET", key, ARGV[1])
	elseif n == 1 then
		redis.call("HSET", key, "dlock", 1, ARGV[1], 99999999999999)
	elseif n == 2 then
		redis.call("RPUSH", key, "x")
	end' 1 "dlock:$MNT/jobs/a" "$(made_token A 5 web1)" \
	>/dev/null 2>&1 &
CHURN=$!
look()
{
	ctl --json list
	echo "$STATUS $(jq -c '[.locks[].mode]' <<<"$OUT")$ERR" |
		sed 's/dlockctl: no locks held$//' >>"$RIG/seen"
}
three_were_seen()
{
	look
	[ "$(sort -u "$RIG/seen" | wc -l)" -ge 3 ]
}
for _ in {1..40}; do
	look
done
ok 'locks come, go, and change (control)' until_true 20 three_were_seen
kill "$CHURN"
wait "$CHURN" 2>/dev/null
is "$(grep -vxE '0 \[("(EX|SH|\?)")?\]' "$RIG/seen")" '' \
	'locks that vanish, and become others, are no error'
rr flushall >/dev/null

# --- the user of dlock.conf(5) ---
manual_user
rr set "dlock:$MNT/jobs/a" "$(made_token A 65 web1)" px 1800000 >/dev/null
rr hset "dlock:$MNT/jobs/b" dlock 1 "$(made_token A 65 web1)" \
	99999999999999 >/dev/null
rr set "dlock:$MNT/jobs/c%rec" x >/dev/null
ctl -c "$RIG/dlock.conf" --json list
is "$STATUS $(jq '.locks | length' <<<"$OUT")" '0 3' \
	'what the manual allows it is enough'
rr hset "dlock:$MNT/jobs/d%rec" dlock 1 x 1 >/dev/null
ctl -c "$RIG/dlock.conf" --json list
is "$STATUS" 0 '... for record locks, too'
redis_kill
ctl --json list
is "$STATUS $(jq -c '[.status, .locks]' <<<"$OUT")" '69 [69,null]' \
	'Redis is gone: 69'
done_testing
