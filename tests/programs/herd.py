#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What a herd did (tests/programs/herd.c): one line of

	GRANTS OVERLAPS WORST_MS FEWEST MOST ENDED FDS PAGES ORDER

OVERLAPS are grants while another one had it (two readers may); WORST_MS is the
longest wait for the lock, FEWEST and MOST are grants of a process that did all
its rounds; ENDED waits by signals; FDS and PAGES the most that one has more
than after its first round; ORDER the pids as granted, joined by commas.  A
process that was killed while it had the lock had it for that moment only.
"""
import collections
import sys


def main():
    events, pids, whole = [], [], set()
    grants = collections.Counter()
    worst = ended = fds = pages = 0
    begun = {}
    for line in open(sys.argv[1], encoding="ascii"):
        sign, pid, mode, a, b, c = line.split()
        if sign == "+":
            begun[pid] = (int(b), mode)
            grants[pid] += 1
            pids.append((int(b), pid))
            worst = max(worst, int(b) - int(a))
            ended += int(c)
        elif sign == "-":
            start, mode = begun.pop(pid)
            events += [(start, 1, mode), (int(a), 0, mode)]
        else:
            whole.add(pid)
            fds, pages = max(fds, int(a)), max(pages, int(b))
    for start, mode in begun.values():
        events += [(start, 1, mode), (start + 1, 0, mode)]
    have = collections.Counter()
    overlaps = 0
    for _, begins, mode in sorted(events):
        if begins:
            overlaps += have["EX"] > 0 or (mode == "EX" and have["SH"] > 0)
        have[mode] += 1 if begins else -1
    per = [grants[p] for p in whole] or [0]
    print(sum(grants.values()), overlaps, worst // 1000000, min(per), max(per),
          ended, fds, pages, ",".join(p for _, p in sorted(pids)) or "-")


main()
