#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The figures of a run of `make bench` as README.md here has them.

	tables.py [BENCH.JSON]		prints the section "Figures"
	tables.py --write [BENCH.JSON]	puts it into README.md beside this file

So what README.md says is what one run has measured, and nobody copies numbers
by hand.  A row that the run does not have is an error.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HEADING = "## Figures\n"

CYCLE = [
    ("one PING, by hiredis", "PING by hiredis"),
    ("the least: SET NX PX, and a DEL that is not waited for; nothing checked",
     "the least: SET NX, DEL not waited for, unchecked"),
    ("**dlock: `flock`**", "dlock: flock"),
    ("**dlock: `fcntl`**", "dlock: fcntl"),
    ("SET NX PX and compare-and-delete, by hiredis",
     "hiredis: SET NX PX + compare-and-delete"),
    ("redis-py `Lock`", "redis-py: Lock"),
    ("node-redlock", "node-redlock"),
]

QUORUM = [
    ("one PING, by hiredis", "PING by hiredis"),
    ("**dlock: `flock`**, one master", "dlock: flock, one master"),
    ("**dlock: `flock`**, three", "dlock: flock, three masters"),
    ("**dlock: `flock`**, three, of which one is dead",
     "dlock: flock, one of three is dead"),
    ("node-redlock, one master", "node-redlock, one master"),
    ("node-redlock, three", "node-redlock, three masters"),
]

HANDOFF = [
    # by, waiters, hosts (or None), what it is called
    ("dlock flock", 2, 2, "**dlock**"),
    ("dlock flock, rests", 2, 2, "**dlock**, rests"),
    ("dlock flock", 8, 8, "**dlock**"),
    ("dlock flock", 32, 32, "**dlock**"),
    ("dlock flock", 128, 128, "**dlock**"),
    ("dlock flock, rests", 128, 128, "**dlock**, rests"),
    ("dlock flock", 128, 2, "**dlock**, 64 on each of two hosts"),
    ("dlock fcntl", 2, 2, "**dlock**, `fcntl`"),
    ("dlock fcntl", 32, 32, "**dlock**, `fcntl`"),
    ("redis-py BLPOP", 8, 8, "redis-py, a queue by BLPOP"),
    ("redis-py BLPOP", 128, 128, "redis-py, a queue by BLPOP"),
    ("redis-py", 8, 8, "redis-py `Lock`"),
    ("redis-py", 128, 128, "redis-py `Lock`"),
    ("node-redlock", 8, 8, "node-redlock"),
    ("node-redlock", 128, 128, "node-redlock"),
    ("etcdctl", 8, 8, "`etcdctl lock` (whole commands)"),
]

RECORDS = [
    ("alone: 0 owners, 0 ranges each", "nobody else is there"),
    ("write: 1 owners, 10000 ranges each", "one other owner has 10,000 ranges"),
    ("write: 1000 owners, 10 ranges each", "1,000 owners have 10 ranges each"),
    ("read: 1 owners, 10000 ranges each", "a reader has 10,000 ranges"),
    ("same: 1000 owners, 1 ranges each", "1,000 readers share the range"),
    ("refused: 1 owners, 10000 ranges each", "refused by one of 10,000 ranges"),
    ("far: 1000 owners, 10 ranges each",
     "refused by a reader that began far before, of 1,000 owners"),
]


class Run:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.run = json.load(f)

    def row(self, group, name):
        for row in self.run["rows"]:
            if row["group"] == group and row["name"] == name:
                return row
        sys.exit(f"tables.py: the run has no row \"{name}\" of {group}")

    def value(self, group, name):
        return self.row(group, name)["value"]

    def handoff(self, by, waiters, hosts, hold_ms=1):
        for row in self.run["rows"]:
            if (row.get("by"), row.get("waiters"), row.get("hosts"),
                    row.get("hold_ms")) == (by, waiters, hosts, hold_ms):
                return row
        return sys.exit(f"tables.py: the run has no hand-off by {by}, "
                        f"{waiters} waiters on {hosts} hosts")


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |",
             "| " + " | ".join("---" for _ in heads) + " |"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def wrapped(text, first="", then=""):
    lines, line = [], first
    for word in text.split():
        if len(line) + len(word) >= 80:
            lines.append(line.rstrip())
            line = then
        line += word + " "
    return lines + [line.rstrip()]


def item(text):
    return wrapped(text, "- ", "  ")


def about(run):
    d, m = run.run, run.run["machine"]
    return wrapped(
        f"Of one run of {d['date'][:10]}, commit {d['commit']}: "
        f"{m['cores']} cores of an {m['cpu']} in a virtual machine, "
        f"{m['kernel'].split('-')[0]}, Redis {m['redis']} on the same machine "
        f"by loopback; {len(d['rows'])} rows, {d['seconds']} s. "
        "`tests/bench/tables.py --write` puts another run's figures here.")


def cycle(run):
    rows = []
    for title, name in CYCLE:
        row = run.row("cycle", name)
        rows.append((title, number(row["value"]),
                     f"{row.get('pings', 1):.2f}",
                     number(row.get("over_ping_us", 0)),
                     f"{row['leasts']:.2f}" if "leasts" in row else ""))
    lines = table(("an uncontended lock and unlock", "us", "x PING",
                   "us over a PING", "x the least"), rows)
    return lines + [""] + wrapped(
        "A lock is one round trip; an unlock is sent and not waited for. So "
        f"{run.value('cycle', 'dlock: commands sent'):.0f} commands reach the "
        "server, "
        f"{number(run.value('cycle', 'dlock: of that in scripts, at the server'))}"
        " us of it in scripts. The process spends "
        f"{number(run.value('cycle', 'dlock: system calls'))} system calls and "
        f"{number(run.value('cycle', 'dlock: instructions'))} instructions.")


