#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""judge.py WAITERS SENT ROUND...: what contenders did, in all rounds together.

A ROUND is a directory: `lines`, "WAITER ASKED LOCKED UNLOCK" each; `window`,
"FROM TO"; `before` and `after`, the server's INFO then.  SENT, a pattern,
matches commands that clients send, all others are called by scripts; an empty
one: the server is not asked.  Prints one JSON object.

 1. No two of all the critical sections of a round, from LOCKED to UNLOCK,
    overlap: `overlaps` counts those that do.
 2. The other figures are of the acquisitions with LOCKED from FROM to TO.
 3. The latency of a hand-off goes from UNLOCK of the one before to LOCKED; an
    acquisition is a hand-off if it was asked for before that UNLOCK.
"""
import json
import math
import os
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


def grown(name, fields):
    """What the server did between the two INFOs of a round."""
    old, was = info(os.path.join(name, "before"))
    new, calls = info(os.path.join(name, "after"))
    calls.subtract(was)
    calls["info"] -= 1  # the first of ours
    return Counter({f: float(new[f]) - float(old[f]) for f in fields}), calls


FIELDS = ["total_reads_processed", "used_cpu_user", "used_cpu_sys",
          "total_net_input_bytes", "total_net_output_bytes"]


def server(rounds, sent, each):
    """What the server did, of each acquisition."""
    did, calls = Counter(), Counter()
    for name in rounds:
        fields, more = grown(name, FIELDS)
        did.update(fields)
        calls.update(more)
    calls = {k: n for k, n in calls.items() if n > 0}
    mine = {k: n for k, n in calls.items() if re.fullmatch(sent, k)}
    return {
        "sent": round(sum(mine.values()) / each, 2),
        "called": round(sum(calls.values()) / each, 2),
        "reads": round(did["total_reads_processed"] / each, 2),
        "redis_cpu_us": round(1e6 / each * (
            did["used_cpu_user"] + did["used_cpu_sys"]), 1),
        "bytes_in": round(did["total_net_input_bytes"] / each),
        "bytes_out": round(did["total_net_output_bytes"] / each),
        "commands": {k: round(n / each, 2) for k, n in sorted(calls.items())},
    }


class Sum:
    """Of the rounds so far."""

    def __init__(self):
        self.overlaps, self.idle, self.ns = 0, 0, 0
        self.latencies, self.waits, self.counts = [], [], Counter()

    def add(self, name):
        with open(os.path.join(name, "window"), encoding="ascii") as file:
            begin, end = map(int, file.read().split())
        rows = sections(os.path.join(name, "lines"))
        overlaps, latencies, idle = compare(rows, begin, end)
        mine = [r for r in rows if begin <= r[0] <= end]
        self.overlaps += overlaps
        self.idle += idle
        self.ns += end - begin
        self.latencies += latencies
        self.waits += [r[0] - r[2] for r in mine]
        self.counts.update(r[3] for r in mine)

    def each(self, waiters):
        """Acquisitions of each waiter, those without any too."""
        some = list(self.counts.values())
        return some + [0] * (waiters - len(some))


def main():
    waiters, sent, rounds = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    of = Sum()
    for name in rounds:
        of.add(name)
    n = len(of.waits)
    result = {
        "rounds": len(rounds),
        "overlaps": of.overlaps,
        "seconds": round(of.ns / 1e9, 2),
        "acquisitions": n,
        "handoffs": len(of.latencies),
        "p50_us": in_us(rank(of.latencies, 50)),
        "p99_us": in_us(rank(of.latencies, 99)),
        "max_us": in_us(max(of.latencies, default=None)),
        "idle_us": in_us(of.idle / n) if n else None,
        "wait_max_us": in_us(max(of.waits, default=None)),
        "fewest": min(of.each(waiters)),
        "most": max(of.each(waiters)),
    }
    if sent and n:
        result.update(server(rounds, sent, n))
    print(json.dumps(result))


main()
