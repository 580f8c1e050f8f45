#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Judges what survivor.c has logged: did two ever hold one thing?

	check_intervals.py DATA LOG...

Prints "grants N overlaps N broken N lost N errors N quiet N,N,...", and the first
few of what is wrong.  An overlap: two intervals of one cell, one a writer's.
broken: the data changed under a holder.  lost: counters that are not what was
acknowledged, but for one write of each who died between the two.
"""
import struct
import sys

HEAD = struct.Struct("=QQQ")
RECORD = struct.Struct("=3Q4I8Q1Q")
CELL = struct.Struct("=QQ")


def read(path):
    with open(path, "rb") as f:
        head = f.read(HEAD.size)
        if len(head) < HEAD.size:
            return 0, []
        n, errors, _ = HEAD.unpack(head)
        text = f.read(n * RECORD.size)
    return errors, [(path, i) + RECORD.unpack_from(text, i * RECORD.size)
                    for i in range(len(text) // RECORD.size)]


def overlaps(records):
    """(cell, first, second) of each that overlap."""
    cells, found = {}, []
    for r in records:
        path, i, start, last, end, cell, n, writes = r[:8]
        for c in range(cell, cell + n):
            cells.setdefault(c, []).append(
                (start, end or last, writes, "%s:%d" % (path, i)))
    for c, all_of in cells.items():
        writer, anyone = (0, ""), (0, "")
        for start, end, writes, name in sorted(all_of):
            before = anyone if writes else writer
            if before[0] > start:
                found.append((c, before[1], name, before[0] - start))
            if writes:
                writer = max(writer, (end, name))
            anyone = max(anyone, (end, name))
    return found


def lost(records, counters):
    acked, open_, twice = {}, {}, []
    for r in records:
        cell, n, writes = r[5:8]
        wrote, done = r[9:17], r[17]
        for i in range(n if writes else 0):
            if done:
                values = acked.setdefault(cell + i, set())
                if wrote[i] in values:
                    twice.append("cell %d: %d twice" % (cell + i, wrote[i]))
                values.add(wrote[i])
            elif wrote[i]:
                open_[cell + i] = open_.get(cell + i, 0) + 1
    for c, counter in enumerate(counters):
        n = len(acked.get(c, ()))
        if not n <= counter <= n + open_.get(c, 0):
            twice.append("cell %d: %d of %d" % (c, counter, n))
    return twice


def main():
    with open(sys.argv[1], "rb") as f:
        counters = [c for c, _ in CELL.iter_unpack(f.read())]
    records, errors = [], 0
    for path in sys.argv[2:]:
        more, some = read(path)
        errors += more
        records += some
    wrong = overlaps(records)
    broken = [r for r in records if r[8]]
    gone = lost(records, counters)
    print("grants %d overlaps %d broken %d lost %d errors %d" % (
        len(records), len(wrong), len(broken), len(gone), errors))
    for c, a, b, ns in wrong[:8]:
        print("cell %d: %s and %s, for %.3f ms" % (c, a, b, ns / 1e6))
    for text in gone[:8]:
        print(text)


if __name__ == "__main__":
    main()
