#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlock run: the command runs with the shim and a good configuration, or not
# at all, and the exit code says why.
# shellcheck disable=SC2016 # the command's shell expands them
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/tls.sh"

DLOCK=$BUILD/dlock
PUBLIC=
unset DLOCK_CONFIG DLOCK_DISABLE LD_PRELOAD

setup()
{
	RIG=$(mktemp -d "${TMPDIR:-/tmp}/dlock-run.XXXXXX") || exit 1
	trap cleanup EXIT
	trap 'exit 130' INT TERM HUP
	export XDG_RUNTIME_DIR=$RIG/xdg
	RUNTIME=$XDG_RUNTIME_DIR/dlock-run
	mkdir -m 700 "$XDG_RUNTIME_DIR"
	mkdir "$RIG/d"
	cd "$RIG" || exit 1
	redis_up
	URL=unix://$RIG/redis.sock
}

cleanup()
{
	local pid

	pid=$(cat "$RUNTIME/redis.pid" 2>/dev/null)
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
	[ -z "$PUBLIC" ] || rm -rf "$PUBLIC"
	rig_cleanup
}

# run ARG...: dlock run; $STATUS, $OUT, $ERR
run()
{
	STATUS=0
	"$DLOCK" run "$@" >"$RIG/out" 2>"$RIG/err" </dev/null || STATUS=$?
	OUT=$(cat "$RIG/out")
	ERR=$(cat "$RIG/err")
}

# code STATUS NAME: that code, and one more check of the message
code()
{
	is "$STATUS" "$1" "$2"
	[ "$STATUS" = "$1" ] || diag "$ERR"
}

setup

# --- the command line ---
is "$("$DLOCK" --version | cut -d' ' -f1)" dlock '--version names the tool'
like "$("$DLOCK" --help)" 'usage: dlock run' '--help is on stdout'
run
code 64 'no command: 64'
run --nonsense true
code 64 'an unknown option: 64'
run -c x --path d true
code 64 '-c together with --path: 64'
run --redis http://x true
code 64 'a URL that is none: 64'
run --redis "$URL" --path nowhere/../d true
code 64 'a path that cannot be: 64'

# --- the command's own ---
run --redis "$URL" --path d -- sh -c 'exit 7'
code 7 "the command's own exit code"
run --redis "$URL" --path d sh -c 'echo $0 "$@"' a --path b
is "$OUT" 'a --path b' 'options end where the command begins'
run --redis "$URL" --path d -- sh -c 'echo $PPID $$'
is "$ERR" '' 'nothing is said when all is well'
run --redis "$URL" --path d nosuchcommand
code 127 'a command that is not found: 127'
run --redis "$URL" --path d ./d
code 126 'a command that is a directory: 126'
run --redis "$URL" --path d sh -c 'echo $LD_PRELOAD'
is "$OUT" "$BUILD/libdlock-preload.so" 'the shim of the build tree'
OTHER=$BIN/null.so
OUT=$(LD_PRELOAD=$OTHER "$DLOCK" run --redis "$URL" --path d \
	sh -c 'echo $LD_PRELOAD')
is "$OUT" "$BUILD/libdlock-preload.so:$OTHER" 'it stands before the others'

# --- the configuration ---
cat >good.conf <<END
redis "r" { url = "$URL" restart_delay = "0s" }
path "$RIG/d/" { redis = "r" }
END
run -c good.conf sh -c 'echo $DLOCK_CONFIG'
is "$OUT" "$RIG/good.conf" '-c: an absolute path for the command'
OUT=$(DLOCK_CONFIG=$RIG/good.conf "$DLOCK" run sh -c 'echo $DLOCK_CONFIG')
is "$OUT" "$RIG/good.conf" '$DLOCK_CONFIG holds without an option'
DLOCK_CONFIG=$RIG/good.conf run -c '' true
code 64 'an empty -c is a variable that is unset, and does not mean that one'
like "$ERR" 'argument of -c, .* is empty' 'it says so'
run -c missing.conf true
code 78 'a configuration that is missing: 78'
echo 'path "x" {}' >bad.conf
run -c bad.conf true
code 78 'a configuration that is wrong: 78'
like "$ERR" 'bad\.conf:1' 'it says where'

