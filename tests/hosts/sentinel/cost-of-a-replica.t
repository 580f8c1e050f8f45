#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# replicas = 1: WAIT travels with the question, so a lock and its unlock take as
# many requests as without: what is sent is counted.  (Asked after it, it would be
# one more a pair.)  The figures of time are a note.
. "${0%/*}/../../lib/rig.sh"

PAIRS=100

# pairs HOST [COMMAND...]: locks and unlocks; how long one of both takes (us)
pairs()
{
	local ns

	ns=$(dl "$1" "${@:2}" "$BIN/bench_lock" calls f "$PAIRS")
	echo $((2 * ns / 1000))
}

# Of its main thread alone: another renews, or reads what nobody waits for.
sends()
{
	pairs "$1" strace -qq -e trace=sendto -o "$RIG/strace.$1" >/dev/null
	grep -c 'sendto(.*EVAL' "$RIG/strace.$1"
}

waits()
{
	stat_of commandstats cmdstat_wait
}

rig_start disks
replica_up 2
rig_config A ttl=20s timeout=10s redis_more='replicas = 1'
rig_config B ttl=20s timeout=10s
note "a lock and its unlock: $(pairs B) us, with a replica $(pairs A) us"
before=$(waits)
without=$(sends B)
is "$(waits)" "$before" 'B asks no replica (control)'
with=$(sends A)
at_least "$(waits)" $((before + PAIRS)) 'A asks for each lock'
# (The first one travels behind the greeting, and is not seen.)
at_least "$without" $((2 * PAIRS - 2)) 'a pair is two requests (control)'
# (Nor half of what one more a pair would be: what is answered late is asked again.)
at_most "$with" $((5 * PAIRS / 2)) '... and no more with a replica'
rig_end
