#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# dlockctl doctor: nothing is found on a healthy setup; and of each fault that is
# made here what it is, how bad, and what to do.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

faults=0
rig_start disks
# One that was started an hour ago, and so grants at once.
redis_kill
LD_PRELOAD=$BIN/old_server.so redis_up
chmod 755 "$RIG" "$MNT"
export DLOCK_LOG=warning:$RIG/doctor.log
LOG=$DLOCK_LOG
touch "$RIG/doctor.log"
chmod 666 "$RIG/doctor.log"
read -ra words <<<"$(manual_acl) $(sed -n 's/^\.Cm \(+scan.*\)/\1/p' \
	"$TOP/config/dlock.conf.5")"
is "$(rr "${words[@]}" '>x')" OK 'the user of dlock.conf(5)'

# configs [NAME=VALUE...]: of both hosts, healthy but for what is said
configs()
{
	rig_configs url="redis://dlock:x@127.0.0.1:$PORT/0" ttl=20s \
		connect_timeout=3s restart_delay=20s "$@"
	sed -i "1i state_dir = \"$RIG/state\"" "$RIG/A.conf" "$RIG/B.conf"
	chmod 644 "$RIG/A.conf" "$RIG/B.conf"
	export DLOCK_LOG=$LOG
}

# healthy [NAME=VALUE...]: the same, and nothing is known of the fleet
healthy()
{
	configs "$@"
	rr del dlock%fleet >/dev/null
}

# found: "STATUS CHECK=SEVERITY ..." of what it says
found()
{
	echo "$STATUS $(jq -r '.findings[] | "\(.check)=\(.severity)"' <<<"$OUT" |
		sort -u | paste -sd ' ')"
}

# is_found NAME WANT WHAT REMEDY: of the last one, and nothing else
is_found()
{
	faults=$((faults + 1))
	is "$(found)" "$2" "$1"
	like "$(jq -r '.findings[].what' <<<"$OUT")" "$3" '... it says what'
	like "$(jq -r '.findings[].remedy' <<<"$OUT")" "$4" '... and what to do'
	is "$(jq '[.findings[] | select((.why | length) < 20)] | length' \
		<<<"$OUT")" 0 '... and why'
}

# doctor_in SCRIPT [ARG...]: there, before which that is run, in a mount
# namespace of its own
doctor_in()
{
	local script=$1

	shift
	STATUS=0
	# shellcheck disable=SC2016 # the inner shell's
	on A unshare -m sh -c "$script"' && exec "$0" "$@"' env \
		DLOCK_CONFIG="$RIG/A.conf" "$CTL" --json doctor "$@" \
		>"$RIG/out" 2>"$RIG/err" </dev/null || STATUS=$?
	OUT=$(cat "$RIG/out")
}

# --- nothing is wrong ---
mkdir "$RIG/state"
chmod 1777 "$RIG/state"
healthy
ctl_on A --json doctor
is "$(found)" '0 ' 'healthy: nothing is found'
[ "$STATUS" = 0 ] || diag "$OUT"
ctl_on B --json doctor
is "$(found)" '0 ' '... on the other host, which sees the first'
ctl_on A --json doctor --as nobody
is "$(found)" '0 ' '... for another user'
is "$(rr hlen dlock%fleet)" 2 'each host has left its entry'
at_least "$(rr pttl dlock%fleet)" 1000 '... which ends'
is "$(rr dbsize)" 1 'and nothing else is left'
ctl_on A doctor
like "$OUT" $'^[0-9]+ checks, 0 findings$' 'in words'
# On a terminal lines are wrapped at blanks.
on A /usr/bin/python3 "$TOP/tests/programs/on_a_terminal.py" 60 env \
	"$CTL" -c "$RIG/no.conf" doctor >"$RIG/out"
at_most "$(awk '/ / && length > max { max = length } END { print max + 0 }' \
	<(grep -v "$RIG" "$RIG/out"))" 59 'on a terminal: no line is wider'
like "$(cat "$RIG/out")" $'\n  why  ' '... of what it says'
locker calm dl A
ask calm 'open f f'
ask calm 'lock f EX'
ctl_on A --json doctor
is "$(found)" '0 ' 'nor beside a program at work'
ask calm 'lock f UN'
peer_end calm

