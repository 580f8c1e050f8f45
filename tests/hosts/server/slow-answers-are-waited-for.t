#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A server that answers PING at once, and a question only after longer than the
# kernel's lock is held for the first one (200 ms): whoever asks gives it more
# time with each attempt, and is granted within the rule's timeout, for the
# server is there (L8).  So it is with one that answers PING late as well.  One that
# never answers is given the timeout, no more.
. "${0%/*}/../../lib/rig.sh"

# What an acquisition has for an argument, whatever kind of lock it is.
IS_ASKED=dlock1

# asks KIND: the lock is had though each question is late.
asks()
{
	local kind=$1

	ask p pass
	locker a dl A
	ask a 'open x f'
	# (The connection is open, and the scripts are at the server.)
	ask a "$2"
	is "$RESULT" 0 "$kind: it is locked"
	ask a "$3"
	ask p "slow $IS_ASKED 600"
	ask a "$2"
	is "$RESULT" 0 "$kind: and again, though each question takes 600 ms"
	in_time $(((END - START) / 1000000)) 3000 "$kind: ... soon (ms)"
	ask p pass
	ask a "$3"
	is "$(cat "$RIG/a.err")" '' "$kind: nothing is said"
	peer_end a
	ok "$kind: no key is left" until_true 12 db_is_empty
}

# All of its answers, by twice connect_timeout.
always()
{
	rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=10s timeout=8s \
		connect_timeout=300ms
	locker a dl A
	ask a 'open x f'
	ask p 'delay 600'
	ask a 'lock x EX NB'
	is "$RESULT" 0 'one that always answers late: it is locked'
	note "after $(((END - START) / 1000000)) ms"
	ask a 'lock x UN'
	is "$(cat "$RIG/a.err")" '' '... and nothing is said'
	ask p pass
	peer_end a
	ok '... and no key is left' until_true 12 db_is_empty
}

never()
{
	ask p pass
	rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=10s timeout=3s
	locker a dl A
	ask a 'open x f'
	ask a 'lock x EX NB'
	ask a 'lock x UN'
	ask p "slow $IS_ASKED 60000"
	ask a 'lock x EX NB'
	is "$RESULT" ENOLCK 'one that never answers but PING: the lock fails'
	ok 'and it is said' grep -q 'no answer' "$RIG/a.err"
	ask p pass
	peer_end a
}

rig_start disks
proxy p
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=10s timeout=8s
asks flock 'lock x EX NB' 'lock x UN'
asks record 'record x F_WRLCK' 'record x F_UNLCK'
always
never
rr flushall >/dev/null
rig_end
