#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# The keeper is no child of the program's (L4, L7): wait() and SIGCHLD tell of
# its own only, process 1 collects no zombies of ours, and whoever comes in the
# moment in which a keeper has the lock is not refused.
. "${0%/*}/../lib/rig.sh"

rig_start disks
rig_configs ttl=20s
guest=$BIN/guest

for n in 1 2 3 4 5 6; do
	peer "again$n" dl A "$guest" again "again$n"
done

want='20 children, 20 SIGCHLD, then none'
is "$(on A "$guest" children children)" "$want" 'its own children: bare'
is "$(dl A "$guest" children children)" "$want" 'its own children: with dlock'

for n in 1 2 3 4 5 6; do
	hear "again$n" 20
	is "$HEARD" '0 refused' "again $n: LOCK_NB past the keeper"
done

cat >"$RIG/one.py" <<'END'
import fcntl, os, time
fd = os.open("one", os.O_RDWR | os.O_CREAT)
for _ in range(10):
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.system("true")
    fcntl.flock(fd, fcntl.LOCK_UN)
    time.sleep(0.1)
zombies = 0
for pid in filter(str.isdigit, os.listdir("/proc")):
    with open(f"/proc/{pid}/stat") as stat:
        zombies += stat.read().rsplit(")", 1)[1].split()[0] == "Z"
print(os.getpid(), "few" if zombies <= 2 else f"{zombies} zombies")
END
is "$(dl A unshare -p -f --mount-proc /usr/bin/python3 "$RIG/one.py")" \
	'1 few' 'process 1: its keepers are reaped'

rig_end