# --- the configuration ---
healthy
printf 'path "/no/such/place/" {\n ttl = "20s"\n}\n' >>"$RIG/A.conf"
ctl_on A --json doctor
is_found 'a rule that covers nothing' '1 rules=WARNING' \
	'/no/such/place/" covers nothing' 'make the directory'
healthy
on A mkdir -p sub
printf 'path "%s/sub" {\n ttl = "20s"\n}\n' "$MNT" >>"$RIG/A.conf"
ctl_on A --json doctor
is_found 'a rule of a directory, without a slash' '1 rules=WARNING' \
	'/sub" covers nothing' "write the '/'"
healthy
sed -i '/^path/,$d' "$RIG/A.conf"
ctl_on A --json doctor
is_found 'no rule at all' '2 rules=CRITICAL' 'no path section' 'add a path'
healthy path_more='frobnicate = 1'
ctl_on A --json doctor
is_found 'a broken one' '2 configuration=CRITICAL' "A.conf:[0-9]+.*frobnicate" \
	'names the line'
healthy path_more='key = "job:%r"'
on A mkdir -p sub
printf 'path "%s/sub/" {\n key = "job:%%r"\n ttl = "20s"\n}\n' "$MNT" >>"$RIG/A.conf"
rr acl setuser dlock '~job:*' '~{job:*}%?' >/dev/null
ctl_on A --json doctor
is_found 'two prefixes with one template' '1 templates=WARNING' \
	'have one template, "job:%r"' 'a key of its own'

# --- a user ---
mkdir "$RIG/bin"
cp "$BUILD"/{dlockctl,libdlock-preload.so,dlock-keeper} "$RIG/bin"
chmod 755 "$RIG/bin"/*
real=$CTL
CTL=$RIG/bin/dlockctl
healthy
ctl_on A --json doctor --as nobody
is "$(found)" '0 ' 'a copy of the programs is as good (control)'
chmod 600 "$RIG/A.conf"
ctl_on A --json doctor --as nobody
is_found 'a configuration that the user may not read' '2 user=CRITICAL' \
	'user 65534 cannot use the configuration: .*A.conf' 'readable by all'
healthy url="redis://127.0.0.1:$PORT/0" redis_more="username = \"dlock\"
	password_file = \"$RIG/secret\""
(umask 077 && echo x >"$RIG/secret")
ctl_on A --json doctor
is "$(found)" '0 ' 'a password file (control)'
ctl_on A --json doctor --as nobody
is_found 'a secret that the user may not read' '2 user=CRITICAL' \
	'cannot use redis "main": .*secret' 'group'
healthy
chmod 600 "$RIG/bin/libdlock-preload.so"
ctl_on A --json doctor --as nobody
is_found 'a library that the user may not read' '2 user=CRITICAL' \
	'cannot preload .*libdlock-preload.so' 'make install'
chmod 755 "$RIG/bin/libdlock-preload.so"
chmod 700 "$RIG/bin/dlock-keeper"
ctl_on A --json doctor --as nobody
is_found 'a keeper that the user may not run' '2 user=CRITICAL' \
	'cannot run .*dlock-keeper: Permission denied' 'mode 755'
chmod 755 "$RIG/bin/dlock-keeper"
chmod 700 "$RIG/state"
ctl_on A --json doctor --as nobody
is_found 'no place for shadows' '1 user=WARNING' \
	'no place in state_dir ".*/state": .*Permission denied' 'm 1777'
chmod 1777 "$RIG/state"
ctl_on A --json doctor --as nosuchuser
is "$STATUS $(jq -r '.findings[0].what' <<<"$OUT")" \
	'3 cannot be user nosuchuser: there is none' 'no such user: 3'
CTL=$real
healthy
STATUS=0
on A prlimit --nproc=1 setpriv --reuid 54321 --regid 54321 --clear-groups env \
	DLOCK_CONFIG="$RIG/A.conf" "$CTL" --json doctor >"$RIG/out" \
	2>"$RIG/err" </dev/null || STATUS=$?
OUT=$(cat "$RIG/out")
is "$(jq -r '.findings[] | select(.check == "templates") |
	"\(.severity) \(.what)"' <<<"$OUT")" \
	'UNKNOWN it was not looked at: Resource temporarily unavailable' \
	'no process for a check: it is not known'
is "$(jq .status <<<"$OUT")" "$STATUS" '... and the others are made'

