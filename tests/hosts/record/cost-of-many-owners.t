#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# A file with many owners of record locks, each a process: what a lock, an
# unlock, a refusal and F_GETLK cost one more owner, on another host (whose
# kernel knows nothing of them, so all of the growth is ours) and on theirs
# (with the kernel's own list).  From 10 owners to their full number the cost
# grows as the logarithm at most: that is threefold for 1,000.
#
# OWNERS: how many (make torture: 1,000).
. "${0%/*}/../../lib/rig.sh"

MANY=${OWNERS:-150}
TIMES=200
WHAT=(lock unlock refusal F_GETLK)

# cost HOST: of one more owner there, in $COST, ns: medians, the least of nine
cost()
{
	local i

	mapfile -t COST < <(for i in 1 2 3 4 5 6 7 8 9; do
		"$RUN" "$1" timeout 60 "$BIN/many_owners" "$MNT/$RUN" one \
			"$TIMES"
	done | awk '{ for (i = 1; i <= NF; i++)
			if (NR == 1 || $i < least[i]) least[i] = $i
		    } END { for (i = 1; i <= 4; i++) print least[i] }')
	note "$RUN, $owners owners, one more on $1: lock ${COST[0]} ns, unlock" \
		"${COST[1]} ns, refusal ${COST[2]} ns, F_GETLK ${COST[3]} ns"
}

owners_are()
{
	ask owners "$1" 120
	owners=$RESULT
	[ "$owners" = "$1" ] || rig_die "$owners: $(cat "$RIG/owners.err")"
}

# What one more costs on each host, with 10 and with all; of B in $few and $many
costs()
{
	peer owners "$RUN" A "$BIN/many_owners" "$MNT/$RUN" hold
	owners_are 10
	cost A
	cost B
	few=("${COST[@]}")
	owners_are "$MANY"
	cost A
	cost B
	many=("${COST[@]}")
}

# byte N: is it refused to host B?
byte()
{
	ask b "range f F_WRLCK $((2 * $1)) 1"
	[ "$RESULT" = EAGAIN ]
}

each_excludes()
{
	byte 0 && byte $((MANY / 2)) && byte $((MANY - 1)) && ! byte "$MANY"
}

# lg(MANY) / lg(10), in hundredths
logarithm=$(awk -v n="$MANY" 'BEGIN { print int(100 * log(n) / log(10)) }')

rig_start disks
rig_configs ttl=30s
RUN=on
costs
locker b on B
ask b "open f $MNT/$RUN"
ok "without dlock: B takes what A's have (control)" eval '! each_excludes'
peer_end b owners
RUN=dl
costs
for i in 0 1 2 3; do
	at_most "${many[i]}" $((few[i] * logarithm / 100)) "${WHAT[i]}: \
$((few[i] / 1000)) us with 10 owners, $((many[i] / 1000)) us with $MANY"
done
is "$(rr hlen "dlock:$MNT/dl%rec")" $((MANY + 1)) 'each is an owner at Redis'
locker b dl B
ask b "open f $MNT/$RUN"
ok 'each excludes the other host' each_excludes
peer_end b owners
rig_empty 30 'all of them gone, no key is left'
[ ! -s "$RIG/owners.err" ] || diag "$(sort "$RIG/owners.err" | uniq -c)"
rig_end
