# SPDX-License-Identifier: MIT
"""Locks and unlocks FILE for ever, whatever fails.	lock_loop.py FILE"""
import fcntl
import sys

f = open(sys.argv[1], "w", encoding="utf-8")
while True:
    try:
        fcntl.flock(f, fcntl.LOCK_EX)
    except OSError:
        continue
    fcntl.flock(f, fcntl.LOCK_UN)