# --- the host ---
doctor_in 'mount -t tmpfs none /proc'
is "$STATUS $(jq -r '.findings[] | select(.check == "proc") | .severity' \
	<<<"$OUT")" '2 CRITICAL' 'no /proc'
like "$(jq -r '.findings[].remedy' <<<"$OUT")" 'mount -t proc' '... what to do'
faults=$((faults + 1))
STATUS=0
# (The command behind it keeps the shell from being replaced.)
# shellcheck disable=SC2016 # the inner shell's
on A env DLOCK_CONFIG="$RIG/A.conf" unshare -p -f --mount-proc sh -c \
	'"$1" --json doctor; exit $?' sh "$CTL" >"$RIG/out" 2>"$RIG/err" \
	</dev/null || STATUS=$?
OUT=$(cat "$RIG/out")
is_found 'an init that ends with its child' '1 init=WARNING' \
	'process 1 of this container is sh' 'an init that stays'
healthy url="redis://dlock:x@localhost:$PORT/0"
ctl_on A --json doctor
is "$(found)" '0 ' 'a name (control)'
doctor_in 'mount --bind /dev/null /usr/bin/getent'
is "$STATUS $(jq -r '.findings[] | select(.check == "getent") | .what' \
	<<<"$OUT")" '2 /usr/bin/getent cannot be run, and "localhost" is a name' \
	'no getent for a name'
faults=$((faults + 1))
healthy
DLOCK_LOG=warning:/no/such/directory/log
ctl_on A --json doctor
is_found 'a log that no line reaches' '1 log=WARNING' \
	'no line reaches that file: No such file' 'out of DLOCK_LOG'
unset DLOCK_LOG
doctor_in 'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3'
is_found 'no system log' '1 log=WARNING' 'nobody listens at /dev/log' \
	'start a system log'

# --- the server ---
healthy url="redis://dlock:x@no-such-host.invalid:$PORT/0"
ctl_on A --json doctor
is_found 'a name without an address' '2 answers=CRITICAL names=CRITICAL' \
	'"no-such-host.invalid" has no address' 'correct the name'
healthy url="redis://dlock:x@127.0.0.1:1/0"
ctl_on A --json doctor
is_found 'no server' '2 answers=CRITICAL' 'does not answer: .*refused' \
	'firewall'
healthy url="redis://dlock:wrong@127.0.0.1:$PORT/0"
ctl_on A --json doctor
is_found 'a wrong password' '2 answers=CRITICAL' 'cannot be used: WRONGPASS' \
	'user and password'
unlike "$(jq -r '.findings[] | .why, .remedy' <<<"$OUT")" 'timeout|firewall' \
	'... which nobody waits for, and no firewall is'
healthy url="redis://127.0.0.1:$PORT/99"
ctl_on A --json doctor
is_found 'no such database' '2 answers=CRITICAL' \
	'cannot be used: ERR DB index' "url's database"
for credentials in program helper; do
	healthy url="redis://127.0.0.1:$PORT/0" redis_more="username = \"dlock\"
	password_file = \"$RIG/gone\"
	credentials = \"$credentials\""
	ctl_on A --json doctor
	found=$(found)
	is "${found/ user=CRITICAL/}" '2 answers=CRITICAL' \
		"no password file (of the $credentials)"
	like "$(jq -r '.findings[] | select(.check == "answers") | .what' \
		<<<"$OUT")" 'cannot be used: .*gone"? cannot be read: No such' \
		'... it says what'
	is "$(jq -r '.findings[].remedy' <<<"$OUT" |
		grep -vc 'make the file that it names')" 0 '... and what to do'
	unlike "$(jq -r '.findings[] | .why, .remedy' <<<"$OUT")" \
		'timeout|firewall' '... which is not to look at the server'
done
faults=$((faults + 1))
proxy far
ask far 'delay 60'
healthy url="redis://dlock:x@127.0.0.1:$PROXY/0"
ctl_on A --json doctor
is_found 'a server far away' '1 latency=WARNING' 'takes [0-9.]+ ms for a PING' \
	'nearer'
peer_end far
healthy
rr config set maxmemory 100mb maxmemory-policy allkeys-lru >/dev/null
ctl_on A --json doctor
is_found 'a server that evicts' '2 eviction=CRITICAL' \
	'maxmemory-policy is allkeys-lru' 'maxmemory-policy noeviction'
