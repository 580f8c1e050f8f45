#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 40
#
# Redis is away for a moment, answers, and fails once more just when the waiter
# is granted the lock: what was granted must not be counted on once the place
# was left (DESIGN L5).
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

TTL=16000			# ms
CLAIM=2000

rig_start disks
proxy p
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=${TTL}ms \
	connect_timeout=300ms
rig_config B ttl=${TTL}ms connect_timeout=300ms
KEY=dlock:$MNT/f
locker h dl B
locker w dl A
ask h 'open f f'
ask w 'open f f'

# From then on w has something to listen by, and queues as it asks.
ask h 'lock f EX'
is "$RESULT" 0 'another host holds it'
say w 'lock f EX'
until_true 5 queue_is 1 || rig_die 'w is not in the queue'
ask h 'lock f UN'
hear w 5
ask w 'lock f UN'

ask h 'lock f EX'
ask p hang
say w 'lock f EX'
sleep 0.5 # two answers that do not come, 200 ms each
ask p pass
ok 'a waiter asks again when Redis is back' until_true 5 queue_is 1
ask p 'take PING'
ask h 'lock f UN'
hear w 10
is "$RESULT" 0 '... and has it'
ask p pass
begin=$(now)
RESULT=EAGAIN
while [ "$RESULT" = EAGAIN ] &&
	[ $((($(now) - begin) / 1000000)) -lt $((CLAIM + CLAIM / 4)) ]; do
	ask h 'lock f EX NB'
done
is "$RESULT" EAGAIN '... alone, for longer than a claim lasts'
ask w 'lock f UN'
rig_empty 2 '... no key is left'
rig_end
