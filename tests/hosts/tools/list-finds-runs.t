#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlockctl list finds what dlock run has run, without being told where: with a
# Redis of the command line, with a private one, beside the host's own
# configuration.  With --redis it needs no configuration at all.
# shellcheck disable=SC2119 # no options
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/tls.sh"

unset XDG_RUNTIME_DIR DLOCK_CONFIG
DLOCK=$BUILD/dlock
CTL=$BUILD/dlockctl
URL=''

rig_start disks
URL=redis://127.0.0.1:$PORT
on A mount -t tmpfs run /run
on A mkdir d e
cp -a /etc "$RIG/etc"
mkdir -p "$RIG/etc/dlock"
rm -f "$RIG/etc/dlock/dlock.conf"
on A mount --bind "$RIG/etc" /etc

# ctl ARG...: on host A; $STATUS, $OUT, $ERR
ctl()
{
	STATUS=0
	on A "$CTL" "$@" >"$RIG/out" 2>"$RIG/err" || STATUS=$?
	OUT=$(cat "$RIG/out")
	ERR=$(cat "$RIG/err")
}

paths()
{
	jq -c '[.locks[].path]' <<<"$OUT" 2>&1
}

# held NAME PATH ARG...: under dlock run ARG..., NAME has the lock
held()
{
	local name=$1 path=$2

	shift 2
	peer "$name" on A "${ENVIRONMENT[@]}" "$DLOCK" run "$@" -- \
		"$BIN/locker"
	ask "$name" "open f $path"
	ask "$name" 'lock f EX NB'
	is "$RESULT" 0 "$name has the lock"
}
ENVIRONMENT=(env)

# The server has to be older than the longest lease of such a run.
redis_kill
LD_PRELOAD=$BIN/old_server.so redis_up

ctl list
is "$STATUS" 78 'nothing is configured and nothing has run: 78'
like "$ERR" 'nothing that runs under dlock run' 'it says so'
held one d/one --redis "$URL" --path d
ctl --json list
is "$STATUS $(paths)" "0 [\"$MNT/d/one\"]" 'it is found'
held two e/two --redis "$URL" --path "$MNT/e/"
ctl list --json
is "$STATUS $(paths)" "0 [\"$MNT/d/one\",\"$MNT/e/two\"]" \
	'and one of other options at the same server, each once'
on A mkdir -p /run/user/0
ENVIRONMENT=(env XDG_RUNTIME_DIR=/run/user/0)
held private e/private --path e
ENVIRONMENT=(env)
ctl list --json
is "$STATUS $(paths)" \
	"0 [\"$MNT/d/one\",\"$MNT/e/private\",\"$MNT/e/two\"]" \
	'and one at a private server, of a login'
is "$(jq -c '[.locks[].server] | unique | length' <<<"$OUT")" 2 \
	'... which has the same name, and another address'
# (By any password: the default user has none.)
on A "$DLOCK" run --redis "redis://:x@127.0.0.1:$PORT" --path d true 2>"$RIG/err"
ctl stats --prometheus
is "$STATUS $(grep -v '^#' <<<"$OUT" | sed 's/ [^ ]*$//' | sort | uniq -d)" '0 ' \
	'stats: no series is printed twice'
is "$(grep -c '^dlock_up' <<<"$OUT")" 2 '... and none is missing'
# shellcheck disable=SC2016 # the inner shell's
on A sh -c 'rm $(grep -l :x@ /run/dlock-run/*.conf)'
ctl explain d/one
is "$STATUS" 78 'explain is about the one configuration of the host'

cat >"$RIG/etc/dlock/dlock.conf" <<END
redis "main" { url = "$URL" restart_delay = "0s" }
path "$MNT/own/" { key = "own:%r" }
END
rr set own:f token px 60000 >/dev/null
ctl list --json
is "$STATUS $(paths)" "0 [\"$MNT/d/one\",\"$MNT/e/private\",\"$MNT/e/two\",\
\"$MNT/own/f\"]" "beside those of the host's own configuration"
OUT=$(on A env DLOCK_CONFIG=/etc/dlock/dlock.conf "$CTL" --json list)
is "$(paths)" "[\"$MNT/own/f\"]" 'which alone is looked at if it is named'
ctl -c /etc/dlock/dlock.conf --json list
is "$(paths)" "[\"$MNT/own/f\"]" 'by -c as well'
chmod 700 "$RIG/etc/dlock"
STATUS=0
OUT=$(on A setpriv --reuid 65534 --regid 65534 --clear-groups "$DLOCK" run \
	echo ran 2>&1) || STATUS=$?
is "$STATUS $OUT" '78 dlock: /etc/dlock/dlock.conf: Permission denied' \
	'who may not look into its directory does not run without it'