rr config set maxmemory 1mb maxmemory-policy noeviction >/dev/null
ctl_on A --json doctor
is "$(found | sed 's/ fleet=UNKNOWN\| permissions=CRITICAL//g')" \
	'1 room=WARNING' 'a server that is full'
like "$(jq -r '.findings[].remedy' <<<"$OUT")" 'raise maxmemory' \
	'... and what to do'
faults=$((faults + 1))
rr config set maxmemory 0 >/dev/null
rr config set maxclients 5 >/dev/null
exec {idle1}<>"/dev/tcp/127.0.0.1/$PORT" {idle2}<>"/dev/tcp/127.0.0.1/$PORT"
ctl_on A --json doctor
is_found 'no connections left' '1 room=WARNING' \
	'[0-9] of 5 connections are in use' 'raise maxclients'
exec {idle1}>&- {idle2}>&-
rr config set maxclients 1000 >/dev/null
healthy restart_delay=0s
ctl_on A --json doctor
is_found 'a restart that forgets' '2 persistence=CRITICAL' \
	'appendonly is no, and restart_delay is 0s where leases last 20s' \
	'appendfsync always'
rr config set appendonly yes >/dev/null
rr config set appendfsync always >/dev/null
ctl_on A --json doctor
is_found 'one of which this user may not ask' '3 persistence=UNKNOWN' \
	'may not ask whether appendfsync is always' 'CONFIG GET appendfsync'
rr config set appendfsync everysec >/dev/null
rr config set appendonly no >/dev/null
healthy restart_delay=10h
ctl_on A --json doctor
is_found 'a server within its restart_delay' '1 uptime=WARNING' \
	'grants nothing for another' 'find out why'
healthy
faketime=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1
[ -e $faketime ] || faketime=$(find /usr/lib -name libfaketime.so.1 | head -1)
STATUS=0
on A env DLOCK_CONFIG="$RIG/A.conf" LD_PRELOAD="$faketime" FAKETIME=-1h \
	"$CTL" --json doctor >"$RIG/out" 2>"$RIG/err" </dev/null || STATUS=$?
OUT=$(cat "$RIG/out")
is_found 'a clock of another time' '1 clock=WARNING' \
	'its clock is 3[56][0-9][0-9]\.[0-9] s ahead of' 'chrony'

# --- its user ---
healthy url="redis://127.0.0.1:$PORT/0"
ctl_on A --json doctor
is_found 'a user that may do everything' '1 privileges=WARNING' \
	'user "default" may also manage' 'a user of its own'
healthy
rr acl setuser dlock '~*' >/dev/null
ctl_on A --json doctor
is_found 'one that may use other keys' '1 privileges=WARNING' \
	"none of dlock's" 'a user of its own'
rr acl setuser dlock resetkeys >/dev/null
ctl_on A --json doctor
is "$STATUS $(jq -r '[.findings[] | select(.check == "permissions")] |
	length > 3' <<<"$OUT")" '2 true' 'one that may use no keys'
faults=$((faults + 1))
rr "${words[@]}" >/dev/null
ctl_on A --json doctor
is "$(found)" '0 ' 'it has them again (control)'
# Each command that the manual lists, taken away, is missed by its name.
missed=
for word in "${words[@]}"; do
	[[ $word == +* ]] || continue
	command=${word#+}
	rr acl setuser dlock "-$command" >/dev/null
	ctl_on A --json doctor
	rr acl setuser dlock "+$command" >/dev/null
	what=$(jq -r '.findings[] | select(.check == "permissions") | .what' \
		<<<"$OUT")
	# What only dlockctl needs, and replicas, fails no lock here.
	case $command in
	wait)
		[ "$(found)" = '0 ' ] || missed+=" $command"
		continue
		;;
	*scan | hstrlen | xrevrange) want=1 ;;
	*) want=2 ;;
	esac
	grep -qi "may not .*${command/|/ }" <<<"$what" &&
		[ "$STATUS" = "$want" ] || missed+=" $command"
done
is "$missed" '' 'each permission of dlock.conf(5), one by one, is missed'
faults=$((faults + 1))
healthy redis_more='replicas = 1'
rr acl setuser dlock -wait >/dev/null
ctl_on A --json doctor
rr acl setuser dlock +wait >/dev/null
like "$(jq -r '.findings[].what' <<<"$OUT")" 'may not WAIT' \
	'... with replicas WAIT, too'
healthy

