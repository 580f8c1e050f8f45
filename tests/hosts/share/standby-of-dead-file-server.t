#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A file server is dead, and a file of it is locked once more, by another description:
# the standby is told of that with a copy of the keeper's descriptor, has one already,
# and does not wait for the server to close it (FUSE_FLUSH).  It takes over all leases
# when the keeper is killed.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=4s connect_timeout=600ms path_more='coherence = "off"'
mkdir "$RIG/far" "$RIG/locks"
on A mkdir far
on A "$BIN/lockfs" "$RIG/far" "$MNT/far" flush "$RIG/locks" ||
	rig_die 'no lockfs'
server=$(on A pgrep -x lockfs)

# It locks one file of a disk and one of the file server's, and that one once more.
cat >"$RIG/locks.py" <<'END'
import fcntl, os, sys
fds = [os.open(name, os.O_RDWR | os.O_CREAT) for name in ("near", "far/f", "far/f")]
for fd in fds:
    os.set_inheritable(fd, True)
    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    print(os.getpid(), flush=True)
    sys.stdin.readline()
del os.environ["LD_PRELOAD"]
os.execvp("cat", ["cat"])
END

peer p dl A /usr/bin/python3 "$RIG/locks.py"
hear p
pid=$HEARD
ask p go
is "$HEARD" "$pid" 'a file of a disk is locked, and one of a file server'
ok 'a keeper has them, and a standby' until_true 10 have_standbys A 1
on A kill -STOP "$server"
ask p go
is "$HEARD" "$pid" 'the file server is dead: the same file is locked once more'
say p go
is_cat()
{
	[ "$(on A cat "/proc/$pid/comm")" = cat ]
}
ok '... and the program becomes another one' until_true 10 is_cat
on A pkill -KILL -x dlock-keeper
are_held()
{
	is_cat && [ "$(keys_left | wc -l)" = 2 ]
}
ok 'its keeper is killed: no lease is lost' throughout 9000 100 are_held
on A kill -KILL "$pid"
on A kill -CONT "$server"
peer_end p
ok 'the file server is back: no lease is left' until_true 20 db_is_empty
rig_end
