#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# On FUSE two hard links have one inode number, and are two files to the
# kernel, with a lock each.  A keeper that carries both on does not take the end
# of the one for that of the other.
. "${0%/*}/../../lib/rig.sh"

gets()
{
	ask b "$1" && [ "$RESULT" = 0 ]
}

rig_start share
rig_configs ttl=6s
on A sh -c 'echo >f; ln f g'
is "$(on A stat -c %i f)" "$(on A stat -c %i g)" 'two links of one number'
# Locks both, and leaves them to its child, who unlocks one as it is told.
cat >"$RIG/two.py" <<'END'
import fcntl, os, sys

files = {name: open(name, 'a') for name in ('f', 'g')}
for f in files.values():
    fcntl.flock(f, fcntl.LOCK_EX)
if os.fork():
    os._exit(0)
print('left', flush=True)
for line in sys.stdin:
    fcntl.flock(files[line.strip()], fcntl.LOCK_UN)
    print('unlocked', flush=True)
END
locker b dl B
ask b 'open f f'
ask b 'open g g'
peer a dl A python3 "$RIG/two.py"
hear a
is "$HEARD" left 'a child is left with both locks'
ask b 'lock f EX NB'
is "$RESULT" EAGAIN 'B is refused the one'
ask a f
ok 'unlocked, B has it' until_true 3 gets 'lock f EX NB'
# A keeper looks at each tick, which is a third of the ttl.
sleep 5
ask b 'lock g EX NB'
is "$RESULT" EAGAIN 'and not the other'
ask a g
ok 'before it is unlocked' until_true 3 gets 'lock g EX NB'
ask b 'lock g UN'
ask b 'lock f UN'
peer_end a b
rig_end