# --- keys ---
rr rpush "dlock:$MNT/list" x >/dev/null
ctl_on A --json doctor
is_found 'a key that is no lock' '2 keys=CRITICAL' \
	"dlock:$MNT/list is no lock.*type list" 'UNLINK'
rr flushall >/dev/null
rr set "dlock:$MNT/e" $'x\x1b' >/dev/null
ctl_on A --json doctor
is_found 'a key without a ttl' '1 keys=WARNING' "dlock:$MNT/e has no ttl" \
	'dlockctl break'
rr flushall >/dev/null
rr set "dlock:$MNT/f" x px 60000 >/dev/null
ctl_on A --json doctor
is_found 'a foreign key' '1 keys=WARNING' 'held by another program' \
	'interop = true'
rr flushall >/dev/null
# Of what break refuses redis-cli is named, and does it.
on A touch n r
rr hset "dlock:$MNT/n" dlock 1 >/dev/null
ctl_on A --json doctor
is_found 'a key without a ttl or an owner' '1 keys=WARNING' \
	"dlock:$MNT/n has no ttl and no owner" 'redis-cli UNLINK KEY,'
rr del "dlock:$MNT/n" >/dev/null
id=$(printf %032x 7)
rr hset "dlock:$MNT/r%rec" dlock 1 "$id" "$(printf %020d 5) $(
	)00$(date +%s -d '+10 min')000 $(printf %020d 5) $(made_token B 5 web1)" \
	>/dev/null
rr pexpire "dlock:$MNT/r%rec" 600000 >/dev/null
ctl_on A --json doctor
is_found 'ranges that are lost' '2 keys=CRITICAL' 'has lost what belongs to it' \
	"redis-cli UNLINK KEY '\\{KEY\\}%r'"
ctl_on A break --yes r
like "$STATUS $ERR" '^1 .*redis-cli can remove' '... for break refuses it'
rr flushall >/dev/null
for n in 1 2 3 4 5; do
	rr rpush "dlock:$MNT/"$'\x1b'"$n" x >/dev/null
done
ctl_on A doctor
is "$(grep -c '^CRITICAL' <<<"$OUT")" 4 'many are three and a number'
unlike "$OUT" $'\x1b' '... whose names do nothing'
rr flushall >/dev/null

# --- programs ---
peer bare on A sh -c 'exec 9>open; echo ready; read -r _; flock 9
	echo locked; read -r _'
hear bare
ctl_on A --json doctor
is_found 'a program without the library' '1 programs=WARNING' \
	"process [0-9]+ \\(sh\\) has open $MNT/open" 'dlock run'
ask bare go
ctl_on A --json doctor
is_found '... that has locked it' '2 programs=CRITICAL' \
	"process [0-9]+ \\(sh\\) has locked $MNT/open" 'dlock run'
peer_end bare
peer bare on A env SUDO_USER=me sh -c 'exec 9>open; echo ready; read -r _'
hear bare
ctl_on A --json doctor
is_found '... by sudo' '1 programs=WARNING' 'has open' 'behind sudo'
peer_end bare
gcc -static -x c -o "$RIG/still" - <<-'END'
	#include <fcntl.h>
	#include <unistd.h>
	int main(void)
	{
		char c;

		open("open", O_RDWR);
		return write(1, "ready\n", 6) != 6 || read(0, &c, 1) < 0;
	}
END
peer bare dl A "$RIG/still"
hear bare
ctl_on A --json doctor
is_found '... that is static' '1 programs=WARNING' '\(still\) has open' \
	'take the lock for it'
like "$(jq -r '.findings[].why' <<<"$OUT")" 'statically linked' '... and why'
peer_end bare
locker old dl A
ask old pid
sleep 0.1 # beyond the tick that starts are counted by
healthy
ctl_on A --json doctor
is_found 'a program by older rules' '1 older=WARNING' \
	"process $RESULT \\(locker\\) runs since before .*A.conf was changed" \
	'restart it'
peer_end old
peer off on A env DLOCK_DISABLE=1 LD_PRELOAD="$BUILD/libdlock-preload.so" \
	DLOCK_CONFIG="$RIG/A.conf" "$BIN/locker"
ask off pid
ctl_on A --json doctor
is_found 'a library that is turned off' '1 disabled=WARNING' \
	"process $RESULT \\(locker\\) runs with DLOCK_DISABLE" 'take DLOCK_DISABLE'
