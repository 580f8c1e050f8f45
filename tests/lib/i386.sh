# shellcheck shell=bash disable=SC2034,SC2153
# SPDX-License-Identifier: MIT
#
# 32-bit programs in the rig, for tests/lib/rig.sh.
#
#	i386_why_not		in one line why none can be run here; or nothing
#	i386_or_skip		ends the test where the library cannot be made
#	i386_run_or_skip	and where no 32-bit program can be run
#	i386_begin		behind rig_start: dl and null preload the library
#				of either size, by $LIB (ld.so(8))
#	i386_cc FILE OUT FLAG...	compiles
#
# What is $LIB is the dynamic linker's to say: "lib32" where the 64-bit Debian
# brings the 32-bit libc, "lib/i386-linux-gnu" where that is i386's own.
SHIM32=${BUILD}32/libdlock-preload.so

# A compiler makes them for a kernel that may run none (CONFIG_IA32_EMULATION,
# or a virtual machine without them).
i386_why_not()
{
	local dir

	dir=$(mktemp -d "${TMPDIR:-/tmp}/dlock-i386.XXXXXX") || return
	if ! echo 'int main(void) { return 0; }' |
		"${CC:-cc}" -m32 -x c -o "$dir/true" - 2>/dev/null; then
		echo 'no compiler for them (gcc-multilib)'
	elif ! "$dir/true" 2>/dev/null; then
		echo 'the kernel of this machine runs no 32-bit programs'
	fi
	rm -rf "$dir"
}

# skip_rest WHAT WHY: nothing, without a reason
skip_rest()
{
	[ -n "$2" ] || return 0
	skip "$1" "$2"
	done_testing
	exit 0
}

i386_or_skip()
{
	skip_rest 'the library of 32 bits' \
		"$(make -s -C "$TOP" why-no-lib32 2>&1)"
	[ -e "$SHIM32" ] || rig_die "$SHIM32 is not there: make lib32"
}

i386_run_or_skip()
{
	skip_rest '32-bit programs' "$(i386_why_not)"
}

# words LOADER: what it takes $LIB for
words()
{
	"$1" --list-diagnostics | sed -n 's/^dl_dst_lib="\(.*\)"$/\1/p'
}

# by_lib WORD SHIM NULL
by_lib()
{
	mkdir -p "$RIG/by/$1"
	ln -s "$2" "$RIG/by/$1/libdlock-preload.so"
	ln -s "$3" "$RIG/by/$1/null.so"
	ln -s "$BUILD/dlock-keeper" "$BUILD/dlock-tls" "$RIG/by/$1/"
}

i386_begin()
{
	i386_cc tests/preload/null_so.c "$RIG/null32.so" -fPIC -shared ||
		rig_die 'no null shim for 32 bits'
	by_lib "$(words /lib64/ld-linux-x86-64.so.2)" "$SHIM" "$NULL"
	by_lib "$(words /lib/ld-linux.so.2)" "$SHIM32" "$RIG/null32.so"
	# shellcheck disable=SC2016 # ld.so's word
	SHIM=$RIG/by/'$LIB'/libdlock-preload.so NULL=$RIG/by/'$LIB'/null.so
}

# i386_cc FILE OUT FLAG...: one of the tree's sources
i386_cc()
{
	local file=$1 out=$2

	shift 2
	"${CC:-cc}" -m32 -std=gnu17 -D_GNU_SOURCE -I"$TOP" -O1 "$@" \
		-o "$out" "$TOP/$file" -lpthread
}
