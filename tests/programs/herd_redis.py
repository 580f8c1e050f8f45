#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A contender that locks by redis-py's Lock, among a herd (herd.c).

	herd_redis.py OUT NAME SOCKET KEY HOLD_US SECONDS SLEEP
"""
import os
import sys
import time

import redis


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def main():
    path, name, socket, key, hold, seconds, sleep = sys.argv[1:]
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    server = redis.Redis(unix_socket_path=socket)
    me = f"{name}{os.getpid()}"
    until = time.monotonic() + float(seconds)

    def say(sign, a, b):
        os.write(out, f"{sign} {me} EX {a} {b} 0\n".encode())

    while time.monotonic() < until:
        lock = server.lock(key, timeout=5, sleep=float(sleep))
        asked = now_ns()
        lock.acquire()
        say("+", asked, now_ns())
        time.sleep(int(hold) / 1e6)
        say("-", now_ns(), 0)
        lock.release()
    os.write(out, f". {me} - 0 0 0\n".encode())


main()
