# SPDX-License-Identifier: MIT
"""A program that does as it is told: Python, a line on standard input each,
and its value, or the name of the errno, a line on standard output.  It has
these words:

    lock(NAME)      opens NAME, and locks it by flock(2): the descriptor
    locks(N, NAME, S, FROM=0)  locks NAMEFROM to NAMEN - 1 by flock(2), for S
                    seconds at most: how many there are then
    ofd(FD, START)  locks that byte of it, for writing, by F_OFD_SETLK
    free(FD, START) unlocks it
    stop(PID)       SIGSTOP
    took(F, A...)   F(A...), and how many ms it took
    child()         a child that waits for death; its pid
    sleep(S)
"""
import ctypes
import errno
import fcntl
import os
import signal
import struct
import sys
import time

sleep = time.sleep
libc = ctypes.CDLL(None, use_errno=True)


def lock(name, how=fcntl.LOCK_EX | fcntl.LOCK_NB):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(fd, how)
    return fd


def locks(n, name, seconds, done=0):
    end = time.monotonic() + seconds
    while done < n and time.monotonic() < end:
        lock("%s%d" % (name, done))
        done += 1
    return done


def ofd(fd, start, kind=fcntl.F_WRLCK):
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK,
                struct.pack("hhqqi4x", kind, os.SEEK_SET, start, 1, 0))
    return 0


def free(fd, start):
    return ofd(fd, start, fcntl.F_UNLCK)


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    return 0


def took(function, *args):
    began = time.monotonic()
    function(*args)
    return int((time.monotonic() - began) * 1000)


def child():
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(1000)
    return pid


for line in sys.stdin:
    try:
        value = eval(line)
    except OSError as e:
        value = errno.errorcode[e.errno]
    print(value, flush=True)
