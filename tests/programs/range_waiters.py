#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Each of so many threads waits for a byte of its own:  range_waiters.py FILE THREADS

Prints "waiting" when all have begun, and what came of them, sorted."""
import errno
import fcntl
import sys
import threading

path, n = sys.argv[1], int(sys.argv[2])
file = open(path, "r+")
begin = threading.Barrier(n + 1)
outcomes = []


def wait(i):
    begin.wait()
    try:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, i)
        outcomes.append("locked")
    except OSError as e:
        outcomes.append(errno.errorcode[e.errno])


threads = [threading.Thread(target=wait, args=(i,)) for i in range(n)]
for t in threads:
    t.start()
begin.wait()
print("waiting", flush=True)
for t in threads:
    t.join()
print(len(outcomes), *sorted(set(outcomes)), flush=True)