peer_end off

# --- shares ---
share_at A "$RIG/zero" -o attr_timeout=0,entry_timeout=0,negative_timeout=0
share_at A "$RIG/slow"
healthy prefix="$RIG/zero/" path_more='key = "dlock:%r"'
ctl_on A --json doctor
is "$(found)" '0 ' 'a share (control)'
mkdir -p "$RIG/share/sub"
on A /usr/bin/python3 - "$RIG/share/sub/app.db" <<-'END'
	import sqlite3, sys
	c = sqlite3.connect(sys.argv[1])
	c.execute("pragma journal_mode=wal")
	c.execute("create table t (x)")
	c.close()
END
ctl_on A --json doctor
is_found 'a database in WAL mode' '2 wal=CRITICAL' \
	'zero/sub/app.db .*an SQLite database in WAL mode' 'journal_mode=DELETE'
healthy prefix="$RIG/zero/sub/app.db"
ctl_on A --json doctor
is_found '... that is the only file of a rule' '2 wal=CRITICAL' \
	'zero/sub/app.db is an SQLite database in WAL mode' 'journal_mode=DELETE'
mv "$RIG/share/sub/app.db" "$RIG/share/sub/app"
healthy prefix="$RIG/zero/sub/app"
ctl_on A --json doctor
is "$(found)" '2 wal=CRITICAL' '... whatever its name is'
: >"$RIG/share/sub/app"
ctl_on A --json doctor
is "$(found)" '0 ' 'an empty one (control)'
touch "$RIG/share/sub/app-shm"
ctl_on A --json doctor
is_found '... beside which is what only WAL mode has' '2 wal=CRITICAL' \
	'zero/sub/app-shm is of an SQLite database in WAL' 'journal_mode=DELETE'
healthy prefix="$RIG/zero/" path_more='key = "dlock:%r"'
rm -r "$RIG/share/sub"
touch "$RIG/share/data.mdb"
ctl_on A --json doctor
is_found 'LMDB' '2 wal=CRITICAL' 'data.mdb .*LMDB' 'exclude'
rm "$RIG/share/data.mdb"
healthy prefix="$RIG/slow/" path_more='key = "dlock:%r"'
ctl_on A --json doctor
is_found 'a share that caches names' '1 caches=WARNING' \
	'slow/": the fuse(.bindfs)? mount at .*/slow caches' 'entry_timeout=0'

# --- the fleet ---
# other NAME=VALUE...: as host B has it, seen from A
other()
{
	rr flushall >/dev/null
	configs "$@"
	cp "$RIG/B.conf" "$RIG/other.conf"
	configs
	ctl_on B --json -c "$RIG/other.conf" doctor
	ctl_on A --json doctor
}
other ttl=20s
is "$(found)" '0 ' 'two hosts with the same rules (control)'
other path_more='key = "jobs:%p"'
is_found 'another key' '2 fleet=CRITICAL' \
	"locks $MNT/ with key jobs:$MNT/file, this one with dlock:$MNT/file" \
	'the same on both'
other ttl=21s restart_delay=21s
is_found 'another ttl' '1 fleet=WARNING' 'with ttl 21s, this one with 20s' \
	'the same on both'
other path_more='hold_at_least = "3s"'
is_found 'another hold_at_least' '1 fleet=WARNING' \
	'with hold_at_least 3s, this one with 0s' 'the same on both'
other url="redis://dlock:x@127.0.0.1:$PORT/3"
is_found 'another database' '2 fleet=CRITICAL' \
	'with the Redis database 3 of .*, this one with' 'the same on both'
on A mkdir -p /tmp/doctor.$$
other path_more="}
path \"/tmp/doctor.$$/\" {
	ttl = \"20s\""
is_found 'a rule that this host has not' '1 fleet=WARNING' \
	"manages /tmp/doctor.$$/, which is here, too" 'give this host the rule'
rmdir /tmp/doctor.$$
rr flushall >/dev/null
healthy
ctl_on A --json doctor
STATUS=0
# shellcheck disable=SC2016 # the inner shell's
on A env DLOCK_CONFIG="$RIG/A.conf" unshare -u sh -c \
	'hostname twin; exec "$0" --json doctor' "$CTL" >"$RIG/out" \
	2>"$RIG/err" </dev/null || STATUS=$?