mkdir "it's \${HOME}"
run --redis "$URL" --path "it's \${HOME}" --path d/new --path late/ \
	sh -c 'cat "$DLOCK_CONFIG"; stat -c "%a %n" "$DLOCK_CONFIG"'
like "$OUT" "path '$RIG/it.'s \\$\{HOME\}/' \{" \
	'a directory: with a slash, quoted'
like "$OUT" "path '$RIG/d/new' \{" 'a file that is not there yet'
like "$OUT" "path '$RIG/late/' \{" 'a directory that is not there yet'
like "$OUT" "600 $RUNTIME/[0-9a-f]{32}\.conf" 'a private file'
run --redis "$URL" --path d sh -c 'echo $DLOCK_CONFIG'
first=$OUT
run --redis "$URL" --path d sh -c 'echo $DLOCK_CONFIG'
is "$OUT" "$first" 'the same options share a configuration'
run --redis "$URL" --path late sh -c 'echo $DLOCK_CONFIG'
unlike "$OUT" "^$first\$" 'others do not'
is "$(find "$RUNTIME" -name '.new*')" '' 'no file is left half done'
OUT=$(DLOCK_CONFIG=$RIG/good.conf "$DLOCK" run --path late/ \
	sh -c 'cat "$DLOCK_CONFIG"')
like "$OUT" "unix://$RIG/redis.sock" '--path alone keeps the configured Redis'

# by_path NAME REDIS [TTL]: a configuration with these options serves --path, in
# silence
by_path()
{
	{
		printf 'redis "r" { %s }\n' "$2"
		[ -z "${3-}" ] || printf 'path "%s/near/" { ttl = "%s" }\n' \
			"$RIG" "$3"
	} >other.conf
	DLOCK_CONFIG=$RIG/other.conf run --path d \
		sh -c 'tr "\n\t" "  " <"$DLOCK_CONFIG"'
	is "$STATUS $ERR" "0 " "$1"
}
mkdir near
by_path 'a restart_delay below the default ttl' "url = \"$URL\"" 3s
like "$OUT" 'restart_delay = "3000ms".* ttl = "3000ms"' '... is the ttl'
by_path '0s is meant' "url = \"$URL\" restart_delay = \"0s\"" 3s
like "$OUT" 'restart_delay = "0ms".* ttl = "30000ms"' '... and shortens nothing'
by_path 'a connect_timeout above a sixth of it' \
	"url = \"$URL\" connect_timeout = \"10s\"" 60s
like "$OUT" ' ttl = "60000ms"' '... makes it longer'
by_path 'and without a path' "url = \"$URL\" connect_timeout = \"10s\""
like "$OUT" 'restart_delay = "60000ms".* ttl = "60000ms"' \
	'... the restart_delay, too'
by_path 'the least that is allowed' "url = \"$URL\"" 200ms
by_path 'replicas' "url = \"$URL\" replicas = 3"
like "$OUT" 'replicas = 3' '... are asked for'
printf 'redis "r" { url = "%s" }\nredis "s" { url = "%s" }\n' "$URL" "$URL" >two.conf
DLOCK_CONFIG=$RIG/two.conf run --path d true
code 64 'of two Redis --path chooses none: 64'
like "$ERR" "$RIG/two.conf has 2 redis sections" 'it says so'
echo 'host_id = "x"' >none.conf
DLOCK_CONFIG=$RIG/none.conf run --path d true
code 64 'nor of none: 64'
printf 'redis "r" { mode = "cluster" urls = { "redis://a" } }\n' >mode.conf
DLOCK_CONFIG=$RIG/mode.conf run --path d true
code 64 'a cluster is not taken along: 64'
like "$ERR" "$RIG/mode.conf: redis \"r\" .*mode.* use -c" 'it says so'

