#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A server that gives one answer to every command.

Prints the port it listens on.  Then a line on standard input sets the answer
(Python's escapes: \\r\\n) and is answered by "ok".  An answer that begins with
"!flood" sends a bulk of the given number of bytes, without end of patience.
"""
import socket
import sys
import threading

answer = b"-ERR not today\r\n"


def commands(data):
    """How many RESP commands are whole in data, and what is left of it."""
    n = 0
    while data.startswith(b"*"):
        head, sep, rest = data.partition(b"\r\n")
        if not sep:
            break
        for _ in range(int(head[1:])):
            size, sep, rest = rest.partition(b"\r\n")
            want = int(size[1:]) + 2 if sep else 0
            if not sep or len(rest) < want:
                return n, data
            rest = rest[want:]
        n, data = n + 1, rest
    return n, data


def serve(sock):
    data = b""
    try:
        while True:
            more = sock.recv(65536)
            if not more:
                return
            n, data = commands(data + more)
            for _ in range(n):
                if answer.startswith(b"!flood"):
                    size = int(answer.split()[1])
                    sock.sendall(b"$%d\r\n" % size)
                    while size > 0:
                        sock.sendall(b"x" * 65536)
                        size -= 65536
                else:
                    sock.sendall(answer)
    except OSError:
        pass
    finally:
        sock.close()


def accept(listener):
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


def main():
    global answer
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    for line in sys.stdin:
        answer = line.rstrip("\n").encode().decode("unicode_escape").encode(
            "latin-1")
        print("ok", flush=True)


main()
