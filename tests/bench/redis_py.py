#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""redis_py.py PORT WAITERS HOLD_US OUT lock|blpop: contenders for a lock by
redis-py, a process each; they behave as bench_contend.c says.

lock	redis-py's own Lock, with its defaults: who is refused asks again each
	100 ms
blpop	what python-redis-lock does, which Debian lacks: who is refused sleeps
	in BLPOP on a list of signals, of which a release leaves one.  The
	server wakes those who sleep in their order; who just asks may come
	first
"""
import os
import secrets
import sys
import time

import redis

PORT, WAITERS, HOLD_US = (int(word) for word in sys.argv[1:4])
OUT, KIND = sys.argv[4:6]
TTL_S = 10
RELEASE = """if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1], KEYS[2])
redis.call('lpush', KEYS[2], 1)
redis.call('pexpire', KEYS[2], 1000)
return 1"""


class Signalled:
    """One who waits sleeps until a signal is left for him."""

    def __init__(self, client):
        self.client, self.token = client, secrets.token_hex(16)
        self.script = client.register_script(RELEASE)

    def acquire(self):
        while not self.client.set("bench", self.token, nx=True, ex=TTL_S):
            self.client.blpop("bench-signal", TTL_S)

    def release(self):
        self.script(["bench", "bench-signal"], [self.token])


def make(client):
    if KIND == "blpop":
        return Signalled(client)
    return client.lock("bench", timeout=TTL_S)


def waiter(number, ready, go):
    lock = make(redis.Redis(port=PORT))
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
