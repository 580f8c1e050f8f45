#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 400
#
# dlockctl check and stats: for monitoring.  What is not known is never said to
# be well, and what is printed for Prometheus is in its text format.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

rig_start disks
rig_configs ttl=30s connect_timeout=5s

# checked ARG...: "STATUS LINE", without the figures
checked()
{
	ctl check "$@"
	echo "$STATUS ${OUT% | *}"
}

# --- check ---
is "$(checked)" '0 DLOCK OK - 0 locks, 0 waiting' 'all is well: 0'
like "$(cat "$RIG/out")" ' \| locks=0 waiters=0 held=0\.000s ping=[0-9]+\.[0-9]{6}s$' \
	'figures behind the line'
is "$(wc -l <"$RIG/out")" 1 'one line'
rr set "dlock:$MNT/a" "$(made_token A 245 web1)" px 3600000 >/dev/null
rr set "dlock:$MNT/b" "$(made_token elsewhere 245 web1)" px 3600000 >/dev/null
rr hset "dlock:$MNT/c" dlock 1 "$(made_token A 5 web1)" 99999999999999 \
	"$(made_token A 6 web2)" 99999999999999 >/dev/null
rr pexpire "dlock:$MNT/c" 3600000 >/dev/null
rr hset "{dlock:$MNT/c}%q" head 1 tail 5 1 "$(queue_entry 600)" \
	2 "$(queue_entry -1)" 3 "$(queue_entry 600)" 4 x 5 "$(queue_entry 600)" \
	>/dev/null
is "$(checked)" '0 DLOCK OK - 4 locks, 3 waiting' \
	'locks; those that wait for one with two owners count once, the dead do not'
like "$(checked --warning held=4m)" \
	"^1 DLOCK WARNING - redis \"main\" \\(127.0.0.1:$PORT/0\\): $MNT/a is held for [4-9]m[0-9]+s; 4 locks, 3 waiting\$" \
	'a limit of --warning: 1'
is "$(checked --warning held=2h,waiters=4)" \
	'0 DLOCK OK - 4 locks, 3 waiting' 'below it: 0'
like "$(checked --warning held=4m --critical held=30s,waiters=3)" \
	"^2 DLOCK CRITICAL - redis [^:]+:$PORT/0\\): $MNT/a is held for [4-9]m[0-9]+s; redis [^:]+:$PORT/0\\): 3 wait for $MNT/c; 4 locks, 3 waiting\$" \
	'a limit of --critical: 2'
is "$(checked --critical waiters=3 --path "$MNT/a")" \
	'0 DLOCK OK - 1 locks, 0 waiting' 'of one path'
# On a host where the prefix leads through a link, by either name of the file.
on A mkdir real
on A ln -s real link
sed "s,path \"$MNT/\",path \"$MNT/link/\"," "$RIG/A.conf" >"$RIG/L.conf"
rr set "dlock:$MNT/link/x" "$(made_token A 245 web1)" px 3600000 >/dev/null
for path in "$MNT/link/x" "$MNT/real/x" "$MNT/real/*"; do
	ctl_on A -c "$RIG/L.conf" check --critical held=30s --path "$path"
	like "$STATUS $OUT" \
		"^2 DLOCK CRITICAL - .*: $MNT/link/x is held .*; 1 locks" \
		"check --path ${path#"$MNT/"}"
	ctl_on A -c "$RIG/L.conf" --json stats --path "$path"
	is "$(jq '.servers[].locks[] | select(.count > 0) | .count' <<<"$OUT")" \
		1 "... and stats"
done
rr del "dlock:$MNT/link/x" >/dev/null
for limit in '' x held held= held=5 held=0s waiters=0 waiters=x \
	held=1s,,waiters=1; do
	is "$(checked --warning "$limit" | cut -c 1-17)" '3 DLOCK UNKNOWN -' \
		"no limit: '$limit': 3"
done
rr set "dlock:$MNT/d" $'jo\x1b|ined' >/dev/null
rr rpush "dlock:$MNT/e" x >/dev/null
like "$(checked)" \
	"^1 DLOCK WARNING - .*: 2 without a ttl, .* first $MNT/d; .*: 1 keys that are no locks, first $MNT/e; 5 locks" \
	'what never expires, and what is no lock: 1'
ctl --json check
is "$STATUS $(jq -c '[.status, .state, .locks, .waiters, .held_max_ms >= 245000,
	.redis_ping_us > 0]' <<<"$OUT")" '1 [1,"WARNING",5,3,true,true]' \
	'for machines'
rr config set maxmemory 100mb maxmemory-policy allkeys-lru >/dev/null
like "$(checked)" \
	'^2 DLOCK CRITICAL - redis "main" \(127.0.0.1:[0-9]+/0\): it may evict locks .*allkeys-lru' \
	'a server that may evict: 2'
rr config set maxmemory 1mb maxmemory-policy noeviction >/dev/null
like "$(checked)" 'WARNING - .*its memory is nearly full' 'a full one: 1'
rr config set maxmemory 0 >/dev/null

