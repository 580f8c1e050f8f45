#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
# alone: what each of eight gets is what it gets of the cores, too
#
# Without a queue: who asks again the moment that he has given it back finds it
# free, and who asks now and then does not.  So eight waiters, each on a host of
# its own, who hold for 1 ms each time, for ten seconds: all get some, and nobody
# is left out for long.  And `dlockctl lock` gets in between others.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"
. "${0%/*}/../../lib/ctl.sh"

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

herd_new
drive h 4 EX 1000 5s h
ctl_on B lock -w 5s "$MNT/f" -- true
is "$STATUS" 0 'dlockctl lock gets in'
ok 'between others, who go on' [ "$(grep -c '^\.' "$RIG/herd.out")" -lt 4 ]
ok '... and are done' each_done 4 60
rig_end
