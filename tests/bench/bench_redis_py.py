#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""bench_redis_py.py PORT N: the median of redis-py's Lock acquire + release
and of its PING, in nanoseconds, and the parser that it reads answers by."""
import statistics
import sys
import time

import redis

client = redis.Redis(port=int(sys.argv[1]))
locks, pings = [], []
for _ in range(int(sys.argv[2])):
    begin = time.monotonic_ns()
    client.ping()
    pings.append(time.monotonic_ns() - begin)
    lock = client.lock("bench", timeout=5)
    begin = time.monotonic_ns()
    lock.acquire()
    lock.release()
    locks.append(time.monotonic_ns() - begin)
print(int(statistics.median(locks)), int(statistics.median(pings)),
      redis.connection.DefaultParser.__name__)