OUT=$(cat "$RIG/out")
is_found 'one boot id under two names' '2 fleet=CRITICAL' \
	'this host, twin, have one boot id' 'host_id'
# What this host left before it was booted again is no other host's.
word=$(uname -n)
left()
{
	rr flushall >/dev/null
	rr hset dlock%fleet "ffffffffffffffffffffffffffffffff:A $word" \
		"1 $1 5000000000
$MNT/ other:%25p 20000 0 -" >/dev/null
	ctl_on A --json doctor
}
left "$(($(date +%s) * 1000))"
is "$(found)" '2 fleet=CRITICAL' 'another host of this name, seen just now'
left $(($(date +%s) * 1000 - 86400000 * 20))
is "$(found)" '0 ' 'this one, before it was booted again'
is "$(rr hlen dlock%fleet)" 1 '... is forgotten'
rr flushall >/dev/null
rr hset dlock%fleet x y $'\x1b z' $'1 2 3\n/a b' "$(printf '%0600d' 1)" x \
	"a b" $'1 5 5\n/\x1b k 1 1 \x1b\nrelative k 1 1 -' >/dev/null
rr hset dlock%fleet "old host" "1 5 5" >/dev/null
ctl_on A doctor
unlike "$OUT" $'\x1b' 'entries that nobody left do nothing'
is "$STATUS" 0 '... and find nothing'
is "$(rr hexists dlock%fleet 'old host')" 0 'an old entry is taken away'
rr del dlock%fleet >/dev/null
rr rpush dlock%fleet x >/dev/null
ctl_on A --json doctor
is "$(found)" '3 fleet=UNKNOWN' 'no fleet: 3, for nobody knows'

# --- a replica, last: it is not the same afterwards ---
rr flushall >/dev/null
rr replicaof 127.0.0.1 1 >/dev/null
ctl_on A --json doctor
is "$STATUS $(jq -r '.findings[] | select(.check == "role") | .severity' \
	<<<"$OUT")" '2 CRITICAL' 'a replica'
like "$(jq -r '.findings[].remedy' <<<"$OUT")" 'name the master' \
	'... and what to do'
faults=$((faults + 1))
rr replicaof no one >/dev/null
rr flushall >/dev/null
healthy
head -c 1200000 /dev/zero | tr '\0' x |
	redis-cli -s "$RIG/redis.sock" -x hset dlock%fleet 'large one' >/dev/null
ctl_on A --json doctor
is_found 'a fleet of which a part is not read' '3 fleet=UNKNOWN' \
	'database 0\): not all hosts were compared' 'run doctor on each host'

# --- what a server knows no more, as managed ones do ---
# without COMMAND...: the server, from its start
without()
{
	local command options=()

	for command; do
		options+=(--rename-command "$command" '')
	done
	redis_kill
	LD_PRELOAD=$BIN/old_server.so redis_up "${options[@]}"
	healthy url="redis://127.0.0.1:$PORT/0"
	ctl_on A --json doctor
}
without
is "$(jq -r '.findings[] | select(.check == "privileges") | .what' <<<"$OUT" |
	grep -c 'may also manage')" 1 'who may ACL can manage its users (control)'
without ACL CONFIG
is_found 'a server without ACL and CONFIG: nobody manages its users' \
	'1 privileges=WARNING' "may also use keys that are none of dlock's" \
	'a user of its own'
without ACL CONFIG EXISTS
is "$(jq -r '.findings[] | select(.check == "privileges") | .what' <<<"$OUT")" \
	'' '... nor looks at other keys by what is not there'
without INFO
is "$(jq -r '.findings[] | select(.check == "answers") | .what' <<<"$OUT")" '' \
	'one without INFO answers'
like "$(jq -r '.findings[] | select(.check == "permissions") | .what' \
	<<<"$OUT")" 'may not INFO' '... and that is missed'
without PEXPIRETIME SUBSCRIBE
is "$(jq -r '.findings[] | select(.check == "permissions") | .what' <<<"$OUT" |
	sed 's/.*user "default" may not //; s/ to .*//' | sort | xargs)" \
	'PEXPIRETIME SUBSCRIBE' \
	'what locks need and the server has not is missed'
like "$(jq -r '.findings[] | select(.check == "permissions") | .remedy' \
	<<<"$OUT")" 'rename-command' '... and it says where to look'
at_least "$faults" 25 'faults were made'
note "$faults faults"
done_testing
