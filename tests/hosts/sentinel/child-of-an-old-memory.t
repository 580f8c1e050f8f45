#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A process remembers where the master was, and has nothing to do with it for a while.
# Meanwhile another server is made the master, and the first one, which hung, goes on
# and takes itself for one.  A child of fork(2) has the memory, and neither a connection
# nor somebody who listens: it asks the Sentinels before it asks for a lock there.
RIG_MODE=sentinel
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=30s timeout=5s connect_timeout=3s restart_delay=1s
# Its pid; and of each line, "self NAME" or "child NAME", who tries to lock it, and lets
# it go, the error.
cat >"$RIG/tries.py" <<'END'
import errno, fcntl, os, sys

def attempt(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return 0
    except OSError as e:
        return e.errno
    finally:
        os.close(fd)

print(os.getpid(), flush=True)
for line in sys.stdin:
    who, name = line.split()
    if who == "self":
        err = attempt(name)
    elif (child := os.fork()) == 0:
        os._exit(attempt(name))
    else:
        err = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(errno.errorcode.get(err, err), flush=True)
END

locks_at_first()
{
	ask a 'self x' 20
	[ "$HEARD" = 0 ]
}

is_alone()
{
	[ "$(find "/proc/$P/task" -mindepth 1 -maxdepth 1 | wc -l)" = 1 ]
}

b_gets()
{
	ask b 'lock b EX NB' 40
	[ "$RESULT" = 0 ]
}

peer a dl A /usr/bin/python3 "$RIG/tries.py"
hear a
P=$RESULT
ok 'a process has found the master' until_true 20 locks_at_first
ok '... and listens to nobody any more' until_true 30 is_alone
kill -STOP "$REDIS_PID"
ok 'it hangs; another one is made the master' until_true 40 failed_over 2
locker b dl B
ask b 'open b k'
ok '... and has granted a lock' until_true 30 b_gets
kill -CONT "$REDIS_PID"
# (Nor does a Sentinel tell the first one for as long as this takes.)
m 1 acl setuser default -replicaof -slaveof >/dev/null
ask a 'child k' 40
is "$HEARD" EAGAIN 'the first one goes on: a child is refused that lock'
is "$(info_of 1 role)" master '... though that one is a master still (control)'
is "$(m 1 exists "dlock:$MNT/k")" 0 '... and grants nothing'
ask a 'self k' 40
is "$HEARD" EAGAIN '... as the process itself is'
peer_end a b
done_testing