# What keeps it from looking is unknown, and not well.
rr acl setuser deaf on '>x' '~mine:*' '&*' +@all >/dev/null
sed "s,redis://,&deaf:x@," "$RIG/A.conf" >"$RIG/deaf.conf"
like "$(checked -c "$RIG/deaf.conf")" \
	'^3 DLOCK UNKNOWN - redis "main": .*not allowed: NOPERM' \
	'not allowed: 3'
rr acl setuser mute on '>x' '~*' '&*' +@all -info -ping >/dev/null
sed "s,redis://,&mute:x@," "$RIG/A.conf" >"$RIG/mute.conf"
like "$(checked -c "$RIG/mute.conf" --path "$MNT/a")" \
	'^3 DLOCK UNKNOWN - redis "main" .*: this user may not INFO' \
	'what INFO would tell is not known: 3'
like "$(checked -c "$RIG/mute.conf")" '^1 DLOCK WARNING - .*: 2 without a ttl' \
	'... unless something is known to be wrong'
ctl -c "$RIG/mute.conf" --json stats
is "$STATUS $(jq -c '.servers[] | [.up, .waiters, .redis_ping_us > 0,
	has("version"), has("redis_clients")]' <<<"$OUT")" \
	'0 [true,3,true,false,false]' 'stats: the server is up, and has locks'
ctl -c "$RIG/mute.conf" stats --prometheus
like "$OUT" $'\ndlock_up\\{.*\\} 1\n' '... for Prometheus'
unlike "$OUT" $'\ndlock_redis_memory' '... with nothing that is not known'
sed "s,redis://,&deaf:wrong@," "$RIG/A.conf" >"$RIG/wrong.conf"
like "$(checked -c "$RIG/wrong.conf")" \
	'^2 DLOCK CRITICAL - redis "main" cannot be used: .*: WRONGPASS' \
	'whom the server does not let in: each lock fails'
ctl -c "$RIG/wrong.conf" stats
like "$STATUS $OUT" '^77 redis "main", .*: cannot be used .*WRONGPASS' \
	'stats: it does answer'
sed "s,/0\",/99\"," "$RIG/A.conf" >"$RIG/far.conf"
like "$(checked -c "$RIG/far.conf")" \
	'^2 DLOCK CRITICAL - redis "main" cannot be used: .*: ERR DB index' \
	'a database that the server has not'
ctl -c "$RIG/far.conf" list
like "$STATUS $ERR" '^69 .*/99: ERR DB index is out of range .*the end of url' \
	'... of which it is no user that is not allowed: 69'
ctl -c "$RIG/far.conf" stats
like "$STATUS $OUT" '^69 .*: cannot be used .*ERR DB index' '... nor is it silent'
# By the program, and by its helper.
for credentials in program helper; do
	rig_config A ttl=30s connect_timeout=5s redis_more="username = \"deaf\"
	password_file = \"$RIG/pass\"
	credentials = \"$credentials\""
	for what in 'cannot be read: No such file' 'is empty'; do
		like "$(checked)" "^3 DLOCK UNKNOWN - redis \"main\": .*$what" \
			"a password file that $what (of the $credentials): 3"
		for verb in list stats "history $MNT/a" "break --yes $MNT/a" \
			"lock $MNT/a -- true"; do
			# shellcheck disable=SC2086 # words
			ctl $verb
			like "$STATUS $ERR" "^78 .*$RIG/pass\"? $what" \
				"... ${verb%% *}: 78"
			unlike "$ERR" 'not allowed' '... and nobody has refused'
		done
		STATUS=0
		ERR=$("$BUILD/dlock" run -c "$RIG/A.conf" true 2>&1) || STATUS=$?
		like "$STATUS $ERR" "^78 .*$RIG/pass\"? $what" '... dlock run: 78'
		: >"$RIG/pass"
		chmod 600 "$RIG/pass"
	done
	rm "$RIG/pass"
done
rig_configs ttl=30s connect_timeout=5s
DLOCK_CONFIG=$RIG/A.conf "$CTL" check >/dev/full 2>"$RIG/err"
is $? 3 'a line that could not be written: 3'
echo 'void *reallocarray(void) { return 0; }' |
	gcc -fno-builtin -shared -fPIC -x c -o "$RIG/full.so" -
LD_PRELOAD=$RIG/full.so DLOCK_CONFIG=$RIG/A.conf "$CTL" check >"$RIG/out" \
	2>"$RIG/err"
is "$? $(cat "$RIG/err")" '3 dlockctl: out of memory' 'no memory: 3'
like "$(checked -c "$RIG/none.conf")" '^3 DLOCK UNKNOWN - .*none.conf' \
	'no configuration: 3'
like "$(checked --path /etc/hostname)" '^3 DLOCK UNKNOWN - .*no rule' \
	'no rule: 3'
