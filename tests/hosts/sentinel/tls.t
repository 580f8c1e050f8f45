#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Sentinels, a master and its replica that speak TLS, to each other as well: the
# master is found, a failover is followed, and a Sentinel or a master whose
# certificate is not trusted is none.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/tls.sh"

# The port by which Sentinels name a server here.
server_port()
{
	[ "$1" = 1 ] && echo "$TLS_PORT" || echo "$TLS_PORT_2"
}

certificate()
{
	printf '%s\n' tls-cert-file "$TLS/server.pem" tls-key-file "$TLS/server.key" \
		tls-ca-cert-file "$TLS/ca.pem" tls-auth-clients no tls-replication yes
}

# Their ports for TLS are beside the others.
tls_sentinels_up()
{
	local i

	for i in 1 2 3; do
		free_port
		STLS_PORT[i]=$FREE
		SENTINEL_MORE=$(certificate | paste -d' ' - -
			echo "tls-port ${STLS_PORT[$i]}")
		sentinel_up "$i" "$TLS_PORT"
	done
	for i in 1 2 3; do
		until_true 10 sees "$i" || rig_die "Sentinel $i does not see the others"
	done
	publish_each 2000
}

# by_tls HOST CA
by_tls()
{
	local i urls=''

	for i in 1 2 3; do
		urls+="${urls:+, }\"rediss://127.0.0.1:${STLS_PORT[$i]}/0\""
	done
	rig_config "$1" restart_delay=2s ttl=30s connect_timeout=5s timeout=20s \
		"${@:3}"
	sed -i "s|^ *url = .*|    mode = \"sentinel\" urls = { $urls } master = \"rig\"\
		ca_file = \"$2\" server_name = \"redis.test\"|" "$RIG/$1.conf"
}

declare -a STLS_PORT=()
rig_start disks
tls_up --tls-replication yes --repl-diskless-sync-delay 0
tls_authority other
mapfile -t with < <(certificate | sed 's/^tls-/--&/')
free_port
TLS_PORT_2=$FREE
master_up 2 --tls-port "$TLS_PORT_2" "${with[@]}" \
	--replicaof 127.0.0.1 "$TLS_PORT" --repl-diskless-sync-delay 0
ok 'a replica follows by TLS' until_true 10 follows 2
tls_sentinels_up
by_tls A "$TLS/ca.pem"
by_tls B "$TLS/ca.pem"
until_true 10 redis_is_old 4

locker a dl A
ask a 'open f f'
ask a 'lock f EX'
is "$RESULT" 0 'a lock'
is "$(dl B flock -n f echo granted 2>"$RIG/err")" '' '... refuses the other host'
is "$(cat "$RIG/err")" '' '... which has found the master, too'
failover
is "$MASTER" 2 'a failover, asked for'
ask a 'lock f UN'
ask a 'lock f EX' 30
is "$RESULT" 0 '... is followed'
ok '... to who is the master now' grep -q 'name=dlock-' <<<"$(m 2 client list)"
ask a 'lock f UN'
peer_end a

# A process without a lock has no thread that listens: what it finds out it has of
# the connection that fails.
granted_at_last()
{
	ask b 'lock f EX NB' 20
	[ "$RESULT" = 0 ]
}

demote
each_sentinel sentinel set rig down-after-milliseconds 600000
by_tls A "$TLS/ca.pem" timeout=5s
locker b dl A
ask b 'open f f'
master_kill 2
ask b 'lock f EX' 20
is "$RESULT" ENOLCK 'a master that is dead, and still named'
# (Nobody is promoted who has been without the master for ten of these longer than it
# is known to be down, and it was as long as the lock was asked for.  Two tries to make
# one are 20 s apart.)
each_sentinel sentinel set rig down-after-milliseconds "$DOWN_MS"
ok '... until another one is' until_true 50 failed_over 1
ok '... is asked about again' until_true 20 granted_at_last
ask b 'lock f UN'
peer_end b

# (With the time for a handshake on a busy machine.)
by_tls A "$TLS/other.pem" ttl=120s connect_timeout=20s timeout=60s
like "$(dl A flock -n f true 2>&1)" \
	'no Sentinel names the master: .*certificate is refused.*ENOLCK' \
	'Sentinels that are not trusted: none of them is asked'
done_testing
