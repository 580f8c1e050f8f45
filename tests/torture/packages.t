#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 900
#
# make deb and make rpm: each is installed in a fresh system of its own, used
# there, and removed, after which nothing of it is left.
TOP=$(cd "${0%/*}/../.." && pwd)
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
# shellcheck source=tests/lib/chroot.sh
. "$TOP/tests/lib/chroot.sh"
cd "$TOP" || exit 1
sh tests/lib/deps.sh package >/dev/null 2>&1
dir=$(mktemp -d "${TMPDIR:-/tmp}/dlock-packages.XXXXXX") || exit 1
trap '[ -z "$redis" ] || kill "$redis"; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP

# What there is, and what is in the files of users and groups.
listed()
{
	(cd "$root" && find . -xdev ! -path './var/lib/dpkg/*' \
		! -path './var/lib/rpm*' ! -path './root/.rpmdb*' ! -path './var/log/*' \
		! -path './var/cache/*' ! -name '*-' ! -path './proc/*' |
		sort && cat etc/passwd etc/group)
}

# fresh NAME [DIRECTORY...]
fresh()
{
	root=$dir/$1
	mkdir "$root"
	tar -C "$root" -xf "$dir/fresh.tar"
	cat >"$root/root/dlock.conf" <<-END
	redis "main" { url = "redis://127.0.0.1:$port/0"
	    restart_delay = "0s" }
	path "/tmp/" { }
	END
	# Directories that are other packages' there.
	shift
	(cd "$root" && mkdir -p . "$@")
	before=$(listed)
}

# used LIBRARY: a lock of a program in there is a key at Redis
used()
{
	local seen

	seen=$(inside env LD_PRELOAD="$1" DLOCK_CONFIG=/root/dlock.conf \
		flock -n /tmp/job sleep 3 &
		for _ in $(seq 100); do
			[ "$(asked dbsize)" = 0 ] || break
			sleep 0.1
		done
		asked keys '*'
		wait)
	is "$seen" 'dlock:/tmp/job' "$1: a lock in there is a key at Redis"
	ok '... until it has ended' all_gone
	inside env DLOCK_CONFIG=/root/dlock.conf dlock run -c /root/dlock.conf \
		-- flock -n /tmp/job true
	is "$?" 0 'dlock run finds its library'
	inside env DLOCK_CONFIG=/root/dlock.conf dlockctl check >"$dir/check"
	is "$?" 0 'dlockctl check'
	ok 'nothing is left at Redis' all_gone
}

# shellcheck disable=SC2119 # with no option
begin_redis

ok 'a fresh system' mmdebstrap --quiet --variant=minbase \
	--include=libssl3 bookworm "$dir/fresh.tar"
built()
{
	sh tools/packaging/build.sh "$1" >"$dir/$1.log" 2>&1
}
ok 'make deb' built deb
ok 'make rpm' built rpm
nothing_in_the_way()
{
	make -n all >/dev/null
}
ok '... and make works after them' nothing_in_the_way
deb=$(find build/package -name 'dlock_*.deb' | head -1)
rpm=$(find build/package -name '*.rpm' | head -1)
found=$(lintian --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog \
	--fail-on error,warning "$deb" 2>&1)
is "$?" 0 'lintian has no error and no warning'
diag "$found"

# --- Debian ---
fresh deb
cp "$deb" "$root/tmp.deb"
ok 'it is installed' inside dpkg -i /tmp.deb
rm "$root/tmp.deb"
ok 'the group of the secret is there' inside getent group dlock
# ($LIB is ld.so's word, not the shell's.)
# shellcheck disable=SC2016
used '/usr/$LIB/dlock/libdlock-preload.so'
is "$(objdump -h "$root"/usr/lib/*/dlock/libdlock-preload.so |
	grep -c debug_info)" 0 'the library is stripped'
ok 'it is removed' inside dpkg -P dlock
is "$(diff <(echo "$before") <(listed))" '' 'nothing of it is left'

# --- rpm ---
fresh rpm usr/lib/sysusers.d usr/share/licenses
ok 'rpm: it is installed' rpm --root "$root" -i --nodeps "$TOP/$rpm"
used /usr/lib64/dlock/libdlock-preload.so
ok 'rpm: it is removed' rpm --root "$root" -e --nodeps dlock
# A group that owned a secret stays, as rpm has it.
is "$(diff <(echo "$before") <(listed | grep -v '^dlock:'))" '' \
	'rpm: nothing of it is left'

done_testing
