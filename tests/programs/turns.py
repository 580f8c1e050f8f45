#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Processes that take byte ranges of a file in turns, each waiting (F_SETLKW).

	turns.py FILE PROCESSES TURNS HOLD_US BYTES

Of BYTES bytes each takes a part, by chance, to read or to write; of one byte
always that, to write.  "ready" when all are; at a line of input they begin.
Then a line a turn: START END TYPE LOCKED UNLOCK, by CLOCK_BOOTTIME (ns).

	turns.py conflicts FILE...

reads such lines, and prints how many turns there were, and how many of them
held what another did at the same time.
"""
import fcntl
import os
import random
import struct
import sys
import time

CLOCK = time.CLOCK_BOOTTIME


def set_lock(fd, kind, start, length):
    fcntl.fcntl(fd, fcntl.F_SETLKW,
                struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))


def choose(chance, size):
    if size == 1:
        return 0, 1, fcntl.F_WRLCK
    start = chance.randrange(size)
    return (start, 1 + chance.randrange(size - start),
            chance.choice((fcntl.F_WRLCK, fcntl.F_RDLCK)))


def take_turns(path, turns, hold_us, size):
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    chance = random.Random(os.getpid())
    lines = []
    for _ in range(turns):
        start, length, kind = choose(chance, size)
        set_lock(fd, kind, start, length)
        locked = time.clock_gettime_ns(CLOCK)
        time.sleep(hold_us / 1e6)
        lines.append("%d %d %s %d %d\n" % (
            start, start + length - 1, "RW"[kind == fcntl.F_WRLCK], locked,
            time.clock_gettime_ns(CLOCK)))
        set_lock(fd, fcntl.F_UNLCK, start, length)
    return "".join(lines)


def run(path, processes, turns, hold_us, size):
    begin, go = os.pipe()
    for _ in range(processes):
        if os.fork() == 0:
            os.close(go)
            os.read(begin, 1)
            os.write(1, take_turns(path, turns, hold_us, size).encode())
            os._exit(0)
    print("ready", flush=True)
    sys.stdin.readline()
    os.close(go)
    return max(os.wait()[1] for _ in range(processes))


def conflicts(files):
    turns = []
    for name in files:
        with open(name, encoding="ascii") as f:
            own = [line.split() for line in f if line.strip() != "ready"]
        turns += [(int(t), int(u), int(a), int(b), k)
                  for a, b, k, t, u in own]
    turns.sort()
    bad, open_ = 0, []
    for turn in turns:
        open_ = [o for o in open_ if o[1] > turn[0]]
        bad += any(o[2] <= turn[3] and turn[2] <= o[3] and "W" in o[4] + turn[4]
                   for o in open_)
        open_.append(turn)
    print(len(turns), bad)


if sys.argv[1] == "conflicts":
    conflicts(sys.argv[2:])
else:
    sys.exit(run(sys.argv[1], *map(int, sys.argv[2:])))
