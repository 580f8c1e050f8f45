# SPDX-License-Identifier: MIT
"""Lock FILE; 'held'; at a line on standard input unlock: 'free'.  Before, what
a program sees of its own locks by two descriptions, a word each."""
import fcntl
import os
import sys

name = sys.argv[1]
one, two = (os.open(name, os.O_RDWR | os.O_CREAT, 0o666) for _ in "12")


def attempt(fd, how):
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
        return "0"
    except OSError as error:
        return os.strerror(error.errno).split()[0]


seen = [attempt(one, fcntl.LOCK_SH), attempt(two, fcntl.LOCK_SH),
        attempt(two, fcntl.LOCK_EX), attempt(one, fcntl.LOCK_EX),
        attempt(two, fcntl.LOCK_SH)]
child = os.fork()
if child == 0:
    os._exit(attempt(one, fcntl.LOCK_EX) != "0")
seen.append(str(os.waitpid(child, 0)[1]))
print("held", *seen, flush=True)
sys.stdin.readline()
fcntl.flock(one, fcntl.LOCK_UN)
print("free", flush=True)
