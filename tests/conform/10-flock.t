#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# The kernel is the oracle: each program prints the same bare and under dlock,
# on a managed path.  (And under the null shim it does not, or it sees nothing.)
. "${0%/*}/../lib/rig.sh"

# run HOW PROGRAM: its output, in a fresh directory.
run()
{
	rm -rf "$RIG/share/dir"
	mkdir "$RIG/share/dir"
	# shellcheck disable=SC2016 # expanded there
	"$1" A timeout 20 sh -c 'cd dir && exec "$0"' "$RIG/$2" \
		>"$RIG/$2.$1" 2>&1
	echo "status $?" >>"$RIG/$2.$1"
}

rig_start share
for source in "$TOP"/tests/conform/*.c; do
	name=$(basename "$source" .c)
	if ! "${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 \
		-o "$RIG/$name" "$source" 2>"$RIG/cc.err"; then
		fail "$name compiles"
		diag "$(cat "$RIG/cc.err")"
		continue
	fi
	for how in on null dl; do
		run "$how" "$name"
	done
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
