# SPDX-License-Identifier: MIT
"""A process that stays: sqlite_worker.py DATABASE TURNS|MODE [PRAGMA...]

TURNS increments of c.n, each followed by a read; or MODE `read`: reads until
standard input ends.  Prints 'FAILED BACK': statements that failed, and reads
that were smaller than one before.
"""
import select
import sqlite3
import sys

MESSAGES = {}


def attempt(db, *statements):
    """Their last row; None when one failed."""
    try:
        for statement in statements:
            row = db.execute(statement).fetchone()
        return row or ()
    except sqlite3.Error as error:
        MESSAGES[str(error)] = MESSAGES.get(str(error), 0) + 1
        if db.in_transaction:
            attempt(db, "rollback")
        return None


def turns(mode):
    """As many as asked for, True each: an increment comes first."""
    if mode == "read":
        print("reading", flush=True)
        while not select.select([sys.stdin], [], [], 0.001)[0]:
            yield False
    else:
        for _ in range(int(mode)):
            yield True


def main():
    db = sqlite3.connect(sys.argv[1], timeout=600, isolation_level=None)
    seen = back = 0
    for pragma in sys.argv[3:]:
        attempt(db, "pragma " + pragma)
    for writes in turns(sys.argv[2]):
        if writes:
            attempt(db, "begin immediate", "update c set n = n + 1", "commit")
        row = attempt(db, "select n from c")
        if row:
            back += row[0] < seen
            seen = row[0]
    print(sum(MESSAGES.values()), back)
    if MESSAGES:
        print(MESSAGES, file=sys.stderr)


main()
