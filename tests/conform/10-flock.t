#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# The kernel is the oracle, of flock(2) and of record locks: each program
# prints the same bare and under dlock, on a managed path.  (And under the null
# shim it does not, or it sees nothing.)
. "${0%/*}/../lib/rig.sh"

# run HOW PROGRAM: its output, in a fresh directory.
run()
{
	rm -rf "$RIG/share/$1"
	mkdir "$RIG/share/$1"
	# shellcheck disable=SC2016 # expanded there
	"$1" A timeout 20 sh -c 'cd "$1" && exec "$0"' "$RIG/$2" "$1" \
		>"$RIG/$2.$1" 2>&1
	echo "status $?" >>"$RIG/$2.$1"
}

compile()
{
	"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 \
		-o "$RIG/$1.new" "$TOP/tests/conform/$1.c" 2>"$RIG/$1.cc" &&
		mv "$RIG/$1.new" "$RIG/$1"
}

# The programs do little but wait; each has a directory of its own.
rig_start share
compiling=''
for source in "$TOP"/tests/conform/*.c; do
	name=$(basename "$source" .c)
	compile "$name" &
	compiling="$compiling $name=$!"
done
for next in $compiling; do
	name=${next%=*}
	if ! wait "${next#*=}"; then
		fail "$name compiles"
		diag "$(cat "$RIG/$name.cc")"
		continue
	fi
	running=''
	for how in on null dl; do
		run "$how" "$name" &
		running="$running $!"
	done
	# shellcheck disable=SC2086 # numbers
	wait $running
	is "$(tail -n 1 "$RIG/$name.on")" 'status 0' "$name: bare, it ends well"
	if diff -u "$RIG/$name.on" "$RIG/$name.dl" >"$RIG/diff"; then
		pass "$name: the same under dlock"
	else
		fail "$name: the same under dlock"
		diag "$(cat "$RIG/diff")"
	fi
	ok "$name: but not under the null shim" \
		test -n "$(diff "$RIG/$name.on" "$RIG/$name.null")"
	rig_empty 2 "$name: no key is left"
done
rig_end
