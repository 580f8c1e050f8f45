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

# As many as there can be a connection for; the others ask again and again.
many_wait()
{
	[ "$(rr hget "{dlock:$MNT/f%rec}%q" tail)" -ge $((THREADS / 2)) ] \
		2>/dev/null
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
ok 'many threads of A wait' until_true 20 many_wait
helper=$(helpers A)
at_least "$(on A ls "/proc/$helper/fd" | wc -l)" $((LIMIT - 2)) \
	'dlock-tls has no descriptor left'
ask b 'record f F_UNLCK'
hear waiters 30
is "$HEARD" "$THREADS locked" 'all of them get their locks'
peer_end waiters
unlike "$(cat "$RIG/waiters.err")" ENOLCK 'and none had to fail'
like "$(cat "$RIG/waiters.err")" '^$|no descriptor is left' 'what is said'
peer_end b
rig_end
