#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
# alone: what each of eight gets is what it gets of the cores, too
#
# Without a queue: eight waiters, each on a host of its own, who hold for 1 ms
# each time, for ten seconds.  All get some, and nobody is left out for long.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

N=8

rig_start disks
rig_configs ttl=5s timeout=5s restart_delay=0s
herd h dl A
drive h "$N" EX 1000 10s h
ok 'all are done' each_done "$N" 60
herd_report
note "$GRANTS grants in 10 s by $N: $FEWEST to $MOST each;" \
	"the longest wait $WORST_MS ms"
is "$OVERLAPS" 0 'no two held it at a time'
ok 'all got some' [ "$FEWEST" -gt 0 ]
ok '... a tenth of their share at least' \
	[ $((FEWEST * N * 10)) -ge "$GRANTS" ]
rig_end
