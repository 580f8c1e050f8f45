#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# One of three masters is not reached, and nobody says so: it accepts and is
# silent, by TLS; its name is looked up, and no answer comes.  It may be the first
# one: locks are granted by the other two, leases are renewed by them, and released
# at them.  When it can be reached it has what is held, too.
# shellcheck disable=SC2119,SC2016 # no options; expanded later
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/tls.sh"

# The masters' URLs, in place of those that the rig would write.
masters_config()
{
	printf 'mode = "quorum"\n    urls = { "%s", "%s", "%s" }' "${URLS[@]}"
}

# by_tls I J K: the masters' URLs, in that order; the first one's is the proxy's
by_tls()
{
	local i

	URLS=()
	for i; do
		URLS+=("rediss://127.0.0.1:${TLS_AT[$i]}/0")
	done
	for i in A B; do
		rig_config "$i" "${TIMES[@]}" redis_more="
			ca_file = \"$TLS/ca.pem\"
			server_name = \"redis.test\""
	done
}

# by_name: the first master's is a name
by_name()
{
	URLS=("redis://the-server:$PORT/0" "redis://127.0.0.1:${MASTER_PORT[2]}/0"
		"redis://127.0.0.1:${MASTER_PORT[3]}/0")
	rig_configs "${TIMES[@]}"
}

# granted NAME: to a new program, and nothing is said
granted()
{
	is "$(dl A flock -n g echo yes 2>&1)" yes "$1: granted"
}

# not_granted NAME REASON
not_granted()
{
	local out

	out=$(dl A flock -n g echo yes 2>&1)
	like "$out" "of 3 masters answered, 2 must: .*($2)" "$1 (control: it cannot be reached)"
	unlike "$out" 'yes' "$1: not granted"
}

# By the other two.
is_held()
{
	[ -n "$TOKEN" ] && [ "$(m 2 get "dlock:$MNT/f")" = "$TOKEN" ] &&
		[ "$(m 3 get "dlock:$MNT/f")" = "$TOKEN" ]
}

refused_at_b()
{
	ask b 'lock b EX NB'
	[ "$RESULT" = EAGAIN ]
}

# times MS [TIMEOUT CONNECT-TIMEOUT]: of what is locked from now on
times()
{
	TTL=$1
	TIMES=("ttl=${TTL}ms" "timeout=${2-3s}" "connect_timeout=${3-1s}")
}

# held_through NAME TTLS: what A holds is renewed for so many, and its program lives
held_through()
{
	TOKEN=$(m 2 get "dlock:$MNT/f")
	ok "$1: what is held stays so, for $2 ttl" \
		throughout $(($2 * TTL)) 20 is_held
	ok "$1: ... and refused to another host" refused_at_b
	is "$(cat "$RIG/a.err")" '' "$1: ... and nothing is said of that"
	ask a 'write a 7'
	is "$RESULT" 0 "$1: ... whose program goes on"
}

# A new end of each connection of A, which are by TLS.
no_connections()
{
	on A pkill -KILL -x dlock-tls
}

rig_start disks
times 6000

# A getent(1) that answers when $RIG/answer is there, as late as that says.
cat >"$RIG/getent" <<-END
	#!/bin/sh
	until [ -e "$RIG/answer" ]; do sleep 0.02; done
	. "$RIG/answer"
	echo "127.0.0.1 STREAM the-server"
END
chmod +x "$RIG/getent"
for host in A B; do
	on "$host" mount --bind "$RIG/getent" /usr/bin/getent
done

# --- a name that nobody answers for ---
by_name
touch "$RIG/answer"
granted 'its name is answered for (control)'

# The others have answered long before: it is asked all the same, and not by the
# first renewal only.  (One without a core for that long is not.)
echo 'sleep 0.05' >"$RIG/answer"
all=0
for i in {1..40}; do
	locker a dl A
	ask a 'open a f'
	ask a 'lock a EX'
	[ "$(votes f)" != 3 ] || all=$((all + 1))
	peer_end a
	until_true 5 has_votes f 0 || break
	[ "$i" -lt 8 ] || [ "$all" = 0 ] || break
done
ok 'each is released' has_votes f 0
at_least "$all" 1 "its name is answered for in 50 ms: $all of $i leases are with all"
rm "$RIG/answer"
granted 'its name is not answered for'
master_kill 3
not_granted '... and another one is dead' 'the-server:.*its name is still looked up'
master_up 3

# (Its last mark is to come within the first ttl.)
touch "$RIG/answer"
times 24000
by_name
locker a dl A
locker b dl B
ask a 'open a f'
ask b 'open b f'
ask a 'lock a EX'
is "$RESULT" 0 'a lock is held'
ok '... by all' until_true 10 has_votes f 3
rm "$RIG/answer"
master_kill 1
master_up 1
held_through 'the first one was restarted, and its name is not answered for' 1
ask a 'lock a UN'
ok '... and released where it is' until_true 5 has_votes f 0
peer_end a b
times 6000
by_name
locker a dl A
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'one is taken meanwhile'
is "$(votes f)" 2 '... by two of them (control: there is no answer)'
echo 'sleep 0.3' >"$RIG/answer"
ok '... the name is answered for, late: the third has it, too' \
	until_true 20 has_votes f 3
ask a 'lock a UN'
ok '... and gives it back' until_true 5 has_votes f 0
peer_end a

# --- one that accepts, and is silent ---
# (With the time for a handshake on a busy machine.)
times 12000 8s 2s
for i in 1 2 3; do
	master_kill "$i"
	free_port
	TLS_AT[i]=$FREE
	[ -n "$TLS" ] || tls_certificates
	master_up "$i" --tls-port "$FREE" --tls-cert-file "$TLS/server.pem" \
		--tls-key-file "$TLS/server.key" --tls-ca-cert-file \
		"$TLS/ca.pem" --tls-auth-clients no
done
proxy p "${TLS_AT[1]}"
TLS_AT[1]=$PROXY
by_tls 1 2 3
granted 'by TLS (control)'
ask p refuse
granted 'by TLS, the first one refuses (control)'
ask p pass
ask p hang
granted 'by TLS, the first one is silent'
by_tls 2 3 1
granted '... the last one is'
by_tls 1 2 3
master_kill 2
not_granted '... the first one is, and the second one is dead' \
	"$PROXY/0: (no connection by TLS yet|the server does not answer TLS)"
master_up 2 --tls-port "${TLS_AT[2]}" --tls-cert-file "$TLS/server.pem" \
	--tls-key-file "$TLS/server.key" --tls-ca-cert-file "$TLS/ca.pem" \
	--tls-auth-clients no

ask p pass
locker a dl A
locker b dl B
ask a 'open a f'
ask b 'open b f'
ask a 'lock a EX'
is "$RESULT" 0 'a lock is held by TLS'
ok '... by all' until_true 10 has_votes f 3
ask p hang
no_connections
held_through 'the first one is silent, and all connections are new' 2
no_connections
ask a 'lock a UN'
is "$RESULT" 0 'it is unlocked as all connections are broken'
has_it_no_more()
{
	[ "$(m "$1" exists "dlock:$MNT/f")" = 0 ]
}
ok '... and released at the second one' until_true 5 has_it_no_more 2
ok '... and at the third' until_true 5 has_it_no_more 3
ask p pass
rig_end
