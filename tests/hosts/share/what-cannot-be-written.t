#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# The disk of the file server is full, and the kernel keeps what was written in its
# pages.  Before a lock ends they are written back for the next owner (DESIGN L10): that
# this fails is still the program's to be told, as bare, by fsync(2) after the unlock
# and by close(2) and fclose(3) of a file that is locked.  There is a line as well.
# Linux before 6.5 does not say whether pages are dirty (cachestat(2)).
. "${0%/*}/../../lib/rig.sh"

rig_start share
rig_configs
mkdir "$RIG/full"
on A mkdir "$RIG/mnt.full"
on A "$BIN/lockfs" "$RIG/full" "$RIG/mnt.full" full "$RIG" || rig_die 'no lockfs'
sed -i "s|^path .*|path \"$RIG/mnt.full/\" {|" "$RIG/A.conf"
cat >"$RIG/writes.py" <<'END'
import ctypes, errno, fcntl, os, struct, sys
name, kind, end = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(name, os.O_RDWR | os.O_CREAT)

def lock(how):
    if kind == "flock":
        fcntl.flock(fd, fcntl.LOCK_EX if how == fcntl.F_WRLCK else fcntl.LOCK_UN)
    else:
        F_OFD_SETLK = 37
        fcntl.fcntl(fd, F_OFD_SETLK if kind == "OFD" else fcntl.F_SETLK,
                    struct.pack("hhqqi4x", how, os.SEEK_SET, 0, 0, 0))

def said(r):
    print(end, errno.errorcode[ctypes.get_errno()] if r else 0)

if end == "newpid":
    libc.unshare(0x20000000)  # CLONE_NEWPID
lock(fcntl.F_WRLCK)
os.write(fd, b"x" * 20000)
if end == "fsync":
    lock(fcntl.F_UNLCK)
    said(libc.fsync(fd))
elif end == "newpid":
    lock(fcntl.F_UNLCK)
    if os.fork() == 0:
        print(end, os.getpid(), flush=True)
        os._exit(0)
    os.wait()
elif end == "close":
    said(libc.close(fd))
elif end == "syscall":
    said(libc.syscall(3, fd))
else:
    libc.fdopen.restype = ctypes.c_void_p
    said(libc.fclose(ctypes.c_void_p(libc.fdopen(fd, b"r+"))))
END
# writes HOW KIND END [COMMAND...]: by it
writes()
{
	local how=$1 kind=$2 end=$3

	shift 3
	rm -f "$RIG/full/f"
	"$how" A "$@" python3 "$RIG/writes.py" "$RIG/mnt.full/f" "$kind" "$end" \
		2>>"$RIG/said"
}

for kind in flock fcntl OFD; do
	for end in fsync close syscall fclose; do
		bare=$(writes on $kind $end)
		is "$bare" "$end ENOSPC" "$kind, $end: bare, it fails"
		is "$(writes dl $kind $end)" "$bare" "$kind, $end: so it does under dlock"
		is "$(writes dl $kind $end "$BIN/refused" cachestat)" "$bare" \
			"$kind, $end: and on an older kernel"
	done
done
for kind in flock fcntl OFD; do
	is "$(writes on $kind newpid) $(writes dl $kind newpid)" \
		'newpid 1 newpid 1' \
		"$kind: the first child of a new PID namespace is the program's"
done

# Without cachestat(2) a look ends somewhere; what lies behind it may be dirty.
cat >"$RIG/far.py" <<'END'
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
os.pwrite(fd, b"x" * 20000, 300 << 20)
fcntl.flock(fd, fcntl.LOCK_UN)
END
rm -f "$RIG/full/f" "$RIG/said.far"
dl A "$BIN/refused" cachestat python3 "$RIG/far.py" "$RIG/mnt.full/f" 2>"$RIG/said.far"
like "$(<"$RIG/said.far")" 'could not be written back' \
	'what is written far behind is written back as well'
like "$(<"$RIG/said")" 'mnt.full/f: what was written under its lock could not be written back: No space left on device' \
	'each has its line'
rig_end
