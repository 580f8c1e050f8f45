#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# The keeper is no child of the program's (L4, L7): wait() and SIGCHLD tell of
# its own only, process 1 collects no zombies of ours, and whoever comes in the
# moment in which a keeper has the lock is not refused.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=20s

# A busy machine: a keeper that is granted the lock may not run for a while.
for n in 1 2 3 4; do
	timeout 6 sh -c 'while :; do :; done' &
done
for n in 1 2 3 4 5 6; do
	peer "again$n" dl A "$BIN/lock_again" "again$n"
done

# A keeper lingers, ends, and is process 1's to reap: the next one's start does.
cat >"$RIG/one.py" <<'END'
import fcntl, os, time

def keepers():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                name, rest = stat.read().rsplit(")", 1)
        except OSError:
            continue # it has gone meanwhile
        if name.endswith(("(dlock-keeper", "(dlock-standby")):
            found.append(rest.split()[0])
    return found

fd = os.open("one", os.O_RDWR | os.O_CREAT)
most = 0
for _ in range(3):
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.system("true")
    most = max(most, len(keepers()))
    fcntl.flock(fd, fcntl.LOCK_UN)
    end = time.monotonic() + 60
    while set(keepers()) - {"Z"} and time.monotonic() < end:
        time.sleep(0.02)
print(os.getpid(), most, "at most")
END
peer one dl A unshare -p -f --mount-proc /usr/bin/python3 "$RIG/one.py"

want='20 children, 20 SIGCHLD, then none'
is "$(on A "$BIN/signals_seen" children children)" "$want" 'its own children: bare'
is "$(dl A "$BIN/signals_seen" children children)" "$want" 'its own children: with dlock'

for n in 1 2 3 4 5 6; do
	hear "again$n" 20
	is "$HEARD" '0 refused' "again $n: LOCK_NB past the keeper"
done

hear one 30
like "$HEARD" '^1 [12] at most$' 'process 1: its keepers are reaped'
wait
rig_end