def quorum(run):
    rows = [(title, number(run.value("quorum", name)),
             f"{run.row('quorum', name).get('pings', 1):.2f}")
            for title, name in QUORUM]
    return ["By a quorum:", ""] + table(("a lock and unlock", "us", "x PING"),
                                        rows)


def handoff(run):
    rows = []
    for by, waiters, hosts, title in HANDOFF:
        r = run.handoff(by, waiters, hosts)
        rows.append((title, str(waiters), number(r.get("p50_us")),
                     number(r.get("p99_us")),
                     number(r["wait_max_us"] / 1000),
                     f"{r['handoffs']:,} of {r['acquisitions']:,}",
                     f"{r['sent']:.1f}" if "sent" in r else "",
                     f"{r['fewest']}-{r['most']}"))
    lines = ["Hand-off, 1 ms holds:", ""]
    lines += table(("", "waiters", "p50 us", "p99 us", "longest wait ms",
                    "handed", "commands", "fewest-most"), rows)
    scale = run.value("handoff", "2 x PING + wake-up, after 1 ms of sleep")
    slept = run.value("handoff", "2 x PING + wake-up, after 100 ms of sleep")
    late = run.handoff("dlock flock", 2, 2, 100)
    rests = run.handoff("dlock flock, rests", 2, 2, 100)
    return lines + [""] + wrapped(
        f"Twice a PING and one wake-up took {number(scale)} us in this run; "
        f"where a waiter has slept for 100 ms, {number(slept)} us, and a "
        f"hand-off by dlock {number(late['p50_us'])} us, or "
        f"{number(rests['p50_us'])} rested. Those who poll are handed the lock "
        "seldom: mostly who unlocks is the next one too, which is what their "
        "rates are made of.")


def others(run):
    def start(name):
        return run.value("start", name)

    def crowd(name):
        return run.value("crowd", name)

    def share(name):
        return run.value("share", name)

    two = run.row("share", "bare, two hosts")
    ours = run.row("share", "dlock, two hosts")
    return (
        item("Whole commands: `/bin/true` "
             f"{number(start('/bin/true, bare'))} us bare, "
             f"{number(start('/bin/true, preloaded, 1 rule'))} preloaded with "
             f"a rule; `flock f true` {number(start('flock f true, bare'))} us "
             "bare, "
             f"{number(start('flock f true, an unmanaged file'))} on a file of "
             "no rule, "
             f"{number(start('flock f true, a managed file'))} on a managed "
             "one (it starts a keeper); `etcdctl lock` "
             f"{number(start('true, etcdctl lock'))}. An unmanaged `flock()` "
             f"costs {number(start('flock, preloaded: more'))} ns more.") +
        item("10,000 leases of one process, ttl 9 s: "
             f"{number(crowd('CPU of process and keeper'))} % of one core for "
             f"it and its keeper, {number(crowd('CPU of Redis'))} % for Redis, "
             f"{number(crowd('commands sent a lease and ttl'))} commands a "
             "lease and ttl, "
             f"{crowd('bytes to the server') / 1e6:.1f} MB/s. 1,000 processes "
             "with a lease each: "
             f"{number(crowd('dlock: Pss a process'))} kB each, and "
             f"{number(crowd('dlock: Pss a keeper'))} kB for each keeper; "
             f"{number(crowd('dlock: connections a process'))} connections.") +
        item("A lock on a share, bindfs: "
             f"{number(share('dlock: flock, coherence = off'))} us without "
             "`coherence`, "
             f"{number(share('dlock: flock, coherence = auto'))} with `auto`.") +
        item("SQLite, a transaction and a read, Python's start not counted: "
             f"{number(two['value'])} a second bare on two hosts ({two['note']})"
             f"; {number(ours['value'])} by dlock ({ours['note']}). On one "
             f"host's tmpfs {number(share('bare, one process, tmpfs'))} bare, "
             f"{number(share('dlock, one process, tmpfs'))} by dlock: "
             f"{number(share('dlock: time of each, against bare'))} times as "
             "long. `ping_pong -rw`: "
             f"{number(share('dlock, two hosts, host A'))} locks a second and "
             "host over two hosts, "
             f"{number(share('dlock, alone, tmpfs, host A'))} alone.") +
        item("An attempt that does not wait is refused by the second such "
             "answer: `flock` 80 us by one, 115 to 130 by two (of 2026-11-22, "
             "commit 9dbc4bf)."))


def records(run):
    rows = [(title, number(run.value("records", name)))
            for name, title in RECORDS]
    return ["The server's CPU for a record lock and unlock:", ""] + table(
        ("where", "us"), rows)


def main():
    args = sys.argv[1:]
    write = "--write" in args
    paths = [a for a in args if a != "--write"] or [
        os.path.join(HERE, "../../build/bench/bench.json")]
    run = Run(paths[0])
    if run.run["mode"] != "full":
        sys.exit("tables.py: that was a quick run")
    parts = [about(run), cycle(run), quorum(run), handoff(run), others(run), records(run)]
    text = HEADING + "\n" + "\n\n".join("\n".join(p) for p in parts) + "\n"
    if not write:
        print(text, end="")
        return
    name = os.path.join(HERE, "README.md")
    with open(name, encoding="utf-8") as f:
        before = f.read().split(HEADING)[0]
    with open(name, "w", encoding="utf-8") as f:
        f.write(before + text)


main()
