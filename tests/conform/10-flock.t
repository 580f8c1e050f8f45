#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 300
#
# The kernel is the oracle, of flock(2) and of record locks: each program
# prints the same bare and under dlock, on a managed path, whether the kernel
# locks the file or (flock) its shadow, and where there is no Redis, and the
# kernel's lock is all (unreachable = "local").  (And under the null shim it does
# not, or it sees nothing.)
. "${0%/*}/../lib/rig.sh"

# run HOW PROGRAM: its output, in a fresh directory.
run()
{
	rm -rf "$RIG/share/$1"
	mkdir "$RIG/share/$1"
	# shellcheck disable=SC2016 # expanded there
	"$1" A timeout 600 sh -c 'cd "$1" && exec "$0"' "$RIG/$2" "$1" \
		>"$RIG/$2.$1" 2>&1
	echo "status $?" >>"$RIG/$2.$1"
}

# Under dlock, without a Redis.
away()
{
	local h=$1

	shift
	on "$h" env LD_PRELOAD="$BUILD/libdlock-preload.so" \
		DLOCK_CONFIG="$RIG/away.conf" DLOCK_LOG="info:$RIG/away.log" "$@"
}

# same NAME TITLE [HOW]: under dlock as bare, and nothing is left.
same()
{
	if diff -u "$RIG/$1.on" "$RIG/$1.${3-dl}" >"$RIG/diff"; then
		pass "$1: the same under dlock$2"
	else
		fail "$1: the same under dlock$2"
		diag "$(cat "$RIG/diff")"
	fi
	rig_empty 2 "$1: no key is left$2"
}

# Nothing here is about time: a server without a core is waited for, and that a keeper
# has none is not the program's matter.
export DLOCK_LOG=error
configs()
{
	rig_configs connect_timeout=800ms "$@"
}

# by_shadows NAME: where the kernel locks the file's shadow (flock(2) only)
by_shadows()
{
	configs path_more='local = "shadow"'
	echo "state_dir = \"$RIG/state\"" >>"$RIG/A.conf"
	run dl "$1"
	same "$1" ', by shadows'
	configs
}

no_keeper_listens()
{
	[ -z "$(find "$RIG/state" -type s)" ]
}

compile()
{
	"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 \
		-o "$RIG/$1.new" "$TOP/tests/conform/$1.c" 2>"$RIG/$1.cc" &&
		mv "$RIG/$1.new" "$RIG/$1"
	touch "$RIG/$1.compiled"
}

# By what it leaves: bash forgets a child whose number another one has got.
is_compiled()
{
	[ -e "$RIG/$1.compiled" ]
}

# The programs do little but wait; each has a directory of its own.
rig_start share
configs
rig_config away url="unix://$RIG/nobody.sock" timeout=100ms \
	path_more='unreachable = "local"'
compiling=''
for source in "$TOP"/tests/conform/*.c; do
	name=$(basename "$source" .c)
	compile "$name" &
	compiling="$compiling $name"
done
for name in $compiling; do
	until_true 60 is_compiled "$name"
	if [ ! -x "$RIG/$name" ]; then
		fail "$name compiles"
		diag "$(cat "$RIG/$name.cc")"
		continue
	fi
	running=''
	for how in on null dl away; do
		run "$how" "$name" &
		running="$running $!"
	done
	# shellcheck disable=SC2086 # numbers
	wait $running
	is "$(tail -n 1 "$RIG/$name.on")" 'status 0' "$name: bare, it ends well"
	ok "$name: but not under the null shim" \
		test -n "$(diff "$RIG/$name.on" "$RIG/$name.null")"
	same "$name" ''
	same "$name" ', and without Redis' away
	case $name in
	flock_*) by_shadows "$name" ;;
	esac
done
ok 'without Redis they were locked on this host alone' \
	grep -q 'on this host ALONE' "$RIG/away.log"
ok 'no keeper is left' until_true 2 no_keeper_listens
rig_end
