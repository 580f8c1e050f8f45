#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A waiter whose request may be late takes another name for its claim (DESIGN
# section 4).  No other waiter has that, and what it is granted becomes a lease.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

TTL=6000			# ms; a claim lasts for 2 s

# It has waited before, so it listens already.
acquainted()
{
	locker "$1" dl "$2"
	ask "$1" 'open f f'
	ask b 'lock f EX'
	say "$1" 'lock f EX'
	until_true 5 queue_is 1 || rig_die "$1 does not wait"
	ask b 'lock f UN'
	hear "$1"
	ask "$1" 'lock f UN'
}

rig_start disks
rig_configs ttl=${TTL}ms connect_timeout=300ms
KEY=dlock:$MNT/f
locker b dl B
ask b 'open f f'
acquainted a A
acquainted c A
# As a server with a `timeout` does with who is idle; who listens is not.
rr client kill type normal >/dev/null
ask b 'lock f EX'
say a 'lock f EX'
until_true 5 queue_is 1 || rig_die 'a does not wait'
say c 'lock f EX'
until_true 5 queue_is 2 || rig_die 'c does not wait'
ask b 'lock f UN'
hear a
is "$RESULT" 0 'one of two waiters is granted the lock'
hear c 2.5
is "$RESULT" silence '... and holds it alone, longer than a claim lasts'
is "$(rr get "$KEY" | cut -c1-7)" 'dlock1 ' '... by a name'
ask a 'lock f UN'
hear c
is "$RESULT" 0 '... and then the other one'
ask c 'lock f UN'
rig_empty 2 '... no key is left'
is "$(grep -h LOST "$RIG/a.err" "$RIG/c.err")" '' '... none was lost'
rig_end
