#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A server's name has several addresses, and only one of them leads there: by IPv6
# it does not listen, another one refuses, one takes what comes and is silent.  Each
# is tried in its turn, within the one attempt of a call, in the clear and by TLS.
# shellcheck disable=SC2119,SC2016 # no options; expanded later
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/tls.sh"

# named HOST ADDRESS...: what getent(1) says there of many.example from now on;
# before that it does $FIRST
named()
{
	local host=$1 address type

	shift
	{
		printf '#!/bin/sh\n%s\n' "$FIRST"
		for address; do
			for type in STREAM DGRAM RAW; do
				echo "echo '$address $type many.example'"
			done
		done
	} >"$RIG/getent.$host"
}

# configs TIME: for an attempt, of which looking up is a part, and for a call
configs()
{
	rig_configs url="$SCHEME://many.example:$AT/0" connect_timeout="$1" \
		timeout="$1" ttl=60s redis_more="$MORE"
}

# tried: the addresses that the last attempt tried, by strace(1).  (Each begins with
# getent(1).  One that a busy machine has cut short is made anew.)
tried()
{
	awk '/^(clone|fork|vfork)/ { if (group) last = group; group = "" }
		/^connect/ {
			sub(/^[^"]*"/, ""); sub(/".*/, "")
			group = group (group ? " " : "") $0
		}
		END { print group ? group : last }' "$RIG/strace"
}

# granted NAME ADDRESS...: though these are the name's
granted()
{
	local name=$1

	shift
	configs 10s
	named A "$@"
	is "$(on A strace -qq -e trace=connect,clone,fork,vfork -e signal=none \
		-o "$RIG/strace" -E LD_PRELOAD="$SHIM" \
		-E DLOCK_CONFIG="$RIG/A.conf" flock -n f echo yes 2>&1)" \
		yes "$name: granted"
	is "$(tried)" "$*" '... by one attempt'
}

# not_granted NAME REASON ADDRESS...
not_granted()
{
	local out

	configs 2s
	named A "${@:3}"
	out=$(dl A flock -n f echo yes 2>&1)
	note "$out"
	like "$out" "many.example:$AT/0: cannot connect: $2" "$1"
	unlike "$out" 'yes' '... not granted (control)'
}

# A socket there whose backlog is full: connections to it are not refused, and
# never made.
full_at()
{
	peer full /usr/bin/python3 -c 'import socket, sys
at = (sys.argv[1], int(sys.argv[2]))
s = socket.socket(socket.AF_INET6 if ":" in at[0] else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(at)
s.listen(0)
clients = []
while True:
    c = socket.socket(s.family)
    clients.append(c)
    c.settimeout(0.3)
    try:
        c.connect(at)
    except TimeoutError:
        break
print("full", flush=True)
sys.stdin.read()' "$1" "$2"
	hear full 30
	is "$RESULT" full "nobody gets through to $1"
}

rig_start disks
AT=$PORT SCHEME=redis MORE='' FIRST=''
for host in A B; do
	named "$host"
	chmod +x "$RIG/getent.$host"
	on "$host" mount --bind "$RIG/getent.$host" /usr/bin/getent
done
refused='Connection refused'

granted 'one address' 127.0.0.1
not_granted 'one that refuses is named' "127.0.0.2: $refused" 127.0.0.2
FIRST="mkdir $RIG/asked 2>/dev/null || exec sleep 3" \
	not_granted '... though it was looked up in vain again' \
	"127.0.0.2: $refused" 127.0.0.2
not_granted 'two that refuse are' "127.0.0.2: $refused; 127.0.0.3: $refused" \
	127.0.0.2 127.0.0.3
granted 'the first one refuses' 127.0.0.2 127.0.0.1
granted 'the first five do' 127.0.0.2 127.0.0.3 127.0.0.4 127.0.0.5 127.0.0.6 \
	127.0.0.1
granted 'it does not listen by IPv6' ::1 127.0.0.1
full_at 127.0.0.2 "$AT"
not_granted 'one that is silent is named' '127.0.0.2: Connection timed out' \
	127.0.0.2
granted 'the first one is silent' 127.0.0.2 127.0.0.1
peer_end full

# A connection that is made anew goes where the last one led.
configs 10s
named A 127.0.0.2 127.0.0.1
locker a dl A
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'a program that goes on has a lock'
r client kill type normal >/dev/null
ask a 'lock a UN'
ask a 'lock a EX'
is "$RESULT" 0 'its connection was killed: it has the next one'
is "$(cat "$RIG/a.err")" '' '... and nothing is said'
ask a 'lock a UN'
peer_end a

# --- by TLS: the helper looks it up itself, by a file of this host ---
tls_up
names=$(printf '%s many.example\n' ::1 127.0.0.1)
on A sh -c 'echo "$1" >"$2/hosts" && mount --bind "$2/hosts" /etc/hosts' sh \
	"$names" "$RIG"
free_port
AT=$FREE SCHEME=rediss MORE="
	ca_file = \"$TLS/ca.pem\"
	server_name = \"redis.test\""
not_granted 'by TLS, all that refuse are named' \
	"::1: $refused; 127.0.0.1: $refused"
AT=$TLS_PORT
configs 10s
is "$(dl A flock -n f echo yes 2>&1)" yes 'by TLS, not by IPv6: granted'
full_at ::1 "$AT"
is "$(dl A flock -n f echo yes 2>&1)" yes '... which is silent: granted'
rig_end
