#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# What is wrong with a server is named in the line of the log (L8), with Redis'
# own words, and what to do about it; and so is a keeper that is missing.
. "${0%/*}/../../lib/rig.sh"

TIMEOUT=3000			# ms

config()
{
	rig_config A timeout=${TIMEOUT}ms "$@"
}

# named NAME PATTERN...: one call fails, with one line that has all of these
named()
{
	local name=$1 pattern out

	shift
	out=$(dl A flock -n f true 2>&1 | grep '^dlock: ')
	note "$out"
	is "$(grep -c . <<<"$out")" 1 "$name: one line"
	for pattern; do
		like "$out" "$pattern" "$name: it has '$pattern'"
	done
}

# works NAME: without a word
works()
{
	is "$(dl A flock -n f true 2>&1; echo $?)" 0 "$1: works, and says nothing"
}

rig_start disks
config
works 'a server as it should be'

# --- passwords ------------------------------------------------------------
r config set requirepass secret >/dev/null
export REDISCLI_AUTH=secret
named 'no password' 'NOAUTH Authentication required' 'password_file'
config url="redis://:wrong@127.0.0.1:$PORT/0"
named 'a wrong password' 'WRONGPASS' 'password_file'
config url="redis://:secret@127.0.0.1:$PORT/0"
works 'the password'
r config set requirepass '' >/dev/null
unset REDISCLI_AUTH

config
r config set requirepass secret >/dev/null
export REDISCLI_AUTH=secret
out=$(dl A "$BIN/records" tell <<<$'open a f\nset a W 0 10' 2>&1)
like "$out" 'NOAUTH Authentication required.*password_file' \
	'no password: a range, too'
r config set requirepass '' >/dev/null
unset REDISCLI_AUTH

# --- permissions ----------------------------------------------------------
rr acl setuser poor on '>x' '~*' '&*' +@all -evalsha >/dev/null
config url="redis://poor:x@127.0.0.1:$PORT/0"
named 'a user who may not' 'NOPERM' 'dlock.conf\(5\)'
rr acl setuser poor +@all -info >/dev/null
works 'a user who may not INFO, where no delay is asked for'
config url="redis://poor:x@127.0.0.1:$PORT/0" restart_delay=3s
r script flush >/dev/null
named '... where one is' 'NOPERM.*info' 'dlock.conf\(5\)'

# --- names ----------------------------------------------------------------
config url="redis://redis.invalid:$PORT/0"
named 'an unknown host' 'unknown host name .*redis\.invalid'
config url="redis://localhost:$PORT/0"
works 'a host name'

# --- roles ----------------------------------------------------------------
config
r config set replica-priority 1 >/dev/null
rr replicaof 127.0.0.1 1 >/dev/null
named 'a replica' 'READONLY' 'replica of 127\.0\.0\.1:1' 'master'
r script flush >/dev/null
named 'a replica that was never taught' 'replica of 127\.0\.0\.1:1' 'master'
rr replicaof no one >/dev/null
works 'the same, promoted, where no delay is asked for'

# --- versions -------------------------------------------------------------
version=$(rr info server | tr -d '\r' | sed -n 's/^redis_version://p')
old=6${version:1}
proxy p
config url="redis://127.0.0.1:$PROXY/0"
works "Redis $version"
r script flush >/dev/null
ask p "change redis_version:$version redis_version:$old"
named 'Redis 6' "Redis $old" '7\.0 or newer'
ask p pass

# --- maxmemory-policy -----------------------------------------------------
config
r config set maxmemory 100mb >/dev/null
works 'a limit of memory'
r config set maxmemory-policy allkeys-lru >/dev/null
named 'a policy that evicts' 'maxmemory-policy is allkeys-lru' \
	'must be noeviction' 'allow_eviction'
rig_empty 5 'what it granted all the same is given back'
config redis_more='allow_eviction = true'
works 'the same, if the configuration allows it'
config
out=$(dl A "$BIN/records" tell <<<$'open a f\nset a W 0 10' 2>&1)
like "$out" 'ENOLCK' 'not a range either'
like "$out" 'maxmemory-policy is allkeys-lru.*noeviction' '... and says why'
r config set maxmemory 0 >/dev/null
works 'the policy, without a limit'

# --- what passes by itself: until the timeout ------------------------------
r config set min-replicas-to-write 1 >/dev/null
named 'too few replicas' 'NOREPLICAS' 'min-replicas-to-write'
r config set min-replicas-to-write 0 >/dev/null
works 'enough of them'

r config set busy-reply-threshold 10 >/dev/null
redis-cli -s "$RIG/redis.sock" eval 'while true do end' 0 >/dev/null 2>&1 &
is_busy()
{
	[[ $(r ping) == *BUSY* ]]
}
ok 'a script runs' until_true 5 is_busy
named 'a busy server' 'BUSY' 'SCRIPT KILL ends it'
r script kill >/dev/null
ok 'it has ended' until_true 5 redis_is_up
works 'one with time'

