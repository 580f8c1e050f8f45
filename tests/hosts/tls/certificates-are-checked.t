#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# rediss://: a server that cannot be trusted, or does not trust us, is none.
# The lock fails with ENOLCK, at once where another attempt is of no use, with
# one line that names path, key, server and reason, and what to do.
# shellcheck disable=SC2119 # expanded later; no options
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/tls.sh"

# refused NAME PATTERN: a lock of host A
refused()
{
	dl A flock -n f true 2>"$RIG/err"
	is "$?" 71 "$1: the lock fails" # (EX_OSERR: flock(1))
	is "$(grep -c '^dlock: ' "$RIG/err")" 1 "$1: it is said once"
	like "$(head -1 "$RIG/err")" \
		"$MNT/f.*dlock:$MNT/f.*127.0.0.1:$TLS_PORT/0: $2" \
		"$1: of what, where and why"
}

granted()
{
	ok "$1" dl A flock -n f true
}

rig_start disks
tls_up
on A touch f
tls_trusted A
granted 'trusted: locked'

tls_config A 'server_name = "redis.test"'
refused 'nobody vouches for it' 'the server.s certificate is refused: .*ca_file'
tls_authority other
tls_config A "ca_file = \"$TLS/other.pem\"" 'server_name = "redis.test"'
refused 'vouched for by another' 'the server.s certificate is refused: .*ca_file'
tls_config A "ca_file = \"$TLS/ca.pem\""
refused 'of another name' 'the server.s certificate is refused: .*server_name'
tls_config A "ca_file = \"$TLS/ca.pem\"" 'server_name = "evil.test"'
refused 'not the name that is configured' \
	'the server.s certificate is refused: .*server_name'
tls_config A "ca_file = \"$TLS/none.pem\"" 'server_name = "redis.test"'
refused 'no such ca_file' "cannot use ca_file $TLS/none.pem: No such file"

# --- an address as its name, and one that is over ---
tls_sign server ca redis.test 'subjectAltName=IP:127.0.0.1'
tls_up
tls_config A "ca_file = \"$TLS/ca.pem\""
granted 'a certificate for the address: locked'
tls_sign server ca redis.test '' 0
tls_up
tls_trusted A
refused 'expired' 'the server.s certificate is refused: certificate has expired .renew'
tls_sign server ca redis.test

# --- it asks who we are ---
tls_up --tls-auth-clients yes
tls_trusted A
refused 'it asks for our certificate' '.*cert_file'
tls_config A "ca_file = \"$TLS/ca.pem\"" 'server_name = "redis.test"' \
	"cert_file = \"$TLS/client.pem\"" "key_file = \"$TLS/client.key\""
granted '... and is shown it'
tls_config A "ca_file = \"$TLS/ca.pem\"" 'server_name = "redis.test"' \
	"cert_file = \"$TLS/client.pem\"" "key_file = \"$TLS/server.key\""
refused 'the key is of another certificate' 'cannot use key_file .*: key values mismatch'

# --- it would take a certificate, and goes away ---
# (Another try may find it well again.)
cat >"$RIG/goes.py" <<'END'
import socket, ssl, sys

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/server.pem", sys.argv[1] + "/server.key")
context.load_verify_locations(sys.argv[1] + "/ca.pem")
context.verify_mode = ssl.CERT_OPTIONAL
context.num_tickets = 0
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    try:
        connection = context.wrap_socket(listener.accept()[0], server_side=True)
        print("gone", file=sys.stderr, flush=True)
        if sys.argv[2] == "says":
            connection.unwrap()
        connection.close()
    except OSError:
        pass # who closed first
END
# (Two handshakes, on a busy machine.)
TLS_MORE=(ttl=12s connect_timeout=2s timeout=8s)
for how in says silent; do
	peer goes nice -n -20 /usr/bin/python3 "$RIG/goes.py" "$TLS" "$how"
	hear goes
	TLS_PORT=$RESULT tls_trusted A
	TLS_PORT=$RESULT refused "it goes away, $how" \
		'the server closed the connection'
	at_least "$(grep -c gone "$RIG/goes.err")" 2 'and is tried again'
	kill "${PEER_PID[goes]}"
	peer_end goes
done
TLS_MORE=()
tls_trusted A

# --- one speaks TLS, and the other does not ---
rig_config A url="rediss://127.0.0.1:$PORT/0"
TLS_PORT=$PORT refused 'TLS to a plain port' '.*TLS'
tls_trusted A
tls_up
granted 'all is well again'
rig_end
