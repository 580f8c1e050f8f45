#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The corpora that the fuzzers begin with: seeds.py DIR makes DIR/TARGET/N.

What is there is what the world says: replies as a Redis gives them, lines as
proc(5) has them, the sample configuration.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOKEN = (b"dlock1 0123456789abcdef0123456789abcdef boot:id 8:1:2.00ff "
         b"00000000000000000042 4711 host job")
RANGE = b"W" + b"0" * 19 + b"9223372036854775807"


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text)


def array(*items):
    return b"*%d\r\n" % len(items) + b"".join(
        b":%d\r\n" % i if isinstance(i, int) else
        array(*i) if isinstance(i, tuple) else bulk(i) for i in items)


INFO = (b"# Server\r\nredis_version:7.0.15\r\nrun_id:" + b"0123456789" * 4 +
        b"\r\nuptime_in_seconds:77\r\nmaxmemory:1\r\n"
        b"maxmemory_policy:allkeys-lru\r\nrole:slave\r\nmaster_host:h\r\n"
        b"master_port:1\r\nmaster_replid2:" + b"0" * 40 + b"\r\n")
ERRORS = [b"-NOSCRIPT No matching script.\r\n",
          b"-NOSCRIPT the leases are gone\r\n", b"-LOADING x\r\n",
          b"-READONLY x\r\n", b"-NOPERM x\r\n", b"-ERR x\r\n",
          b"-WRONGTYPE x\r\n"]
YOUNG = array(1000, b"emptied")
STAMP = b"00000000000000000042"
OWNER = STAMP + b" 000000000060000 " + STAMP + b" " + TOKEN
PLACE = b"O0123456789abcdef0123456789abcdef" + b"0" * 19 + b"0" * 18 + b"9W"

REPLIES = {
    0: [array(1, 0, b"", 0, 0), array(1, 1, b"", 0, 0),
        array(0, 900, TOKEN, 7, 2), array(2, 0, b"list", 0, 0)],
    1: [array(1, 0, b"", b"", 0, 0), array(0, 900, TOKEN, RANGE, 7, 2),
        array(3, 0, STAMP, b"", 0, 0), array(4, 0, b"", b"", 0, 0)],
    2: [array(1, 0, b"", b""), array(0, 900, TOKEN, RANGE)],
    3: [array(1, 0, b"", 0, 0), array(0, 900, TOKEN, 7, -3)],
    4: [array(0, 900, TOKEN, RANGE, 7, -3)],
    5: [b":1\r\n:0\r\n" + array(1, b"") + array(2, STAMP)],
    6: [array(1, b"") * 4, array(0, TOKEN) * 4,
        array(-1, b"") * 4 + bulk(INFO) + YOUNG + b":1\r\n" * 2,
        ERRORS[0] * 4 + array(1, b"") * 4],
    7: [bulk(OWNER) + array(PLACE, PLACE), b"$-1\r\n",
        ERRORS[6] + bulk(TOKEN)],
    8: [bulk(INFO) + YOUNG, bulk(INFO) + ERRORS[0] + YOUNG],
    9: [array(STAMP, STAMP)], 10: [bulk(STAMP), bulk(b"")],
    11: [array(b"0", (STAMP, STAMP + b" - " + RANGE + b" k%rec")),
         array(STAMP, STAMP + b" - " + RANGE + b" k%rec")],
    12: [array(b"0123456789abcdef0123456789abcdef")],
}

FLOCK = b"1: FLOCK  ADVISORY  WRITE 2730 fe:00:10952755 0 EOF\n"
MOUNT = (b"36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - fuse.bindfs "
         b"/dev/root rw,errors=continue")

CORPORA = {
    "control": [b"none", b"lo"],
    "reply": [bytes([q]) + a for q, all_of in REPLIES.items()
              for a in all_of + ERRORS],
    "text": [b"\0" + TOKEN, b"\0" + TOKEN + b" /a%20b", b"\x01lock:\t" + FLOCK,
             b"\x02" + FLOCK, b"\x0217: -> " + FLOCK,
             b"\x021: POSIX  ADVISORY  READ 1 fe:00:7 0 9", b"\x03" + MOUNT,
             b"\x0400000000000000000042 x", b"\x0418446744073709551616",
             b"\x05ffffffffffffffff"],
    "url": [b"redis://127.0.0.1:6379/0", b"redis://user:secret@h:1/15",
            b"unix:///run/redis.sock?db=3", b"unix:/s", b"rediss://h",
            b"redis://[::1]:7/1", b"redis://:p%40ss@h"],
    "ranges": [bytes([2, 0, 47, 0, 0, 10, 19, 0, 1, 15, 30, 1]),
               bytes([1, 0, 9, 0, 1, 10, 19, 0, 2, 5, 15, 0, 0, 7, 7, 0])],
    "keeper": [bytes([0, 0, 0]), bytes([1, 0, 0, 0x22, 0, 0, 0x24, 0, 0]),
               bytes([0, 0, 0, 0x25, 0, 0, 0x27, 0, 0, 3, 0, 0]),
               bytes([0, 4, 1, 1, 0x26, 0, 0, 16, 8, 0])],
    "config": [b'\0redis "r" { url = "redis://h" }\n'
               b'path "/var/lock/jobs/" { key = "x:%r" ttl = "9s" }\n',
               b'\x01redis "r" { urls = { "redis://a", "redis://b" }\n'
               b'mode = "cluster" }\npath "/srv/x" { key = "k:%i" }\n'],
}


def main():
    with open(os.path.join(HERE, "..", "..", "config", "dlock.conf"),
              "rb") as f:
        CORPORA["config"].append(b"\0" + f.read())
    for target, inputs in CORPORA.items():
        top = os.path.join(sys.argv[1], target)
        os.makedirs(top)
        for i, data in enumerate(inputs):
            with open(os.path.join(top, "%03d" % i), "wb") as f:
                f.write(data)


main()