# other OPTION...: a server that listens at $RIG/o.sock, of a directory of its own
other()
{
	mkdir -p "$RIG/o"
	nice -n -20 setpriv --pdeathsig KILL redis-server --port 0 --save '' --dir "$RIG/o" \
		--unixsocket "$RIG/o.sock" --appendonly no "$@" >/dev/null &
	OTHER=$!
	disown $OTHER
	until_true 5 o_answers
}

# (It is there before anybody listens.)
o_answers()
{
	[[ $(redis-cli -s "$RIG/o.sock" ping 2>&1) =~ PONG|LOADING ]]
}

others_end()
{
	kill -KILL "$OTHER" 2>/dev/null
	rig_cleanup
}
trap others_end EXIT
other --rdbcompression no
redis-cli -s "$RIG/o.sock" eval 'for i = 1, 4000 do
	redis.call("SET", i, string.rep(i, 200)) end' 0 >/dev/null
redis-cli -s "$RIG/o.sock" save >/dev/null
kill -KILL "$OTHER"
rm "$RIG/o.sock"
other --key-load-delay 5000 --rdbcompression no --loading-process-events-interval-bytes 1024
config url="unix://$RIG/o.sock"
named 'a server that starts' 'LOADING' 'reads its data'
kill -KILL "$OTHER"
rm -r "$RIG/o.sock" "$RIG/o"

o()
{
	redis-cli -s "$RIG/o.sock" "$@" 2>&1
}
other
works 'one that has started'
rmdir "$RIG/o"
o set something 1 >/dev/null
o config set save '3600 1' >/dev/null
o bgsave >/dev/null
cannot_save()
{
	[[ $(o info persistence) == *rdb_last_bgsave_status:err* ]]
}
ok 'it cannot save' until_true 5 cannot_save
named 'a server that cannot save' 'MISCONF' 'see its log, and its disk'
kill -KILL "$OTHER"
rm "$RIG/o.sock"

config url='redis://127.0.0.1:7777/0'
# shellcheck disable=SC2016 # the inner shell's
out=$(DLOCK_CONFIG=$RIG/A.conf unshare -n bash -c '
	ip link set lo up
	mkdir "$1/c"
	nice -n -20 setpriv --pdeathsig KILL redis-server --port 7777 --bind 127.0.0.1 \
		--save "" --dir "$1/c" --cluster-enabled yes >/dev/null &
	until redis-cli -p 7777 ping 2>/dev/null | grep -q PONG; do
		sleep 0.02
	done
	LD_PRELOAD=$2 flock -n "$1/mnt/f" true
	kill $!' sh "$RIG" "$BUILD/libdlock-preload.so" 2>&1 | grep '^dlock: flock')
note "$out"
like "$out" 'CLUSTERDOWN.*Redis Cluster' 'a node of a Cluster: named'
config

# --- protected mode, and too many clients ---------------------------------
# An address that is none of the loopback network's, in a network of its own.
protected()
{
	# shellcheck disable=SC2016 # the inner shell's
	unshare -n bash -c '
		ip link set lo up
		ip addr add 10.255.255.1/32 dev lo
		nice -n -20 setpriv --pdeathsig KILL redis-server --port 7777 --save "" \
			--bind 10.255.255.1 --protected-mode yes \
			--dir "$1" --unixsocket "$1/p.sock" >/dev/null &
		until redis-cli -s "$1/p.sock" ping 2>/dev/null | grep -q PONG
		do
			sleep 0.02
		done
		for i in 1 2 3 4 5 6 7 8 9 10; do
			LD_PRELOAD=$2 flock -n "$1/mnt/f" true
		done
		kill $!' sh "$RIG" "$BUILD/libdlock-preload.so"
}
config url='redis://10.255.255.1:7777/0'
out=$(DLOCK_CONFIG=$RIG/A.conf protected 2>&1 | grep '^dlock: flock')
note "$(head -n 1 <<<"$out")"
is "$(grep -c 'DENIED.*protected mode.*give it a password' <<<"$out")" 10 \
	'protected mode: each of ten times it is named'

config
exec {held}<>"/dev/tcp/127.0.0.1/$PORT"
# (It counts when it is answered.)
echo PING >&"$held"
read -r _ <&"$held"
r config set maxclients 1 >/dev/null
named 'too many clients' 'max number of clients' 'maxclients'
exec {held}>&-
has_room()
{
	[ "$(rr config set maxclients 1000)" = OK ]
}
until_true 5 has_room

# --- a keeper -------------------------------------------------------------
mkdir "$RIG/lonely"
cp "$BUILD/libdlock-preload.so" "$RIG/lonely/"
config
out=$(on A env LD_PRELOAD="$RIG/lonely/libdlock-preload.so" \
	DLOCK_CONFIG="$RIG/A.conf" flock f sleep 0.2 2>&1)
note "$out"
like "$out" "no keeper.*$RIG/lonely/dlock-keeper.*installed" \
	'a missing keeper: named, and where it is looked for'
rig_empty 8
rig_end
