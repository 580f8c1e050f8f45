#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 600
#
# The queue under fire: contenders on 24 hosts, for QUEUE_SECONDS; all the time
# one of them is killed and another one comes, connections are cut, the queue
# and the scripts are deleted.  One at a time, nobody waits for longer than a
# ttl and a claim for each of these blows, and nothing is left.  Then the
# scripts of tests/hosts, for longer.
. "${0%/*}/../lib/rig.sh"
. "${0%/*}/../lib/herd.sh"

TTL=2000
SECONDS_IN_ALL=${QUEUE_SECONDS:-30}

# strike: one blow, of those that may happen at any time.
strike()
{
	local n=$((RANDOM % ${#alive[@]})) host name

	case $((RANDOM % 10)) in
	0)
		rr client kill type pubsub >/dev/null
		;;
	1)
		rr client kill type normal >/dev/null
		;;
	2)
		rr del "{$KEY}%q" >/dev/null
		;;
	3)
		rr script flush >/dev/null
		;;
	*)
		read -r name host <<<"${alive[n]}"
		on "$host" kill -KILL "${name#*.}" 2>/dev/null
		drive "${name%.*}" 1 EX 1000 "$((end - SECONDS))s" h
		alive[n]="${name%.*}.${PIDS[0]} $host"
		;;
	esac
	blows=$((blows + 1))
}

rig_start disks
rig_configs ttl=${TTL}ms connect_timeout=300ms timeout=10s
KEY=dlock:$MNT/f
herd one dl A
herd two dl B
herd_new
alive=()
blows=0
end=$((SECONDS + SECONDS_IN_ALL))
for pair in 'one A' 'two B'; do
	read -r name host <<<"$pair"
	drive "$name" 12 EX 1000 "${SECONDS_IN_ALL}s" h
	for pid in "${PIDS[@]}"; do
		alive+=("$name.$pid $host")
	done
done
while [ $((end - SECONDS)) -gt 1 ]; do
	strike
	sleep 0.2
done
ok 'all that live are done' each_done ${#alive[@]} 20
herd_report
note "$GRANTS grants, $blows blows, the longest wait $WORST_MS ms;" \
	"fewest $FEWEST, most $MOST of one"
is "$OVERLAPS" 0 'one at a time'
is "$(cat "$RIG/one.err" "$RIG/two.err")" '' 'nothing was logged'
at_most "$WORST_MS" $((3 * TTL)) 'nobody waited long (ms)'
rig_empty 4 'no key is left'

for longer in queue/signals-keep-their-place.t programs/redis-py-lock.t; do
	out=$(HERD_SIGNALS=10000 HERD_SECONDS=10 \
		bash "$TOP/tests/hosts/$longer" 2>&1)
	status=$?
	note "$(grep '^# ' <<<"$out")"
	if [ "$status" = 0 ]; then
		pass "$longer, for longer"
	else
		fail "$longer, for longer"
		diag "$out"
	fi
done
rig_end
