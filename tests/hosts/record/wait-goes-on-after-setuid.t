#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A call that changes the user ends our thread for a moment (L7).  Who has locks from
# before an execve(2) alone, and waits in the kernel, is told of after it as before:
# so a cycle of waits that closes later is found (DESIGN 4.8).
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/players.sh"
FILES=(f g)

rig_start disks
RUN=dl
players s@A q@B
ask s 'range g F_WRLCK 0 1'
ask q 'range f F_WRLCK 1 1'
peer p dl A "$BIN/waits_after_exec" "$MNT/f" "$MNT/g"
ok 'p waits in the kernel, and tells of it' until_true 5 waits_told 1
say s 'range f F_WRLCK 1 1 WAIT'
ok 's waits at Redis' until_true 5 waits_told 2
say p go
hear p
sleep 4 # longer than a wait is believed that nobody tells of
ok 'p is told of for as long as it waits' until_true 5 waits_told 2
ask q 'range f F_WRLCK 0 1 WAIT' 5
is "$RESULT" EDEADLK 'who closes the cycle is refused'
ask q 'range f F_UNLCK 0 0'
hear s 5
is "$RESULT" 0 's goes on'
ask s 'range g F_UNLCK 0 0'
ask s 'range f F_UNLCK 0 0'
hear p 5
is "$RESULT" granted 'and so does p'
peer_end p
peer_end s q
rig_end
