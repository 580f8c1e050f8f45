#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A TCP proxy that misbehaves on demand.

	tcpproxy.py HOST:PORT

Prints the port it listens on.  Then a command a line on standard input, each
answered by "ok":

	pass		forward both ways
	hang		accept, take the request, forward nothing
	hold		accept, take nothing: what is sent arrives when that ends,
			as from a network that was cut, or a server that stood
	close		close every connection, old and new
	reset		the same, with RST
	refuse		no listening socket: connection refused
	delay MS	each piece of a reply is held back that long
	slow TEXT MS	a request that holds TEXT is forwarded that much later
	cut N		close after N bytes of replies per connection
	drop		requests are forwarded, replies are not
	lose TEXT	the first request that holds TEXT is forwarded; its reply
			is not, and the connection is closed; then as `pass`
	take TEXT	the first request that holds TEXT is not forwarded, and the
			connection is closed; then as `pass`
	strand TEXT	the first request that holds TEXT is forwarded; then as
			`hang`
	change OLD NEW	in replies, each OLD is NEW, which is as long
	forget		(no mode) the server's side of each connection that has
			sent SUBSCRIBE is closed, and its client never hears of
			it: as if what is between had forgotten the connection
	lost		answers how many replies `lose` has taken so far
	target HOST:PORT	where new connections go; the old ones are closed

A mode holds for connections already open, too.
"""
import select
import socket
import struct
import sys
import threading
import time


class Proxy:
    def __init__(self, target):
        self.aim(target)
        self.mode, self.arg = "pass", ""
        self.lost = 0
        self.forgets = 0
        self.pairs = set()
        self.mutex = threading.Lock()
        self.listener = None
        self.port = 0
        self.listen()

    def aim(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))

    def listen(self):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", self.port))
        s.listen(256)
        self.port = s.getsockname()[1]
        self.listener = s
        threading.Thread(target=self.accept, args=(s,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,),
                             daemon=True).start()

    @staticmethod
    def end(sock, reset):
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            struct.pack("ii", 1, 0))
        try:
            if not reset:
                sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        sock.close()

    def serve(self, client):
        if self.mode in ("close", "reset"):
            self.end(client, self.mode == "reset")
            return
        try:
            server = socket.create_connection(self.target, 2)
        except OSError:
            self.end(client, False)
            return
        for s in (client, server):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = (client, server)
        with self.mutex:
            self.pairs.add(pair)
        try:
            self.pump(client, server)
        except OSError:
            pass
        with self.mutex:
            self.pairs.discard(pair)
        self.end(client, False)
        self.end(server, False)

    def pump(self, client, server):
        replied, losing = 0, False
        listens, forgets = False, self.forgets
        while True:
            if listens and self.forgets != forgets:
                server.shutdown(socket.SHUT_RDWR)
                while client.recv(65536):
                    pass
                return
            ready, _, _ = select.select([client, server], [], [], 0.05)
            if self.mode == "hold":
                time.sleep(0.005)
                continue
            if self.mode in ("close", "reset"):
                self.end(client, self.mode == "reset")
                return
            if client in ready:
                data = client.recv(65536)
                if not data:
                    # (Who waits no more loses its reply as well.)
                    self.lost += losing
                    return
                listens = listens or b"SUBSCRIBE" in data
                mode = self.mode
                if mode == "take" and self.arg.encode() in data:
                    self.mode = "pass"
                    return
                if mode in ("lose", "strand") and self.arg.encode() in data:
                    losing = mode == "lose"
                    self.mode = "pass" if losing else "hang"
                if mode == "slow":
                    text, late = self.arg.rsplit(" ", 1)
                    if text.encode() in data:
                        time.sleep(int(late) / 1000)
                if mode != "hang":
                    server.sendall(data)
            if server in ready:
                data = server.recv(65536)
                if not data:
                    return
                if losing:
                    self.lost += 1
                    return
                if self.mode in ("drop", "hang"):
                    continue
                if self.mode == "change":
                    old, new = self.arg.encode().split()
                    data = data.replace(old, new)
                if self.mode == "delay":
                    time.sleep(int(self.arg) / 1000)
                if self.mode == "cut":
                    left = int(self.arg) - replied
                    client.sendall(data[:left])
                    if len(data) >= left:
                        return
                else:
                    client.sendall(data)
                replied += len(data)

    def command(self, mode, arg):
        if mode == "lost":
            return str(self.lost)
        if mode == "forget":
            self.forgets += 1
            return "ok"
        if mode == "target":
            self.aim(arg)
            with self.mutex:
                old = list(self.pairs)
            for client, server in old:
                for s in (client, server):
                    try:
                        s.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass
            return "ok"
        if mode == "refuse" and self.listener:
            # accept(2) keeps the socket until it is shut down.
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
            self.mode = "close"
            return "ok"
        if mode not in ("pass", "hang", "hold", "close", "reset", "delay",
                        "slow", "cut", "drop", "lose", "strand", "take",
                        "change"):
            return "what?"
        self.arg = arg
        self.mode = mode
        if not self.listener:
            self.listen()
        return "ok"


def main():
    proxy = Proxy(sys.argv[1])
    print(proxy.port, flush=True)
    for line in sys.stdin:
        mode, _, arg = line.strip().partition(" ")
        print(proxy.command(mode, arg), flush=True)


main()