# --- beside the configuration of the host ---
# beside PATHS OPTION...: with these path sections, which options do not name
beside()
{
	printf 'host_id = "%s"\nstate_dir = "%s"\nredis "r" { %s }\n%s\n' \
		"it's-1" "$RIG/state" "url = \"$URL\" restart_delay = \"0s\"" \
		"$1" >host.conf
	shift
	DLOCK_CONFIG=$RIG/host.conf run "$@"
}
mkdir jobs
ln -s jobs link
for how in '--path d' "--redis $URL --path d" "--redis $URL"; do
	# shellcheck disable=SC2086 # words
	beside '' $how sh -c 'tr "\n\t" "  " <"$DLOCK_CONFIG"'
	like "$STATUS $OUT" "^0 .*host_id = 'it\\\\'s-1' +state_dir = '$RIG/state'" \
		"${how/unix:*sock/URL}: host_id and state_dir are the host's"
done
is "$(sort <<<"$ERR")" "dlock: no --path: files under $RIG are managed" \
	'... and nothing is warned of'

# A machine that was resumed from the same snapshot has the lock: of its boot id
# and file, by its own host_id.  What of this host is so is the lease of a dead.
beside '' --path d flock d/z redis-cli -s "$RIG/redis.sock" get "dlock:$RIG/d/z"
like "$OUT" '^dlock1 ' 'a lease (control)'
read -r word random host rest <<<"$OUT"
planted="$word ${random//[0-9]/7} $host $rest"
rr set "dlock:$RIG/d/z" "$planted" px 60000 >/dev/null
beside '' --path d flock -n d/z echo granted
is "$STATUS $OUT" '0 granted' 'a dead process of this host is no holder (control)'
planted="$word ${random//[0-9]/8} ${host/%-1/-2} $rest"
rr set "dlock:$RIG/d/z" "$planted" px 60000 >/dev/null
beside '' --path d flock -n d/z echo granted
is "$STATUS $OUT" '1 ' 'another machine of the same boot id is'
rr del "dlock:$RIG/d/z" >/dev/null

rule="path \"$RIG/jobs/\" { key = \"jobs:%r\" }"
for how in '--path jobs' "--path $RIG/jobs/deep/" "--path $RIG/jobs/f" '--path .' \
	"--redis $URL --path jobs"; do
	# shellcheck disable=SC2086 # words
	beside "$rule" $how true
	like "$STATUS $ERR" "^64 .*host\.conf:4: path \"$RIG/jobs/\" locks .* by key \
\"jobs:[^\"]*\".* by \"dlock:$RIG/jobs/[^\"]*\" .*: leave out --path" \
		"${how//unix:*sock/URL}: another key than the host's: 64"
done
beside "path \"$RIG/jobs/\" { }" --path "$RIG/link/" true
code 64 'by another spelling of the prefix: 64'
beside "path \"$RIG/jobs/\" { exclude = { \"*\" } key = \"jobs:%r\" }" \
	--path jobs true
