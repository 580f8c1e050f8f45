#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# at_terminal.py CMD...: run it in the foreground of a terminal of its own.  For each
# line of standard input ^C is typed there.  When it has ended, or standard input
# has, which kills it: "wrote ..." for each line on the terminal, and "ended N".
import os
import pty
import select
import signal
import sys

pid, fd = pty.fork()
if pid == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
wrote = b""
sources = [0, fd]
while fd in sources:
    for ready in select.select(sources, [], [])[0]:
        try:
            data = os.read(ready, 4096)
        except OSError:
            data = b""
        if ready == fd:
            wrote += data
        elif data:
            os.write(fd, b"\x03" * data.count(b"\n"))
        else:
            os.kill(pid, signal.SIGKILL)
        if not data:
            sources.remove(ready)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
for line in wrote.decode(errors="replace").splitlines():
    print("wrote", line)
print("ended", code if code >= 0 else 128 - code, flush=True)