like "$(checked x)" '^3 DLOCK UNKNOWN - usage' 'usage: 3'
ctl check -c "$RIG/a|b.conf"
like "$OUT" '^DLOCK UNKNOWN - [^|]*a/b\.conf[^|]*$' '... with no figures behind a |'
ctl --json check -c "$RIG/none.conf"
is "$STATUS $(jq -c '[.status, .state]' <<<"$OUT")" '3 [3,"UNKNOWN"]' \
	'unknown, for machines'

# --- stats ---
ctl --json stats
is "$STATUS $(jq -c '.servers[] | [.redis, .up, .waiters, .waiters_max, .endless,
	.other_keys, .held_max_ms >= 245000, .redis_ping_us > 0, .redis_clients > 0,
	.redis_memory_bytes > 0]' <<<"$OUT")" \
	'0 ["main",true,3,3,2,1,true,true,true,true]' 'stats, for machines'
is "$(jq -c '[.servers[].locks[] | select(.count > 0) | .mode, .owner, .count]' \
	<<<"$OUT")" '["EX","dlock",2,"EX","foreign",1,"SH","dlock",2]' \
	'locks by mode and owner'
ctl stats
like "$OUT" $'redis "main", .*\n  locks EX +dlock +2\n' 'for people'
ctl stats --prometheus --json
is "$STATUS" 64 '--prometheus is not JSON'

# bad_lines: of the text format, what none of its rules allows
bad_lines()
{
	awk '
		/^# HELP [a-z_]+ ./ { help = $3; next }
		/^# TYPE [a-z_]+ gauge$/ && $3 == help { type = $3; next }
		{
			name = $0
			sub(/[{].*/, "", name)
			rest = substr($0, length(name) + 1)
			if (name != type || rest !~ \
			    /^[{][a-z]+="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*[}] [0-9.e+-]+$/)
				print
			if (seen[name rest]++)
				print "twice", $0
		}'
}
ctl stats --prometheus
is "$STATUS $(bad_lines <<<"$OUT")" '0 ' 'for Prometheus: the text format'
is "$(echo 'dlock_up{redis="a" 1' | bad_lines)" 'dlock_up{redis="a" 1' \
	'... is seen not to be (control)'
like "$OUT" $'\ndlock_up\\{redis="main",server="127.0.0.1:'"$PORT"$'/0"\\} 1\n' 'the server is up'
like "$OUT" \
	$'\ndlock_locks\\{redis="main",server="[0-9.:/]+",mode="EX",owner="foreign"\\} 1\n' \
	'a foreign lock'
like "$OUT" $'\ndlock_held_max_seconds\\{redis="main",[^}]+\\} (24[5-9]|2[5-9][0-9]|[3-9][0-9][0-9])\\.' \
	'in seconds'
sed 's/redis "main"/redis "m\\"\\\\n\xff"/; s/redis = "main"/redis = "m\\"\\\\n\xff"/' \
	"$RIG/A.conf" >"$RIG/odd.conf"
ctl -c "$RIG/odd.conf" stats --prometheus
is "$STATUS $(bad_lines <<<"$OUT")" '0 ' 'a hostile name of a server'
unlike "$OUT" $'\xff' '... does nothing'
ok '... and is told' grep -qxF \
	'dlock_up{redis="m\"\\\\n\\xff",server="127.0.0.1:'"$PORT"'/0"} 1' <<<"$OUT"

# What the server says of itself, and where it is, does nothing to a terminal.
proxy p
ask p $'change redis_version:7.0. redis_version:7\ec.'
sed "s,:$PORT/,:$PROXY/," "$RIG/A.conf" >"$RIG/proxy.conf"
ctl -c "$RIG/proxy.conf" stats
like "$STATUS $OUT" '^0 .*: Redis 7\\x1bc\.' 'a version with an escape sequence'
peer_end p
sed "s,redis://[^\"]*,unix://$RIG/a%1Bc.sock," "$RIG/A.conf" >"$RIG/escape.conf"
ctl -c "$RIG/escape.conf" stats
like "$STATUS $OUT" '^69 .*/a\\x1bc\.sock.*: does not answer' '... an address with one'
unlike "$OUT" $'\x1b' '... which does nothing'

# --- no server ---
redis_kill
like "$(checked)" \
	'^2 DLOCK CRITICAL - redis "main" does not answer: 127.0.0.1:[0-9]+/0: ' \
	'no server: 2'
ctl --json check
is "$STATUS $(jq -c '[.status, .state]' <<<"$OUT")" '2 [2,"CRITICAL"]' \
	'for machines'
ctl stats
like "$STATUS $OUT" '^69 .*does not answer.*: cannot connect' 'stats says why'
ctl stats --prometheus
is "$STATUS $(bad_lines <<<"$OUT")" '0 ' 'for Prometheus it is a value'
like "$OUT" $'\ndlock_up\\{redis="main",.*\\} 0' '... of dlock_up'
unlike "$OUT" 'dlock_locks\{' 'and of its locks nothing is said'
ctl --json stats
is "$STATUS $(jq -c '[.status, .servers[0].up, .servers[0].locks]' <<<"$OUT")" \
	'69 [69,false,null]' 'else 69'
done_testing
