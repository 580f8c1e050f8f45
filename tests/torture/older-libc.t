#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 900
#
# The oldest glibc and kernel headers, gcc and OpenSSL that it is built with, by
# dlock(7): those of the system named here.  It is built in a fresh one of these,
# and used there: programs print what they do bare, and a lock is a key at Redis,
# until it ends, by TLS, too.  Older systems are in no archive that is here.
#
#	older-libc.t [SUITE [GLIBC [TAR]]]	TAR: such a system, made before
TOP=$(cd "${0%/*}/../.." && pwd)
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=tests/lib/chroot.sh
. "$TOP/tests/lib/chroot.sh"
cd "$TOP" || exit 1
suite=${1:-bullseye} glibc=${2:-2.31}
sh tests/lib/deps.sh package >/dev/null 2>&1
dir=$(mktemp -d "${TMPDIR:-/tmp}/dlock-older.XXXXXX") || exit 1
trap '[ -z "$redis" ] || kill "$redis"; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
root=$dir/root

# same NAME: under dlock as bare, and it has asked Redis
same()
{
	local name=$1 bare dl before

	inside gcc -D_GNU_SOURCE -Dstrerrorname_np=strerror -w -O1 \
		-o "/root/$name" "/src/tests/conform/$name.c" -lpthread
	bare=$(inside timeout 60 sh -c "cd /tmp && /root/$name" 2>&1)
	before=$(asked info commandstats |
		sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\).*/\1/p')
	dl=$(inside env LD_PRELOAD=/src/build/libdlock-preload.so \
		DLOCK_CONFIG=/root/dlock.conf \
		timeout 60 sh -c "cd /tmp && /root/$name" 2>&1)
	ok "$name: it prints" test -n "$bare"
	is "$(diff <(echo "$bare") <(echo "$dl"))" '' \
		"$name: the same under dlock"
	ok "$name: ... which has asked Redis (control)" test \
		"$(asked info commandstats |
			sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\).*/\1/p')" \
		-gt "${before:-0}"
	ok '... and nothing is left' all_gone
}

mkdir "$root"
fresh=${3:-$dir/fresh.tar}
[ -e "$fresh" ] || ok "a fresh $suite" mmdebstrap --quiet --variant=minbase \
	--include=gcc,make,binutils,libc6-dev,libhiredis-dev,libconfuse-dev,libssl-dev,mawk,openssl \
	"$suite" "$fresh"
tar -C "$root" -xf "$fresh"
like "$(inside getconf GNU_LIBC_VERSION)" "glibc ${glibc//./\\.}$" "its glibc"
is "$(sed -n 's/^It is built with glibc \([0-9.]*\) and newer.*/\1/p' \
	config/dlock.7)" "$glibc" 'is the oldest that dlock(7) says'
mkdir "$root/src"
tar -c --exclude=./build --exclude=./build32 --exclude='./build-*' \
	--exclude=./.git . | tar -C "$root/src" -x
built()
{
	inside make -C /src -j2 all >"$dir/log" 2>&1 && return
	diag "$(tail -20 "$dir/log")"
	return 1
}
ok 'it is built there' built

openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 \
	-addext 'subjectAltName=IP:127.0.0.1' -keyout "$dir/key.pem" \
	-out "$dir/cert.pem" 2>/dev/null
cp "$dir/cert.pem" "$root/root/"
# shellcheck disable=SC2119 # one
free_port
tls=$FREE
begin_redis --tls-port "$tls" --tls-cert-file "$dir/cert.pem" \
	--tls-key-file "$dir/key.pem" --tls-auth-clients no

# configured URL [LINE]
configured()
{
	cat >"$root/root/dlock.conf" <<-END
	redis "main" { url = "$1"
	    restart_delay = "0s"
	    ${2-} }
	path "/tmp/" { }
	END
}

configured "redis://127.0.0.1:$port/0"
# (Those that need no newer libc themselves.)
for name in flock_results flock_fork flock_exec flock_last_thread record_calls \
	record_getlk record_lockf record_deadlock record_cancel record_threads \
	record_whence fcntl_others; do
	same "$name"
done

# by URL [LINE]: a lock that outlives its program is a key, and carried
by()
{
	configured "$@"
	# shellcheck disable=SC2016
	seen=$(inside env LD_PRELOAD=/src/build/libdlock-preload.so \
		DLOCK_CONFIG=/root/dlock.conf bash -c '
			(exec 9>/tmp/job; flock 9; echo is; sleep 3); sleep 1' |
		while read -r _; do
			sleep 1
			asked keys '*'
		done)
	is "$seen" 'dlock:/tmp/job' "${1%%:*}: a lock that outlives flock(1) is a key"
	ok '... until it has ended' all_gone
}
by "redis://127.0.0.1:$port/0"
by "rediss://127.0.0.1:$tls/0" 'ca_file = "/root/cert.pem"'
inside env DLOCK_CONFIG=/root/dlock.conf /src/build/dlock run \
	-c /root/dlock.conf -- flock -n /tmp/job true
is "$?" 0 'dlock run'
inside env DLOCK_CONFIG=/root/dlock.conf /src/build/dlockctl check >"$dir/check"
is "$?" 0 'dlockctl check'
done_testing
