#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlock-tls needs two descriptors for each of its program's, by the same limit.
# Where none is left, what wants one more goes without: it asks again, and by
# the connections that there are.
# shellcheck disable=SC2119,SC2016 # expanded there; no options
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/tls.sh"

THREADS=40 LIMIT=64

# What the caller of this test has open counts as well: it is closed.
BARE='for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] ||
	eval "exec $fd>&-" 2>/dev/null; done'

# Those who have a connection to be told by; the others ask again and again, by
# connections of which there are more the more of them asked at once.
some_wait()
{
	[ "$(rr hget "{dlock:$MNT/f%rec}%q" tail)" -ge $((THREADS / 8)) ] \
		2>/dev/null
}

none_is_left()
{
	[ "$(on A ls "/proc/$helper/fd" | wc -l)" -ge $((LIMIT - 2)) ]
}

rig_start disks
tls_up
tls_trusted A
tls_trusted B
on A touch f
locker b dl B
ask b 'open f f'
ask b 'record f F_WRLCK'
is "$RESULT" 0 'B has the file'
peer waiters dl A bash -c \
	"$BARE; ulimit -n $LIMIT; exec '$TOP/tests/programs/range_waiters.py' f $THREADS"
hear waiters 10
ok 'threads of A wait' until_true 20 some_wait
helper=$(helpers A)
ok 'dlock-tls has no descriptor left' until_true 20 none_is_left
ask b 'record f F_UNLCK'
hear waiters 30
is "$HEARD" "$THREADS locked" 'all of them get their locks'
peer_end waiters
unlike "$(cat "$RIG/waiters.err")" ENOLCK 'and none had to fail'
like "$(cat "$RIG/waiters.err")" '^$|no descriptor is left' 'what is said'
peer_end b
rig_end
