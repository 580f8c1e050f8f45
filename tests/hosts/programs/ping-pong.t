#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# ping_pong (of ctdb), Samba's own test of a cluster file system's record
# locks, on a share without locks.  Each of two hosts finds that the other has
# incremented the bytes as well: data increment 2; without dlock, 1.  Its rate
# of locks stands beside the Redis round trips of the same run; that of two
# hosts is a hand-over a lock.
. "${0%/*}/../../lib/rig.sh"

HOSTS=(A B)
SECONDS_EACH=${PING_PONG_SECONDS:-5}
number=0

ping_pongs()
{
	local h pids=()

	number=$((number + 1))
	for h in "${HOSTS[@]}"; do
		"$RUN" "$h" timeout -s INT "$SECONDS_EACH" stdbuf -o0 \
			ping_pong "$@" "$DIR/file$number" 3 2>&1 |
			tr '\r' '\n' >"$RIG/$h.said" &
		pids+=($!)
	done
	wait "${pids[@]}"
}

# The median of what it says once a second.
rate()
{
	local rates

	mapfile -t rates < <(sed -n 's:^ *\([0-9]*\) locks/sec$:\1:p' \
		"$RIG/$1.said" | sort -n)
	echo "${rates[${#rates[@]} / 2]:-0}"
}

round_trips()
{
	local ping

	read -r ping _ < <(on A "$BIN/bench_lock" cycle "$PORT" "$RIG/x" 2000)
	echo $((1000000000 / ping))
}

# increments N FLAG: all that each host says, of which it tells when it changes.
# It is N while both run; one begins, and one ends, alone; and is so once more if
# the other one has no core for a second.
increments()
{
	local h said status=0

	ping_pongs "$2"
	for h in "${HOSTS[@]}"; do
		said=$(sed -n 's/^data increment = //p' "$RIG/$h.said")
		said=${said//$'\n'/ }
		note "$RUN, $h of ${#HOSTS[*]}: data increment $said," \
			"$(rate "$h") locks/s; $(round_trips) PINGs/s"
		[[ $said =~ ^(1\ )?$1(\ 1\ $1)?(\ 1)?$ ]] || status=1
	done
	return "$status"
}

# One host holds the file, and the other tells by whom it is held.
tells_who()
{
	local said

	rm -f "$RIG/share/who"
	peer holder "$RUN" A stdbuf -oL ping_pong -l "$DIR/who"
	hear holder || rig_die 'ping_pong -l says nothing'
	said=$("$RUN" B timeout 60 ping_pong -l "$DIR/who" </dev/null 2>&1)
	say holder ''
	peer_end holder
	[[ $said == *"lock held: pid='-"*'Working POSIX byte range locks'* ]]
}

# alone DIR NAME: a lock and an unlock by one process alone.
alone()
{
	HOSTS=(A)
	DIR=$1
	RUN=dl
	ok "alone: $2" increments 1 -rw
}

rig_start disks
for h in A B; do
	share_at "$h" "$MNT/share" -o \
		attr_timeout=0,entry_timeout=0,negative_timeout=0
done
DIR=$MNT/share
three_ways 'ping_pong -rw: data increment 2' increments 2 -rw
three_ways 'ping_pong -rwm, by mappings: data increment 2' increments 2 -rwm
three_ways 'ping_pong -l: locked, and by whom' tells_who
alone "$MNT/share" 'on the share'
alone "$MNT" 'on a tmpfs'
# Each was killed with a lock in hand, perhaps of an age that no keeper knows.
rig_empty 6
rig_end
