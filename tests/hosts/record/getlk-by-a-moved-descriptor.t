#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# While F_GETLK waits for a Redis that does not answer, a handler may make the
# descriptor another file's.  Then that is asked about, and nobody says "free"
# who has not heard it.
. "${0%/*}/../../lib/rig.sh"

moved()
{
	dl A timeout 120 "$BIN/getlk_moved" "$MNT/f" "$1" 2>"$RIG/said"
}

rig_start disks
# (The handler runs after 0.3 s, or later.)
rig_configs timeout=5s
locker h on A
ask h "open f $RIG/other"
ask h "range f F_WRLCK 0 10"
is "$RESULT" 0 'a file of no rule is locked'
redis_kill
is "$(on A "$BIN/getlk_moved" "$MNT/f" "$MNT/g")" free 'bare, it is free (control)'
is "$(moved "$MNT/g")" ENOLCK 'without an answer there is none, nor of the other file'
is "$(moved "$RIG/other")" locked 'of no rule, the kernel answers'
peer_end h
redis_up
rig_end
