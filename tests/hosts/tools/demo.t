#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# make demo shows all that it claims, and runs no program but those of the
# packages that it asks for (deps.sh demo), of Debian's essential ones, and of
# those of the tests that it builds (DEMO_HELPERS): who only wants to see dlock
# work need not install what the tests need.
TOP=$(cd "${0%/*}/../../.." && pwd)
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
cd "$TOP" || exit 1
dir=$(mktemp -d "${TMPDIR:-/tmp}/dlock-demo.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP

asked()
{
	sed -n "s/^$1='\(.*\)'\$/\1/p" tests/lib/deps.sh
}

# Links to the programs of these packages and of the essential ones.
programs_of()
{
	local path

	mkdir "$dir/bin"
	# shellcheck disable=SC2016 # dpkg-query's
	dpkg-query -W -f='${Package} ${Essential}\n' |
		sed -n 's/ yes$//p' | xargs dpkg-query -L "$@" |
		grep -E '^(/usr)?/s?bin/[^/]*$' | while read -r path; do
		ln -sf "$path" "$dir/bin/"
	done
}

read -ra demo <<<"$(asked build) $(asked demo)"
ok 'the packages are installed' programs_of "${demo[@]}"
ok 'control: another package has a program here' command -v strace
is "$(PATH=$dir/bin command -v strace)" '' '... and the demo does not see it'
# A tree with nothing else built in it.
mkdir -p "$dir/tree/build/tests"
cp -r tests "$dir/tree/"
ln -s "$TOP"/build/dlock* "$TOP"/build/*.so "$dir/tree/build/"
# shellcheck disable=SC2013 # words
for helper in $(sed -n 's/^DEMO_HELPERS := //p' Makefile); do
	ln -s "$TOP/build/tests/$helper" "$dir/tree/build/tests/"
done
ok 'control: another program of the tests is built' \
	test -x build/tests/survivor -a ! -e "$dir/tree/build/tests/survivor"
status=0
PATH=$dir/bin bash "$dir/tree/tests/hosts/tools/demo.sh" >"$dir/said" 2>&1 \
	</dev/null || status=$?
is "$status" 0 'the demo shows what it claims'
[ "$status" = 0 ] || diag "$(cat "$dir/said")"
at_least "$(grep -c '=>' "$dir/said")" 8 '... claim by claim'
is "$(grep 'not found' "$dir/said")" '' 'and misses no program'
# What the front page shows of it.
# shellcheck disable=SC2016 # its own marks
sed -n '/`make demo`/,/^##/s/^    *//p' README.md >"$dir/shown"
at_least "$(grep -c . "$dir/shown")" 6 'the front page shows some of it'
is "$(grep . "$dir/shown" | while IFS= read -r line; do
	grep -qF -- "$line" "$dir/said" || echo "$line"
done)" '' '... as it is'
done_testing
