#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""redis_py.py PORT WAITERS HOLD_US OUT: contenders for a Lock of redis-py,
with its defaults, a process each; they behave as bench_contend.c says."""
import os
import sys
import time

import redis

PORT, WAITERS, HOLD_US = (int(word) for word in sys.argv[1:4])
OUT = sys.argv[4]


def waiter(number, ready, go):
    lock = redis.Redis(port=PORT).lock("bench", timeout=10)
    os.write(ready, b".")
    begin, end = (int(word) for word in os.read(go, 48).split())
    time.sleep(max(0, begin - time.monotonic_ns()) / 1e9)
    lines = []
    while time.monotonic_ns() < end:
        asked = time.monotonic_ns()
        lock.acquire()
        locked = time.monotonic_ns()
        time.sleep(HOLD_US / 1e6 if locked < end else 0)
        unlock = time.monotonic_ns()
        lock.release()
        lines.append(f"{number} {asked} {locked} {unlock}\n")
    with open(OUT, "ab", buffering=0) as out:
        out.write("".join(lines).encode())


def main():
    ready_in, ready = os.pipe()
    go, go_out = os.pipe()
    for number in range(WAITERS):
        if os.fork() == 0:
            waiter(number, ready, go)
            os._exit(0)
    for _ in range(WAITERS):
        os.read(ready_in, 1)
    print("ready", flush=True)
    times = sys.stdin.readline().strip().ljust(48).encode()
    for _ in range(WAITERS):
        os.write(go_out, times)
    well = all(os.wait()[1] == 0 for _ in range(WAITERS))
    print("done" if well else "failed")


main()
