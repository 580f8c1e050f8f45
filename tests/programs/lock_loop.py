# SPDX-License-Identifier: MIT
"""Locks and unlocks FILE for ever, whatever fails.	lock_loop.py FILE [SECONDS]

With a pause of SECONDS between (0)."""
import fcntl
import sys
import time

f = open(sys.argv[1], "w", encoding="utf-8")
pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0
while True:
    try:
        fcntl.flock(f, fcntl.LOCK_EX)
    except OSError:
        continue
    fcntl.flock(f, fcntl.LOCK_UN)
    if pause:
        time.sleep(pause)
