#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# on_a_terminal.py COLUMNS CMD...: run it on a terminal so wide, and print what
# it writes there.
import fcntl
import os
import pty
import struct
import sys
import termios

pid, fd = pty.fork()
if pid == 0:
    size = struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0)
    fcntl.ioctl(1, termios.TIOCSWINSZ, size)
    os.execvp(sys.argv[2], sys.argv[2:])
out = b""
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:  # EIO: it has ended
        break
    if not part:
        break
    out += part
sys.stdout.buffer.write(out.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
