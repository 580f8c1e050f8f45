#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A server that speaks TLS and then misbehaves, before a Redis.

	tlsflood.py CERTIFICATE KEY HOST:PORT

Prints the port it listens on.  What comes is passed on, both ways, until a
command on standard input, which is answered by "ok":

	flood		each connection is sent bytes for ever, whatever its client
			says or however it ends; one is already
	reset		each connection is sent bytes until no more are taken, and
			is then reset; one was already
"""
import select
import socket
import ssl
import struct
import sys
import threading

RUBBISH = b"+rubbish\r\n" * 400000
TAKEN_NO_MORE = 0.5  # seconds
mode = "pass"
done = threading.Semaphore(0)


def relay(tls, plain):
    while mode == "pass":
        ready = [tls] if tls.pending() else select.select([tls, plain], [], [],
                                                          0.05)[0]
        for side in ready:
            data = side.recv(16384)
            if not data:
                return False
            (plain if side is tls else tls).sendall(data)
    return True


def misbehave(tls):
    if mode == "reset":
        tls.settimeout(TAKEN_NO_MORE)
    try:
        while True:
            tls.sendall(RUBBISH)
            if mode == "flood":
                done.release()
    except OSError:
        pass
    if mode == "reset":
        tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                       struct.pack("ii", 1, 0))
    tls.close()
    done.release()


def serve(sock, context, target):
    try:
        tls = context.wrap_socket(sock, server_side=True)
        with socket.create_connection(target) as plain:
            if not relay(tls, plain):
                tls.close()
                return
    except OSError:
        return
    misbehave(tls)


def accept(listener, context, target):
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock, context, target),
                         daemon=True).start()


def main():
    global mode
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    host, port = sys.argv[3].rsplit(":", 1)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    threading.Thread(target=accept, args=(listener, context,
                                          (host, int(port))),
                     daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    for line in sys.stdin:
        mode = line.strip()
        done.acquire()
        print("ok", flush=True)


main()
