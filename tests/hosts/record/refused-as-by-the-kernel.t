#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# After a refusal the next call asks Redis before it asks the kernel (lock/tentative.c).
# It is refused as the kernel would all the same: a descriptor that is not open for
# such a lock is EBADF, whoever holds what (fcntl(2)).
. "${0%/*}/../../lib/rig.sh"

rig_start disks
cat >"$RIG/tries" <<'END'
import errno, fcntl, os, struct, sys
def attempt(fd, kind, cmd):
    try:
        fcntl.fcntl(fd, cmd, struct.pack("hhqqi4x", kind, 0, 0, 10, 0))
        return "0"
    except OSError as e:
        return errno.errorcode[e.errno]
both, reads, writes = [os.open("f", flags)
                       for flags in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY)]
for cmd in (fcntl.F_SETLK, 37):
    print(*[attempt(fd, kind, cmd) for fd, kind in (
        (both, fcntl.F_WRLCK), (reads, fcntl.F_WRLCK), (writes, fcntl.F_RDLCK),
        (reads, fcntl.F_RDLCK), (writes, fcntl.F_WRLCK))])
END

proxy p
# (As slow as a server far away: what was refused just now is remembered for as long.)
rig_configs ttl=30s url="redis://127.0.0.1:$PROXY/0"
ask p 'delay 20'
for host in A B; do
	locker h dl "$host"
	ask h 'open f f'
	ask h 'range f F_WRLCK 0 10'
	is "$RESULT" 0 "$host has the bytes"
	[ "$host" = B ] || BARE=$(on A /usr/bin/python3 "$RIG/tries")
	is "$(dl A /usr/bin/python3 "$RIG/tries")" "$BARE" \
		"A is refused as the bare kernel refuses: ${BARE//$'\n'/, }"
	peer_end h
done
is "${BARE%%$'\n'*}" 'EAGAIN EBADF EBADF EAGAIN EAGAIN' 'which is so (control)'
rig_end
