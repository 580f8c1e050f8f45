#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What a library for 32-bit programs is made with (make lib32).
#
#	lib32.sh why DIR CC...	in one line why none can be made; nothing if one can
#	lib32.sh get DIR CC...	has Debian's static libraries of i386 in DIR, unless
#				they are installed
#
#  1. The machine MUST stay as it is: no foreign architecture of dpkg's, which
#     every later apt-get would ask its servers for, and no package of one, for
#     libc's would meet the one of gcc-multilib.  Two files are taken out of two
#     packages, which apt-get has verified.
set -eu

what=$1 dir=$2
shift 2

# has LIBRARY: in DIR, or installed, where the Makefile looks, too
has()
{
	[ -e "$dir/lib$1.a" ] ||
		[ -e "/usr/lib/$("$cc" -m32 -print-multiarch)/lib$1.a" ] ||
		[ -e "/usr/lib/$("$cc" -m32 -print-multi-os-directory)/lib$1.a" ]
}

why()
{
	if ! "$@" -dM -E -x c /dev/null 2>/dev/null | grep -qw __i386__; then
		echo "$* makes no i386 programs ($(uname -m))"
	elif ! echo 'int main(void) { return 0; }' |
		"$@" -x c -o /dev/null - 2>/dev/null; then
		echo "$* has no 32-bit libc to link: make deps-lib32 (Debian: gcc-multilib)"
	elif ! { has hiredis && has confuse; }; then
		echo 'no libhiredis.a and libconfuse.a of i386: make deps-lib32 (Debian: libhiredis-dev:i386, libconfuse-dev:i386)'
	fi
}

# Apart from what apt-get knows otherwise: lists of i386's packages only.
i386_apt()
{
	apt-get -q -o APT::Architecture=i386 -o APT::Architectures=i386 \
		-o Dir::State::Lists="$tmp/lists" -o Dir::Cache="$tmp/cache" \
		-o Dir::State::status=/dev/null -o Acquire::Languages=none \
		"$@" >>"$tmp/log" 2>&1
}

# unpack NAME FILE: its static library, whole or not at all
unpack()
{
	(cd "$tmp" && i386_apt download "lib$1-dev") &&
		dpkg-deb --fsys-tarfile "$tmp/lib$1-dev"_*.deb |
		tar -x -O --wildcards "*/lib$1.a" >"$tmp/archive" &&
		[ -s "$tmp/archive" ] && cp "$tmp/archive" "$2.new" &&
		mv "$2.new" "$2"
}

get()
{
	echo "deps: unpacking libhiredis.a and libconfuse.a of i386 into $dir"
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	chmod 755 "$tmp"
	mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial" "$dir"
	# A source of other packages may have none of i386, or be away.
	i386_apt update || true
	for name in hiredis confuse; do
		if ! unpack "$name" "$dir/lib$name.a"; then
			tail -3 "$tmp/log" >&2
			return 1
		fi
	done
}

cc=$1
reason=$(why "$@")
case $what in
why)
	[ -z "$reason" ] || echo "$reason"
	;;
get)
	case $reason in
	'no lib'*) get || reason="apt-get has no lib$name-dev of i386" ;;
	esac
	[ -z "$(why "$@")" ] || {
		echo "lib32: $reason" >&2
		exit 1
	}
	;;
*)
	exit 64
	;;
esac
