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
TTL=3600 # s: no renewal is among the questions whose commands are counted
WHAT=(lock unlock refusal F_GETLK)

# one HOST FILE: what one more owner of it costs there, in medians; a line
one()
{
	"$RUN" "$1" timeout 300 "$BIN/many_owners" "$MNT/$RUN.$2" one "$TIMES"
}

# The least of each column.
least()
{
	awk '{ for (i = 1; i <= NF; i++)
			if (NR == 1 || $i < least[i]) least[i] = $i
		} END { for (i = 1; i <= 4; i++) print least[i] }' "$1"
}

note_cost()
{
	note "$RUN, $2 owners, one more on $1: lock $3 ns, unlock $4 ns," \
		"refusal $5 ns, F_GETLK $6 ns"
}

# owners NAME N: so many of its file, on A
owners()
{
	peer "$1" "$RUN" A "$BIN/many_owners" "$MNT/$RUN.$1" hold
	ask "$1" "$2" 120
	[ "$RESULT" = "$2" ] || rig_die "$RESULT: $(cat "$RIG/$1.err")"
}

# What one more costs on B, of a file with 10 and of one with all, in $few and
# $many: in turns, so that what else the machine does is in both.
costs()
{
	local host file

	owners few 10
	owners many "$MANY"
	for host in A B; do
		: >"$RIG/few.cost"
		: >"$RIG/many.cost"
		for _ in 1 2 3 4 5 6 7 8 9; do
			for file in few many; do
				one "$host" "$file" >>"$RIG/$file.cost"
			done
		done
		mapfile -t few < <(least "$RIG/few.cost")
		mapfile -t many < <(least "$RIG/many.cost")
		note_cost "$host" 10 "${few[@]}"
		note_cost "$host" "$MANY" "${many[@]}"
	done
}

# commands FILE: that the scripts give for a question of B's, in hundredths
commands()
{
	rr config resetstat >/dev/null
	one B "$1" >/dev/null
	rr info commandstats | awk -F'[:=,]' '
		/^cmdstat_(evalsha|z|h|strlen|exists|pexpire)/ { n[$1] = $3 }
		END {
			for (name in n)
				sum += name == "cmdstat_evalsha" ? 0 : n[name]
			print int(100 * sum / n["cmdstat_evalsha"])
		}'
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
rig_configs ttl=${TTL}s
RUN=on
costs
locker b on B
ask b "open f $MNT/$RUN.many"
ok "without dlock: B takes what A's have (control)" eval '! each_excludes'
peer_end b few many
RUN=dl
costs
if [ -n "${TIMED-}" ]; then
	for i in 0 1 2 3; do
		at_most "${many[i]}" $((few[i] * logarithm / 100)) "${WHAT[i]}: \
$((few[i] / 1000)) us with 10 owners, $((many[i] / 1000)) us with $MANY"
	done
fi
asked_few=$(commands few)
asked_many=$(commands many)
at_least "$asked_few" 500 "$((asked_few / 100)) commands a question, with 10 owners"
at_most "$asked_many" $((asked_few * 105 / 100)) "and $((asked_many / 100)) with $MANY"
is "$(rr hlen "dlock:$MNT/dl.many%rec")" $((MANY + 1)) 'each is an owner at Redis'
locker b dl B
ask b "open f $MNT/$RUN.many"
ok 'each excludes the other host' each_excludes
peer_end b few many
rig_empty 60 'all of them gone, no key is left'
[ ! -s "$RIG/many.err" ] || diag "$(sort "$RIG/many.err" | uniq -c)"
rig_end
