#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How often a text stands in the memory of a process.

	memgrep.py PID		the text is a line of standard input
	memgrep.py -f FILE	in a file: a core dump

Prints the number, and on standard error where each one is."""
import sys

CHUNK = 1 << 24


def regions(pid):
    for line in open("/proc/%s/maps" % pid):
        fields = line.split(None, 5)
        name = fields[5].strip() if len(fields) > 5 else "anonymous"
        if "r" not in fields[1] or name in ("[vvar]", "[vsyscall]"):
            continue
        begin, end = (int(x, 16) for x in fields[0].split("-"))
        yield begin, end, name


def read_at(f, at, size):
    """What can be had of it: a hole in a mapped file cannot."""
    try:
        f.seek(at)
        return f.read(size)
    except (OSError, ValueError):
        return b""


def found(data, text):
    at = data.find(text)
    while at >= 0:
        yield at
        at = data.find(text, at + 1)


def search(f, begin, end, text, name):
    n = 0
    while begin < end:
        data = read_at(f, begin, min(CHUNK, end - begin) + len(text) - 1)
        for at in found(data, text):
            if at < CHUNK:
                print("%x %s" % (begin + at, name), file=sys.stderr)
                n += 1
        begin += CHUNK
    return n


def main(args):
    text = sys.stdin.readline().rstrip("\n").encode()
    if args[0] == "-f":
        with open(args[1], "rb") as f:
            size = f.seek(0, 2)
            print(search(f, 0, size, text, args[1]))
        return
    with open("/proc/%s/mem" % args[0], "rb", buffering=0) as f:
        print(sum(search(f, b, e, text, name)
                  for b, e, name in list(regions(args[0]))))


main(sys.argv[1:])
