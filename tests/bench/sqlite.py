#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""sqlite.py DATABASE N: N increments of c.n, each followed by a read, by one
process over one connection.

Says "ready" when it has connected and made one more, begins when it is told
to, and says "FAILED FROM TO": how many failed, and when the first began and
the last was through, in ns (CLOCK_MONOTONIC).  Neither the start of Python nor
that of the keeper is in it.
"""
import sqlite3
import sys
import time


def increment(db):
    """Whether it failed."""
    try:
        db.execute("begin immediate")
        db.execute("update c set n = n + 1")
        db.execute("commit")
        db.execute("select n from c").fetchone()
        return 0
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("rollback")
        return 1


def main():
    db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
    increment(db)
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.monotonic_ns()
    failed = sum(increment(db) for _ in range(int(sys.argv[2])))
    print(failed, begin, time.monotonic_ns())


main()
