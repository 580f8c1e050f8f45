#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How long was a thing nobody's, of what survivor.c has logged?

	longest_wait.py LOG...

Prints "waits MS,MS,...": of each cell the longest time between the end of one
interval and the beginning of the next.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_intervals


def main():
    ends, longest, records = {}, {}, []
    for path in sys.argv[1:]:
        records += check_intervals.read(path)[1]
    for r in sorted(records, key=lambda r: r[2]):
        start, last, end, cell, n = r[2:7]
        for c in range(cell, cell + n):
            if c in ends:
                longest[c] = max(longest.get(c, 0), start - ends[c])
            ends[c] = max(ends.get(c, 0), end or last)
    print("waits " + ",".join("%d" % (longest[c] / 1e6)
                              for c in sorted(longest)))


if __name__ == "__main__":
    main()
