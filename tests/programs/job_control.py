#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# job_control.py CMD...: run it as a job of a shell on a terminal of its own: in the
# background, where its first line of input stops it; in the foreground; stopped by
# ^Z, and in the foreground again.  It is to say "one ..." and "two ..." after its
# lines of input, then to wait for ^C.  Prints what it writes, and what the shell
# sees of it.
import os
import pty
import signal
import sys


def shell(report):
    """The session's leader: the jobs of bash(1), no more."""
    me = os.getpgrp()
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(sys.argv[1], sys.argv[1:])
    while True:
        status = os.waitpid(job, os.WUNTRACED)[1]
        os.tcsetpgrp(0, me)
        if not os.WIFSTOPPED(status):
            break
        os.write(report, b"stopped by %d\n" % os.WSTOPSIG(status))
        os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)
    code = os.waitstatus_to_exitcode(status)
    os.write(report, b"ended %d\n" % (code if code >= 0 else 128 - code))


seen, told = os.pipe()
pid, fd = pty.fork()
if pid == 0:
    shell(told)
    os._exit(0)
os.close(told)


def line(source):
    out = b""
    while not out.endswith(b"\n"):
        out += os.read(source, 1)
    return out.decode().strip()


def job_says(word):
    """(Between its lines are what was typed, and messages.)"""
    out = line(fd)
    while not out.startswith(word):
        out = line(fd)
    print(out)


def shell_says():
    print(line(seen))


shell_says()
os.write(fd, b"1\n")
job_says("one")
os.write(fd, b"\x1a")
shell_says()
os.write(fd, b"2\n")
job_says("two")
os.write(fd, b"\x03")
shell_says()
