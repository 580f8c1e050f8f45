#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlockctl doctor looks at TLS as a program of the user would speak it: files that
# he may not read, a helper that is missing, certificates that end soon.  And what
# dlockctl check says of them.
# shellcheck disable=SC2119 # no options
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"
. "${0%/*}/../../lib/tls.sh"

# (With the time for a handshake on a busy machine.)
TLS_MORE=(ttl=30s connect_timeout=5s)

# of_tls [ARG...]: what doctor finds of it, a line each
of_tls()
{
	ctl --json doctor "$@"
	jq -r '.findings[] | select(.check == "tls") | .severity + " " + .what' \
		<<<"$OUT"
}

rig_start disks
chmod 755 "$RIG"
tls_certificates
tls_sign server ca redis.test '' 400
tls_up
chmod 755 "$TLS"
chmod 644 "$TLS/ca.pem"
tls_trusted A
chmod 644 "$RIG/A.conf"
is "$(of_tls)" '' 'a certificate of a year: nothing (control)'
is "$(of_tls --as nobody)" '' '... for another user as well'

tls_sign server ca redis.test '' 3
tls_up
like "$(of_tls)" "^WARNING redis \"main\" .*: the server's certificate ends in [23] days$" \
	'one that ends in three days, less a moment'
tls_sign server ca redis.test '' 400
tls_up
tls_config A "ca_file = \"$TLS/ca.pem\"" 'server_name = "redis.test"' \
	"cert_file = \"$TLS/client.pem\"" "key_file = \"$TLS/client.key\""
like "$(of_tls)" '^WARNING .*: the certificate of cert_file ends in [12] days$' 'our own'

tls_trusted A
chmod 600 "$TLS/ca.pem"
is "$(of_tls)" '' 'files that root alone may read: nothing for root (control)'
like "$(of_tls --as nobody)" \
	'^CRITICAL .*: user 65534 has no TLS: .*ca\.pem.*denied' \
	'... and a finding for another user'
chmod 644 "$TLS/ca.pem"

(umask 077 && echo secret >"$RIG/pass")
rr config set requirepass secret >/dev/null
rig_config A "${TLS_MORE[@]}" redis_more="password_file = \"$RIG/pass\"
	credentials = \"helper\""
chmod 644 "$RIG/A.conf"
is "$(of_tls)" '' 'a password of the helper: nothing for root (control)'
like "$(of_tls --as nobody)" \
	'^CRITICAL .*: user 65534 cannot connect: password_file .*denied' \
	'... and a finding for who may not read it'
# check: of who may not read it, it is not known; whom nobody lets in is critical
STATUS=0
DLOCK_CONFIG=$RIG/A.conf setpriv --reuid 65534 --regid 65534 --clear-groups \
	"$CTL" check >"$RIG/out" 2>"$RIG/err" || STATUS=$?
like "$STATUS $(cat "$RIG/out")" '^3 DLOCK UNKNOWN - .*password_file .*denied' \
	'... and check does not know'
tls_trusted A
tls_sign server ca redis.test '' 0
tls_up
ctl check
like "$STATUS $OUT" '^2 DLOCK CRITICAL - .* certificate has expired' \
	'check: a certificate that has expired'
ctl list
like "$STATUS $ERR" '^69 .*certificate has expired' 'list: 69'
unlike "$ERR" 'not allowed' '... for it is not the user who is refused'
ctl --json doctor
like "$(jq -r '.findings[] | select(.check == "answers") | .what' <<<"$OUT")" \
	'cannot be used: .*certificate has expired' 'doctor: it is not silent'
tls_config A "ca_file = \"$RIG/none.pem\"" 'server_name = "redis.test"'
ctl list
like "$STATUS $ERR" '^78 .*cannot use ca_file .*none.pem: No such file' \
	'a file that is not there: 78'
ctl check
like "$STATUS $OUT" '^3 DLOCK UNKNOWN - .*ca_file .*none.pem' \
	'... of which check does not know more'
tls_trusted A
tls_sign server ca redis.test '' 400
tls_up

mkdir "$RIG/bin"
cp "$CTL" "$RIG/bin/dlockctl"
STATUS=0
"$RIG/bin/dlockctl" -c "$RIG/A.conf" doctor >"$RIG/out" 2>&1 || STATUS=$?
is "$STATUS $(grep -c 'cannot start dlock-tls' "$RIG/out")" '2 1' \
	'the helper is missing: it says so once'
done_testing
