#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A FUSE mount without allow_other answers fstat(2) and statx(2) with EACCES to
# a daemon that has given up the user it opened its files as; locks need no
# answer, so they go on to work, bare and under dlock.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
cat >"$RIG/daemon.py" <<'END'
import errno, fcntl, os, sys

def told(what, fn, *args):
    try:
        fn(*args)
        print(what, 0)
    except OSError as e:
        print(what, errno.errorcode[e.errno])

fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.setresuid(65534, 65534, 65534)
told('fstat', os.fstat, fd)
told('flock', fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
told('convert', fcntl.flock, fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
told('unlock', fcntl.flock, fd, fcntl.LOCK_UN)
told('fcntl', fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
told('fcntl', fcntl.lockf, fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 2, 6)
told('unlock', fcntl.lockf, fd, fcntl.LOCK_UN)
END
share_at A "$MNT/own" --no-allow-other
on A python3 "$RIG/daemon.py" own/f >"$RIG/on"
dl A python3 "$RIG/daemon.py" own/f >"$RIG/dl" 2>"$RIG/err"
is "$(head -n 1 "$RIG/on")" 'fstat EACCES' 'fstat fails (control)'
ok 'bare, every lock succeeds (control)' \
	test "$(grep -c ' 0$' "$RIG/on")" = 6
is "$(cat "$RIG/dl" "$RIG/err")" "$(cat "$RIG/on")" 'the same under dlock'
rig_end
