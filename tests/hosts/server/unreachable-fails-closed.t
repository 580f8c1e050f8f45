#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# Fail closed, in bounded time, and say so (L8): whatever is wrong with Redis,
# flock fails with ENOLCK within the rule's timeout, with one log line that
# names path, key, server and reason; the program goes on, and its next call
# works when Redis is back.
. "${0%/*}/../../lib/rig.sh"

TIMEOUT=3000			# ms
SLACK=200

ms()
{
	echo $(((END - START) / 1000000))
}

lines()
{
	wc -l <"$RIG/$1.err"
}

# refused NAME REASON SERVER [MODE]: one call of locker a.  (The reason is
# a pattern: words that a reader would look for.)
refused()
{
	local name="$1${4:+ $4}" before line

	before=$(lines a)
	ask a "lock a EX${4:+ $4}"
	is "$RESULT" ENOLCK "$name: ENOLCK"
	in_time "$(ms)" $((TIMEOUT + SLACK)) "$name: within the timeout (ms)" \
		"$SLACK"
	is $(($(lines a) - before)) 1 "$name: one log line"
	line=$(tail -n 1 "$RIG/a.err")
	note "$line"
	like "$line" "^dlock: .*$MNT/f" "$name: it names the path"
	like "$line" "dlock:$MNT/f" "$name: ... the key"
	like "$line" "$3" "$name: ... the server"
	like "${line,,}" "$2" "$name: ... the reason"
}

# fails_closed NAME REASON SERVER MEND...: both ways to ask; then MEND, and
# the same process locks.
fails_closed()
{
	local name=$1 reason=$2 server=$3

	shift 3
	locker a dl A
	ask a 'open a f'
	refused "$name" "$reason" "$server"
	refused "$name" "$reason" "$server" NB
	ask a 'write a 7'
	is "$RESULT" 0 "$name: the program goes on"
	if [ "$#" != 0 ]; then
		"$@"
		ask a 'lock a EX'
		is "$RESULT" 0 "$name: mended, the same process locks"
		ask a 'lock a UN'
		is "$RESULT" 0 "$name: and unlocks"
	fi
	peer_end a
	rig_empty 6 "$name: no key is left"
}

config()
{
	rig_config A timeout=${TIMEOUT}ms ttl=5s connect_timeout=500ms "$@"
}

rig_start disks
KEY=dlock:$MNT/f
proxy p
VIA=127.0.0.1:$PROXY

# --- not there ------------------------------------------------------------
config url="redis://$VIA/0"
ask p refuse
fails_closed 'connection refused' 'refused' "$VIA" ask p pass

config url="unix://$RIG/late.sock"
fails_closed 'no socket' 'no such file' "$RIG/late.sock" \
	ln -s "$RIG/redis.sock" "$RIG/late.sock"

# --- hanging --------------------------------------------------------------
config
kill -STOP "$REDIS_PID"
fails_closed 'server stopped' 'time|timed|answer' "127.0.0.1:$PORT" \
	kill -CONT "$REDIS_PID"

config url="redis://$VIA/0"
ask p hang
fails_closed 'proxy hangs' 'time|timed|answer' "$VIA" ask p pass

for mode in close reset 'cut 3'; do
	ask p "$mode"
	fails_closed "proxy: $mode" \
		'reset|closed|pipe|refused|no whole answer' "$VIA" ask p pass
done

# --- answering errors -----------------------------------------------------
peer fake nice -n -20 /usr/bin/python3 "$TOP/tests/programs/fakeredis.py"
hear fake
FAKE=127.0.0.1:$RESULT
i=0
# shellcheck disable=SC2016 # RESP, not expressions
answers=(
	'-ERR not today\r\n'		'not today'
	'-NOAUTH Authentication required.\r\n'	'noauth|authentication'
	'-NOPERM this user has no permissions\r\n'	'noperm|permission'
	'-LOADING Redis is loading the dataset in memory\r\n'	'loading'
	'-MISCONF Errors writing to the AOF file\r\n'	'misconf'
	'-OOM command not allowed\r\n'	'oom'
	'-READONLY You are a replica.\r\n'	'readonly'
	'HTTP/1.1 400 Bad Request\r\n\r\n'	'protocol|answer|repl'
	'!flood 209715200'		'large|long|big|protocol|answer|repl'
	'*1000000\r\n'			'.'
	':1\r\n'			'.'
	'+OK\r\n'			'.'
	'$-1\r\n'			'.'
	'*0\r\n'			'.'
	'*3\r\n:7\r\n:0\r\n$0\r\n\r\n'	'.'
	'*3\r\n$1\r\n1\r\n*-1\r\n:1\r\n'	'.'
)
while [ "$i" -lt "${#answers[@]}" ]; do
	ask fake "${answers[i]}"
	ask p "target $FAKE"
	fails_closed "answer ${answers[i]}" "${answers[i + 1]}" "$VIA" \
		ask p "target 127.0.0.1:$PORT"
	i=$((i + 2))
done
peer_end fake

# --- the wrong type at the key --------------------------------------------
config
mend_key()
{
	r del "$KEY" >/dev/null
}
for put in lpush sadd; do
	r "$put" "$KEY" x >/dev/null
	fails_closed "wrong type ($put)" 'list|set|type' "127.0.0.1:$PORT" \
		mend_key
done
r hset "$KEY" x y >/dev/null
fails_closed 'wrong type (hset)' 'hash|type' "127.0.0.1:$PORT" mend_key
r xadd "$KEY" '*' x y >/dev/null
fails_closed 'wrong type (xadd)' 'stream|type' "127.0.0.1:$PORT" mend_key

# --- passwords ------------------------------------------------------------
password()
{
	r config set requirepass "$1" >/dev/null
	export REDISCLI_AUTH=$1
	[ -n "$1" ] || unset REDISCLI_AUTH
}
password secret
fails_closed 'no password' 'noauth|auth' "127.0.0.1:$PORT" password ''
password secret
config url="redis://:wrong@127.0.0.1:$PORT/0"
fails_closed 'wrong password' 'wrongpass|password|auth' "127.0.0.1:$PORT" \
	password wrong
password ''

# --- a key without a ttl is a holder without a ttl ------------------------
config
r set "$KEY" somebody >/dev/null
status=0
dl A flock -n f true 2>"$RIG/flock.err" || status=$?
is "$status" 1 'a key without ttl: flock -n ends with 1'
locker a dl A
ask a 'open a f'
ask a 'lock a EX NB'
is "$RESULT" EAGAIN 'a key without ttl: EWOULDBLOCK'
out=$(DLOCK_CONFIG=$RIG/A.conf "$BUILD/dlockctl" list)
note "$out"
like "$out" "$MNT/f" 'a key without ttl: dlockctl list shows it'
mend_key
ask a 'lock a EX NB'
is "$RESULT" 0 'a key without ttl: gone, the lock is granted'
ask a 'lock a UN'
peer_end a

# --- a huge value ---------------------------------------------------------
head -c 50000000 /dev/zero | tr '\0' x |
	redis-cli -s "$RIG/redis.sock" -x set "$KEY" >/dev/null
r pexpire "$KEY" 60000 >/dev/null
locker a dl A
ask a 'open a f'
ask a 'lock a EX NB'
is "$RESULT" EAGAIN 'a value of 50 MB: somebody holds it'
in_time "$(ms)" $((TIMEOUT + SLACK)) 'a value of 50 MB: in time (ms)' "$SLACK"
mend_key
peer_end a
rig_end
