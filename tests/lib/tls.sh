# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# A Redis that speaks TLS at $TLS_PORT beside what it speaks else, and its
# certificates; after rig.sh.
#
#	tls_up [OPTION...]	begins it anew; its certificate is for redis.test
#	tls_config HOST [LINE...]  what rig_config does, by rediss://; and with $TLS_MORE
TLS=''
TLS_PORT=''
TLS_MORE=()

# tls_sign NAME CA SUBJECT [EXTENSION [DAYS]]: $TLS/NAME.pem and its key
tls_sign()
{
	local name=$1 ca=$2 subject=$3

	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$TLS/$name.key" -out "$TLS/$name.csr" \
		-subj "/CN=$subject" 2>/dev/null
	echo "${4:-subjectAltName=DNS:$subject}" >"$TLS/$name.ext"
	openssl x509 -req -in "$TLS/$name.csr" -CA "$TLS/$ca.pem" \
		-CAkey "$TLS/$ca.key" -CAcreateserial -days "${5:-2}" \
		-extfile "$TLS/$name.ext" -out "$TLS/$name.pem" 2>/dev/null
}

# tls_authority NAME
tls_authority()
{
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$TLS/$1.key" -out "$TLS/$1.pem" -days 2 \
		-subj "/CN=$1" 2>/dev/null
}

tls_certificates()
{
	TLS=$RIG/tls
	mkdir -p "$TLS"
	tls_authority ca
	tls_sign server ca redis.test
	tls_sign client ca client.test
}

tls_up()
{
	[ -n "$TLS" ] || tls_certificates
	redis_kill
	[ -n "$TLS_PORT" ] || free_port
	TLS_PORT=${TLS_PORT:-$FREE}
	redis_up --tls-port "$TLS_PORT" --tls-cert-file "$TLS/server.pem" \
		--tls-key-file "$TLS/server.key" --tls-ca-cert-file \
		"$TLS/ca.pem" --tls-auth-clients no "$@"
}

# tls_config HOST [LINE...]: its configuration, with these options of redis
tls_config()
{
	local host=$1 more

	shift
	more=$(printf '%s\n' "$@")
	rig_config "$host" url="rediss://127.0.0.1:$TLS_PORT/0" \
		redis_more="$more" "${TLS_MORE[@]}"
}

tls_trusted()
{
	tls_config "$1" "ca_file = \"$TLS/ca.pem\"" \
		'server_name = "redis.test"'
}

# helpers HOST: the numbers of its processes that speak TLS
helpers()
{
	on "$1" pgrep -x dlock-tls --runstates=R,S,D
}
