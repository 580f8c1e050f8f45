#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""judge.py FROM TO WAITERS LINES INFO INFO SENT: what contenders did.

LINES, "WAITER ASKED LOCKED UNLOCK" each, are of a run; INFO are the server's
before and after; SENT, a pattern, matches commands that clients send, all
others are called by scripts; an empty one: it is not asked.  Prints one JSON
object.

 1. No two of all the critical sections, from LOCKED to UNLOCK, overlap:
    `overlaps` counts those that do.
 2. The other figures are of the acquisitions with LOCKED from FROM to TO.
 3. The latency of a hand-off goes from UNLOCK of the one before to LOCKED; an
    acquisition is a hand-off if it was asked for before that UNLOCK.
"""
import json
import math
import re
import sys
from collections import Counter


def sections(name):
    rows = []
    with open(name, encoding="ascii") as file:
        for line in file:
            waiter, *times = line.split()
            asked, locked, unlock = map(int, times)
            rows.append((locked, unlock, asked, waiter))
    return sorted(rows)


def rank(values, percent):
    """By nearest rank; None of none."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def in_us(nanoseconds):
    return None if nanoseconds is None else round(nanoseconds / 1000, 1)


def compare(rows, begin, end):
    """Overlaps, hand-offs' latencies, and how long the lock lay idle."""
    overlaps, latencies, idle, last = 0, [], 0, None
    for locked, unlock, asked, _ in rows:
        if last is not None:
            overlaps += locked < last
            if asked <= last and begin <= locked <= end:
                latencies.append(locked - last)
            if begin <= locked <= end:
                idle += max(0, locked - max(last, begin))
        last = unlock if last is None else max(last, unlock)
    return overlaps, latencies, idle


def info(name):
    fields, calls = {}, Counter()
    with open(name, encoding="utf-8") as file:
        for line in file:
            key, _, value = line.strip().partition(":")
            if key.startswith("cmdstat_"):
                calls[key[8:]] = int(value.split(",")[0][6:])
            elif value:
                fields[key] = value
    return fields, calls


def server(before, after, sent, each):
    """What the server did, of each acquisition."""
    (old, was), (new, calls) = info(before), info(after)
    calls.subtract(was)
    calls["info"] -= 1  # the first of ours
    calls = {k: n for k, n in calls.items() if n > 0}

    def grown(field):
        return float(new[field]) - float(old[field])

    mine = {k: n for k, n in calls.items() if re.fullmatch(sent, k)}
    return {
        "sent": round(sum(mine.values()) / each, 2),
        "called": round(sum(calls.values()) / each, 2),
        "reads": round(grown("total_reads_processed") / each, 2),
        "redis_cpu_us": round(1e6 / each * (
            grown("used_cpu_user") + grown("used_cpu_sys")), 1),
        "bytes_in": round(grown("total_net_input_bytes") / each),
        "bytes_out": round(grown("total_net_output_bytes") / each),
        "commands": {k: round(n / each, 2) for k, n in sorted(calls.items())},
    }


def main():
    begin, end, waiters = (int(word) for word in sys.argv[1:4])
    rows = sections(sys.argv[4])
    overlaps, latencies, idle = compare(rows, begin, end)
    mine = [r for r in rows if begin <= r[0] <= end]
    counts = Counter(r[3] for r in mine)
    each = [counts[w] for w in counts]
    each += [0] * (waiters - len(each))
    result = {
        "overlaps": overlaps,
        "seconds": round((end - begin) / 1e9, 2),
        "acquisitions": len(mine),
        "handoffs": len(latencies),
        "p50_us": in_us(rank(latencies, 50)),
        "p99_us": in_us(rank(latencies, 99)),
        "max_us": in_us(max(latencies, default=None)),
        "idle_us": in_us(idle / len(mine)) if mine else None,
        "wait_max_us": in_us(max((r[0] - r[2] for r in mine),
                                 default=None)),
        "fewest": min(each),
        "most": max(each),
    }
    if sys.argv[7] and mine:
        result.update(server(*sys.argv[5:8], len(mine)))
    print(json.dumps(result))


main()
