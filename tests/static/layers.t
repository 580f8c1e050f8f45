#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# The rooms of the house: an arrow from a room goes to those below it only, and
# of two files at most one calls the other (DESIGN 12).  What is not so yet
# stands in layers.list, a line each, and that may only become shorter: who
# breaks a rule anew fails here, and so does who cures one without saying so.
#
#	up FROM TO	a file that calls one of a room that is not below its own
#	pair A B	two files that call each other
cd "${0%/*}/../.." || exit 1
. tests/lib/tap.sh
. tests/static/arrows.sh

# symbols_of LIST: the arrows behind its lines, to say what is to be moved.
symbols_of()
{
	local kind from to

	while read -r kind from to; do
		[ -z "$kind" ] || awk -v a="$from" -v b="$to" \
			'($1 == a && $2 == b) || ($1 == b && $2 == a)' \
			<<<"$found"
	done
}

found=$(arrows)
ok 'the objects have arrows' test "$(wc -l <<<"$found")" -ge 500
is "$(rooms_without_a_rule <<<"$found")" '' 'each room has a rule'

# What is asked of whoever keeps the leases goes through lease/store.h: no
# connection and no reply is known above it (DESIGN 5), by name or by header.
of_redis=$(above_the_seam <<<"$found")
is "$of_redis" '' 'lock, hold and entry call nothing of redis/'
sees='shim/redis/[a-z_]*\.h'
headers=$(for file in shim/lock/*.c shim/hold/*.c shim/entry/*.c; do
	grep -lw "$sees" "build/obj/${file%.c}.d"
done)
is "$headers" '' 'nor do they see a header of it'

now=$(upward <<<"$found"; pairs <<<"$found" | sed 's/^/pair /')
now=$(sort <<<"$now" | sed '/^$/d')
listed=$(grep -v '^#' tests/static/layers.list | sort | sed '/^$/d')
new=$(comm -23 <(echo "$now") <(echo "$listed") | sed '/^$/d')
cured=$(comm -13 <(echo "$now") <(echo "$listed") | sed '/^$/d')
is "$new" '' 'no arrow goes up, and no two files call each other, but the listed'
[ -z "$new" ] || diag "$(symbols_of <<<"$new")"
is "$cured" '' 'what is listed is so: take out of layers.list what is cured'
note "$(grep -c '^up' <<<"$now") upward arrows, $(grep -c '^pair' <<<"$now")" \
	"pairs, $(cycle <<<"$found" | grep -c .) files in the largest cycle"

# The test can see both.
seen=$(upward <<<'model/x lease/y z'; pairs <<<$'a/x a/y f\na/y a/x g')
is "$seen" $'up model/x lease/y\na/x a/y' 'control: it sees an upward arrow, and a pair'
is "$(above_the_seam <<<$'lock/x redis/y f\nlease/x redis/y f')" 'lock/x redis/y f' \
	'control: and a call of redis/ from above the seam'
ok 'control: and a header of it' grep -qw "$sees" build/obj/shim/lease/single.d
is "$(cycle <<<$'a b f\nb c g\nc a h\nc d i')" $'a\nb\nc' \
	'control: and a cycle of three'
done_testing