chmod 755 "$RIG/etc/dlock"
rm "$RIG/etc/dlock/dlock.conf"
rr del own:f >/dev/null

# Of that and of a run, in two spellings: each lock is one.
held both d/both --redis "$URL" --path d
printf 'redis "main" { url = "redis://localhost:%s" restart_delay = "0s" }
path "%s/" { }\n' "$PORT" "$MNT" >"$RIG/etc/dlock/dlock.conf"
ask both 'range f F_WRLCK 0 10'
ask both 'range f F_WRLCK 20 10'
ctl --json list
is "$STATUS $(jq -c '[.locks[] | select(.path | endswith("/both")) |
	[.mode, .start]]' <<<"$OUT")" '0 [["EX",null],["WRITE",0],["WRITE",20]]' \
	'one server by two names: a row for each lock'
is "$(jq '[.locks[].server] | unique | length' <<<"$OUT")" 2 \
	'... of the section whose rule it is'
tokens=$(jq -r '.locks[] | select(.path | endswith("/both")) | .token' <<<"$OUT" |
	sort -u)
ctl list --path "$MNT/none"
like "$ERR" '\(there are 6\)' '... and for none else'
ctl --json check
is "$(jq .locks <<<"$OUT")" 6 '... check counts it once'
for token in $tokens; do
	ctl --json break --yes --token "$token"
	is "$STATUS $(jq -c '[.leases[].outcome]' <<<"$OUT")" '0 ["broken"]' \
		'... and break breaks it once'
done
peer_end both
rr del "{dlock:$MNT/d/both}%h" "{dlock:$MNT/d/both%rec}%h" >/dev/null
rm "$RIG/etc/dlock/dlock.conf"

ctl --redis "$URL" --json list
is "$STATUS $(paths)" "0 [\"$MNT/d/one\",\"$MNT/e/two\"]" \
	'--redis: all default keys there'
ctl --redis "$URL" -c x list
is "$STATUS" 64 '--redis goes not with -c'
ctl --redis "$URL" explain d
is "$STATUS" 64 'nor with explain'
ctl --redis http://x list
is "$STATUS" 64 'a URL that is none'

ctl break --yes "$MNT/d/one"
is "$STATUS" 78 'break of a path is about the one configuration, too'
ctl --redis "$URL" --json show d/one
is "$STATUS" 64 'show goes not with --redis'
ctl --json list --path d/one
token=$(jq -r '.locks[0].token' <<<"$OUT")
ctl --json break --yes --token "$token"
is "$STATUS $(jq -c '[.leases[].outcome]' <<<"$OUT")" '0 ["broken"]' \
	'a token is found wherever list looks'
ctl --json list
is "$STATUS $(paths)" "0 [\"$MNT/e/private\",\"$MNT/e/two\"]" 'and it is gone'
peer_end one two private
rr del "{dlock:$MNT/d/one}%h" >/dev/null # what break leaves (history.t)
rig_empty
is "$(on A cat /run/user/0/dlock-run/redis.pid | wc -w)" 1 \
	'a private server runs'
private_is_gone()
{
	! on A redis-cli -s /run/user/0/dlock-run/redis.sock ping \
		>/dev/null 2>&1
}
# shellcheck disable=SC2016 # the inner shell's
on A sh -c 'kill -KILL $(cat /run/user/0/dlock-run/redis.pid)'
ok 'it is killed' until_true 5 private_is_gone
ctl list
is "$STATUS $ERR" '0 dlockctl: no locks held' \
	'a private server that is gone has no locks'
redis_kill
ctl list
like "$STATUS $ERR" \
	"^69 .*127.0.0.1:$PORT.*refused \(/run/dlock-run/[0-9a-f]{32}\.conf:2\)" \
	'another that is gone is told, with the file that names it'
on A sh -c 'rm /run/dlock-run/*.conf'

# The one trusts its certificate, the other does not: they are asked each.
tls_up
TLS_MORE=(ttl=30s connect_timeout=5s)
tls_trusted T
printf 'redis "main" { url = "rediss://127.0.0.1:%s/0" connect_timeout = "5s" }
path "%s/own/" { }\n' \
	"$TLS_PORT" "$MNT" >"$RIG/etc/dlock/dlock.conf"
on A env DLOCK_CONFIG="$RIG/T.conf" "$DLOCK" run --path e true
rr set "dlock:$MNT/e/f" token px 60000 >/dev/null
ctl --json list
is "$STATUS $(paths)" "69 [\"$MNT/e/f\"]" 'one server by TLS, by two authorities'
rm "$RIG/etc/dlock/dlock.conf"

chmod 755 "$RIG"
on A chmod 755 /run/dlock-run
ctl list
like "$ERR" '/run/dlock-run: not a private directory' \
	'what others may have written is not looked at'
done_testing
