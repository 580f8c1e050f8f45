#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A file server is dead, and a keeper has to ask it whether a lock is there: a record
# lock, or, with more files than it has threads for, one by flock(2).
#
# The keeper that asks renews the leases of other files, and of this one, meanwhile:
# a program that has become another one, without dlock, and cannot renew them itself,
# loses none.  Killed, it has no POSIX lock any more, whatever the file server says;
# the others' end is seen when that is back.  (NFS asks the server when no lock of this
# host is in the way; here these questions hang by tests/programs/hangs.c.)
. "${0%/*}/../../lib/rig.sh"

rig_start share
rig_configs ttl=3s

# Locks $1 files so; then it is another program.
cat >"$RIG/becomes.py" <<'END'
import fcntl, os, struct, sys
n, kind = int(sys.argv[1]), sys.argv[2]
for i in range(n):
    fd = os.open(kind + str(i), os.O_RDWR | os.O_CREAT)
    os.set_inheritable(fd, True)
    if kind == "POSIX":
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif kind == "OFD":
        fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
    else:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
fd = os.open("near", os.O_RDWR | os.O_CREAT)
os.set_inheritable(fd, True)
fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
print(os.getpid(), flush=True)
sys.stdin.readline()
del os.environ["LD_PRELOAD"]
print("becomes", flush=True)
os.execvp("cat", ["cat"])
END

are_held()
{
	[ "$(keys_left | wc -l)" = "$1" ]
}

is_cat()
{
	[ "$(on A cat "/proc/$1/comm")" = cat ]
}

for kind in POSIX OFD flock; do
	n=1
	[ $kind != flock ] || n=80
	peer p dl A "$BIN/hangs" /usr/bin/python3 "$RIG/becomes.py" $n $kind
	hear p
	pid=$HEARD
	keys=$(keys_left | wc -l)
	at_least "$keys" $((n + 1)) "$kind: locked, and a file that is near"
	ask p go
	is "$HEARD" becomes "$kind: it becomes another program"
	ok "$kind: no lease is lost" throughout 8000 100 are_held "$keys"
	ok "$kind: the program is there" is_cat "$pid"
	on A kill -KILL "$pid"
	[ $kind != POSIX ] ||
		ok "$kind: killed: its locks have ended" until_true 5 db_is_empty
	on A pkill -USR1 -x hangs
	ok "$kind: killed, and the server is back: no lease is left" \
		until_true 10 db_is_empty
	peer_end p
done
rig_end
