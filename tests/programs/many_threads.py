# SPDX-License-Identifier: MIT
"""So many threads of one process ask at the same time, without waiting, for one
lock by one descriptor:  many_threads.py FILE flock|record THREADS

Prints how long the longest call took (ms), and what came of them, sorted."""
import errno
import fcntl
import sys
import threading
import time

path, kind, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
call = fcntl.flock if kind == "flock" else fcntl.lockf
file = open(path, "r+")
begin = threading.Barrier(n)
took, outcomes = [], []


def ask():
    begin.wait()
    start = time.monotonic()
    try:
        call(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        outcome = "locked"
    except OSError as e:
        outcome = errno.errorcode[e.errno]
    took.append(time.monotonic() - start)
    outcomes.append(outcome)


threads = [threading.Thread(target=ask) for _ in range(n)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(round(max(took) * 1000), *sorted(set(outcomes)))
