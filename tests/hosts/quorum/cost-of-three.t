#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# What a lock and its unlock cost at three masters, asked at the same time, beside
# one server: by turns, in one run; the least of each.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"

PAIRS=1000 ROUNDS=7

# us_by CONFIG: of a pair, the median of PAIRS
us_by()
{
	on A env LD_PRELOAD="$BUILD/libdlock-preload.so" \
		DLOCK_CONFIG="$RIG/$1.conf" /usr/bin/python3 -c '
import fcntl, sys, time
f = open("f", "a")
took = []
for i in range(int(sys.argv[1])):
    began = time.perf_counter_ns()
    fcntl.flock(f, fcntl.LOCK_EX)
    fcntl.flock(f, fcntl.LOCK_UN)
    took.append(time.perf_counter_ns() - began)
print(sorted(took)[len(took) // 2] // 1000)' "$PAIRS"
}

least()
{
	[ "$2" -ge "$1" ] && echo "$1" || echo "$2"
}

rig_start disks
rig_configs ttl=5s restart_delay=0s
sed -e '/mode = "quorum"/d' \
	-e "s,urls = .*,url = \"redis://127.0.0.1:$PORT/0\"," \
	"$RIG/A.conf" >"$RIG/one.conf"
one=1000000 three=1000000
for ((i = 0; i < ROUNDS; i++)); do
	one=$(least "$one" "$(us_by one)")
	three=$(least "$three" "$(us_by A)")
done
note "a lock and its unlock: $one us at one server, $three us at three masters:" \
	"$((three * 100 / one)) %"
ok 'three are no three times as dear as one' [ "$three" -lt $((3 * one)) ]
rig_end