is "$STATUS $ERR" '0 ' 'what the host excludes is not locked by its key'
beside "$rule" --path d true
is "$STATUS $ERR" '0 ' 'other files: nothing is said'
beside "$rule" --redis "$URL?db=1" --path jobs true
is "$STATUS $ERR" '0 ' 'another Redis is the word of who names it'
beside "path \"$RIG/jobs/\" { }" --path jobs true
is "$STATUS $ERR" '0 ' 'the same key: nothing is said'
beside "path \"$RIG/jobs/\" { on_lost = \"hold\" hold_at_least = \"55s\"
	exclude = { \"*.tmp\" } }" --path "$RIG/jobs/" true
like "$STATUS $ERR" "^0 dlock: warning: .*host\.conf:4: path \"$RIG/jobs/\" .*\
\\(hold_at_least, on_lost, exclude\\).* leave out --path" \
	'... with other options: a warning that names them'
for file in bad.conf missing.conf; do
	DLOCK_CONFIG=$file run --redis "$URL" --path d true
	like "$STATUS $ERR" "^0 dlock: warning: $file:.* host_id" \
		"--redis: whether $file has a host_id cannot be known"
done

tls_up --tls-auth-clients yes
by_path 'TLS: its own CA, name, certificate and key' "
	url = \"rediss://127.0.0.1:$TLS_PORT\" ca_file = \"$TLS/ca.pem\"
	server_name = \"redis.test\" cert_file = \"$TLS/client.pem\"
	key_file = \"$TLS/client.key\""

chmod 755 "$RUNTIME"
run --redis "$URL" --path d true
code 78 'a runtime directory that others can enter: 78'
chmod 700 "$RUNTIME"
mv "$RUNTIME" "$RIG/elsewhere"
ln -s "$RIG/elsewhere" "$RUNTIME"
run --redis "$URL" --path d true
code 78 'a runtime directory that is a link: 78'
rm "$RUNTIME"

# --- Redis ---
run --redis unix:///nonexistent.sock --path d true
code 69 'a Redis that does not answer: 69'
like "$ERR" '^dlock: redis "[^"]*": .*/nonexistent.sock.*No such file' \
	'it names server and reason'
like "$ERR" "/true was not run: see dlockctl -c $RUNTIME/[^ ]+ doctor\$" \
	'... and that nothing has run'
cat >local.conf <<END
redis "r" { url = "unix:///nonexistent.sock" }
path "$RIG/d/" { redis = "r" unreachable = "local" }
END
run -c local.conf true
code 0 'unreachable = "local": it may be silent'
like "$ERR" '^dlock: warning: redis "r": .*nonexistent' 'but it is warned of'
unlike "$ERR" 'was not run' '... for the command runs'
printf 'redis "r" { mode = "quorum" urls = { "%s", "%s", "%s" } }\n%s\n' "$URL" \
	"redis://127.0.0.1:$PORT" unix:///nonexistent.sock 'path "'"$RIG"'/d/" { redis = "r" }' \
	>majority.conf
run -c majority.conf true
code 0 'a master is silent, and a majority answers'
like "$ERR" '^dlock: warning: redis "r": .*nonexistent' '... it is warned of'

# --- programs that cannot be locked ---
run --redis "$URL" --path d "$BUILD/dlock-keeper"
code 126 'a static program: 126'
like "$ERR" 'static' 'it says why'
cp "$BIN/now" now
run --redis "$URL" --path d --allow-unlocked ./now
code 0 'a dynamic one runs'
printf '\x07' | dd of=now bs=1 seek=18 conv=notrunc status=none
run --redis "$URL" --path d ./now
code 126 'a program of another machine: 126'
# What it does there is its own affair: only that it is started counts.
run --redis "$URL" --path d --allow-unlocked "$BUILD/dlock-keeper"
like "$ERR" 'UNLOCKED.*static' '--allow-unlocked: with a warning'
printf '#!/usr/bin/env bash\necho inner\n' >inner
printf '#!./inner\n' >outer
printf '#!%s\n' "$BUILD/dlock-keeper" >static
printf '#!./loop\n' >loop
chmod +x inner outer static loop
run --redis "$URL" --path d ./outer
is "$OUT" inner 'a script of a script runs'
run --redis "$URL" --path d ./static
code 126 'a script for a static interpreter: 126'
run --redis "$URL" --path d ./loop
code 126 'a script without an end: 126'

# Real ones.  Go's own linker, and the system's: its note stands behind others,
# and without section headers (their offset is at 40) only that tells.
cat >locks.c <<'END'
#include <stdio.h>

int main(void)
{
	return puts("it runs") < 0;
}
END
for kind in -static -static-pie; do
	ok "cc $kind" "${CC:-cc}" "$kind" -o "locks$kind" locks.c
	run --redis "$URL" --path d "./locks$kind"
	code 126 "a program linked $kind: 126"
	like "$ERR" 'static' 'it says why'
	run --redis "$URL" --path d --allow-unlocked "./locks$kind"
	is "$STATUS $OUT" '0 it runs' "$kind: --allow-unlocked runs it"
	like "$ERR" 'UNLOCKED.*static' 'with a warning'
done
run --redis "$URL" --path d fzf --version
code 126 'a Go program that is linked dynamically: 126'
like "$ERR" 'Go program' 'it says why'
is "$OUT" '' 'and does not run it'
run --redis "$URL" --path d --allow-unlocked fzf --version
code 0 'Go: --allow-unlocked runs it'
like "$ERR" 'UNLOCKED.*Go program' 'with a warning'
cp "$(type -P fzf)" stripped
printf '\0\0\0\0\0\0\0\0' |
	dd of=stripped bs=1 seek=40 conv=notrunc status=none
run --redis "$URL" --path d ./stripped --version
code 126 'a Go program without section headers: 126'
like "$ERR" 'Go program' 'it says why'

cp "$(type -P true)" passwd
if [ "$(id -u)" = 0 ] && ! findmnt -nT "$RIG" -o OPTIONS | grep -q nosuid; then
	chown 1 passwd
	chmod 4755 passwd
	run --redis "$URL" --path d ./passwd
	code 126 'a set-user-ID program of another user: 126'
	chown 0 passwd
	chmod 4755 passwd
	run --redis "$URL" --path d ./passwd
	code 0 'of our own: it changes nothing'
	chown 1 passwd
	chmod 4755 passwd
	STATUS=0
	ERR=$(setpriv --no-new-privs "$DLOCK" run --redis "$URL" --path d \
		./passwd 2>&1) || STATUS=$?
	code 0 'with no_new_privs it changes nothing'
	chown 0:1 passwd
	chmod 2755 passwd
	run --redis "$URL" --path d ./passwd
	code 126 'a set-group-ID program: 126'
	chmod 0755 passwd

	# As another user, to whom nothing but this is open.
	PUBLIC=$(mktemp -d /tmp/dlock-run.XXXXXX)
	chmod 755 "$PUBLIC"
	cp "$DLOCK" "$BUILD/libdlock-preload.so" "$PUBLIC"
	printf 'redis "r" { url = "redis://127.0.0.1:%s" restart_delay = "0s" }
path "%s/d/" { redis = "r" }\n' "$PORT" "$PUBLIC" >"$PUBLIC/conf"
	cp "$(type -P true)" "$PUBLIC/capable"
	run_as_other()
	{
		STATUS=0
		ERR=$(cd "$PUBLIC" && setpriv --reuid 65534 --regid 65534 \
			--clear-groups ./dlock run -c conf "$@" 2>&1) ||
			STATUS=$?
	}
	run_as_other ./capable
	code 0 'another user, a common program: it runs'
	ok 'setcap' setcap cap_net_raw+ep "$PUBLIC/capable"
	run_as_other ./capable
	code 126 'a program with file capabilities: 126'
	like "$ERR" 'file capabilities' 'it says why'
	run_as_other --allow-unlocked ./capable
	code 0 'capabilities: --allow-unlocked runs it'
	like "$ERR" 'UNLOCKED.*file capabilities' 'with a warning'
	run --redis "$URL" --path d "$PUBLIC/capable"
	code 0 'for root they change nothing'
	run_as_other su --version
	code 126 'su(1), by another user: 126'
	like "$ERR" 'set-user-ID' 'it says why'
	printf '#!%s\n' "$(type -P su)" >"$PUBLIC/script"
	chmod 755 "$PUBLIC/script"
	run_as_other ./script
	code 126 'a script for a set-user-ID interpreter: 126'
else
	skip 'set-user-ID programs' 'needs root, and a mount without nosuid'
fi

# --- programs that start another one elsewhere ---
run --redis "$URL" --path d sudo -n sh -c 'echo "[$LD_PRELOAD]"'
code 126 'sudo: 126, for root too'
like "$ERR" 'sudo.*LD_PRELOAD' 'it says why'
run --redis "$URL" --path d ssh nowhere job
code 126 'ssh: 126'
run --redis "$URL" --path d su - -c 'echo "[$LD_PRELOAD]"'
code 126 'su for a login: 126'
run --redis "$URL" --path d --allow-unlocked su - -c 'echo "[$LD_PRELOAD]"'
is "$STATUS $OUT" '0 []' '--allow-unlocked runs it, and it has no shim (control)'
like "$ERR" 'UNLOCKED.*LD_PRELOAD' 'with a warning'
run --redis "$URL" --path d su -s /bin/sh -c 'echo "[$LD_PRELOAD]"'
is "$STATUS $OUT" "0 [$BUILD/libdlock-preload.so]" 'su without a login has it'
run -c good.conf flock d/f sudo -n echo runs
is "$STATUS $OUT" '0 runs' 'who has the lock may start what has no shim'

# --- the private Redis ---
run --path d sh -c 'echo it runs'
is "$OUT" 'it runs' 'without a Redis a private one is started'
like "$ERR" 'this machine only' 'it says whom it serves'
private=$(cat "$RUNTIME/redis.pid")
run true
is "$(cat "$RUNTIME/redis.pid")" "$private" 'later runs find it'
like "$ERR" "files under $RIG are managed" \
	'without --path: the current directory'
is "$(stat -c '%a' "$RUNTIME/redis.sock")" 700 'its socket is private'
is "$(tr '\0' '\n' <"/proc/$private/environ" | grep -c LD_PRELOAD)" 0 \
	'it is not preloaded'
private_is_gone()
{
	! kill -0 "$private" 2>/dev/null
}
kill -KILL "$private"
until_true 2 private_is_gone
: >"$RUNTIME/redis.log"
for _ in 1 2 3 4; do
	"$DLOCK" run --path d true 2>/dev/null 9>"$RIG/held" &
done
wait
is "$(grep -c 'Server initialized' "$RUNTIME/redis.log")" 1 \
	'runs at once start one'
private=$(cat "$RUNTIME/redis.pid")
is "$(find "/proc/$private/fd" -lname "$RIG/held")" '' \
	"it inherits none of the caller's descriptors"
# end_private: the next run starts another
end_private()
{
	kill -KILL "$private"
	until_true 2 private_is_gone
}
end_private
exec {held}>"$RIG/held"
flock "$held"
is "$("$BIN/refused" close_range "$DLOCK" run --path d echo went 2>/dev/null)" \
	went 'where close_range is refused it is started, too'
exec {held}>&-
private=$(cat "$RUNTIME/redis.pid")
ok '... and what the caller had locked is free when that ends' \
	flock -n "$RIG/held" true
end_private
is "$(env --ignore-signal=CHLD "$DLOCK" run --path d \
	sed -n 's/^SigIgn:.*\(.\)....$/\1/p' /proc/self/status 2>/dev/null)" 1 \
	'a caller that ignores SIGCHLD: it is started, and that stays ignored'
private=$(cat "$RUNTIME/redis.pid")
end_private
STATUS=0
ERR=$(PATH=$RIG "$DLOCK" run --path d /bin/true 2>&1) || STATUS=$?
code 69 'no redis-server: 69'
like "$ERR" 'not installed.*--redis' 'and what to do'
: >redis-server
STATUS=0
ERR=$(PATH=$RIG "$DLOCK" run --path d /bin/true 2>&1) || STATUS=$?
code 69 'one that cannot be executed: 69'
like "$ERR" 'cannot be executed.*--redis' '... which names no log that is not there'

done_testing
