#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# The kernel shows "/" as the path of what it cannot name: a file opened by its
# handle whose directory nobody has looked up (open_by_handle_at(2)), and one that
# was moved out of the tree that is mounted.  No rule can be known for it.  So its
# locks fail where it may be a managed one, and a line says so (L8); elsewhere they
# are as bare.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
cat >"$RIG/locks.py" <<'END'
import ctypes, errno, fcntl, os, sys

libc = ctypes.CDLL(None, use_errno=True)

class Handle(ctypes.Structure):
    _fields_ = [('size', ctypes.c_uint), ('type', ctypes.c_int),
                ('bytes', ctypes.c_ubyte * 128)]

def told(what, fn, *args):
    try:
        fn(*args)
        return what + ' 0'
    except OSError as e:
        return what + ' ' + errno.errorcode[e.errno]

def locks(fd):
    print(os.readlink('/proc/self/fd/%d' % fd),
          told('flock', fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
          told('fcntl', fcntl.lockf, fd, fcntl.LOCK_SH | fcntl.LOCK_NB),
          told('unlock', fcntl.flock, fd, fcntl.LOCK_UN),
          told('unlock', fcntl.lockf, fd, fcntl.LOCK_UN), flush=True)

def both(how):
    return ' '.join((told('flock', fcntl.flock, fd, how),
                     told('fcntl', fcntl.lockf, fd, how, 10)))

how, name, kept = sys.argv[1], os.fsencode(sys.argv[2]), sys.argv[3]
if how == 'save':
    handle, mount = Handle(size=128), ctypes.c_int()
    assert libc.name_to_handle_at(-100, name, ctypes.byref(handle),
                                  ctypes.byref(mount), 0) == 0
    open(kept, 'wb').write(bytes(handle))
elif how == 'handle':
    handle = Handle.from_buffer_copy(open(kept, 'rb').read())
    fd = libc.open_by_handle_at(os.open(name, os.O_RDONLY),
                                ctypes.byref(handle), os.O_RDWR)
    assert fd >= 0, errno.errorcode[ctypes.get_errno()]
    locks(fd)
elif how == 'hold':
    fd = os.open(name, os.O_RDWR)
    print(both(fcntl.LOCK_EX | fcntl.LOCK_NB), flush=True)
    for line in sys.stdin:
        print(both(fcntl.LOCK_UN), flush=True)
else:
    fd = os.open(name, os.O_RDONLY)
    print('open', flush=True)
    sys.stdin.readline()
    locks(fd)
END
AS_BARE='flock 0 fcntl 0 unlock 0 unlock 0'
REFUSED='flock ENOLCK fcntl ENOLCK unlock 0 unlock 0'

# by_handle HOW POINT: what a program is told of the file that has its handle in
# $RIG/handle, with nothing of the disk in the kernel's memory
by_handle()
{
	on A umount "$2" 2>/dev/null
	on A mount -o loop "$RIG/img" "$2" || rig_die "no disk at $2"
	"$1" A python3 "$RIG/locks.py" handle "$2" "$RIG/handle" 2>"$RIG/err"
}

# says_why NAME: the last program's lines do, of each lock
says_why()
{
	is "$(grep 'ENOLCK: the path of descriptor [3-9] (inode [1-9]' "$RIG/err" |
		grep -c 'opened by its handle .* open it by its path$')" 2 \
		"$1: a line says why"
}

# --- by a handle -----------------------------------------------------------------

# disk NAME POINT PATH LOCKS...: by a handle of a file there
disk()
{
	is "$(by_handle on "$2")" "/ $AS_BARE" "$1: bare (control)"
	is "$(by_handle dl "$2")" "$3 $4" "$1: under dlock"
}

truncate -s 4M "$RIG/img"
mkfs.ext4 -q -O ^has_journal "$RIG/img"
on A mkdir disk "$RIG/apart"
if on A mount -o loop "$RIG/img" disk; then
	on A touch disk/f
	on A python3 "$RIG/locks.py" save disk/f "$RIG/handle"

	disk 'a disk below the prefix' "$MNT/disk" / "$REFUSED"
	says_why 'a disk below the prefix'
	on A umount disk
	rig_config A prefix="$MNT/disk/"
	disk 'a disk at the prefix' "$MNT/disk" / "$REFUSED"
	says_why 'a disk at the prefix'
	on A umount disk

	rig_config A prefix=/
	disk 'all is managed' "$RIG/apart" / "$REFUSED"
	says_why 'all is managed'
	rig_config A
	disk 'no managed disk' "$RIG/apart" / "$AS_BARE"
	is "$(cat "$RIG/err")" '' 'no managed disk: not a word'

	# Its name is known as soon as somebody has looked it up.
	on A mount --bind "$RIG/apart" disk
	on A cat disk/f
	calls=$(scripts_called)
	is "$(dl A python3 "$RIG/locks.py" handle disk "$RIG/handle")" \
		"$MNT/disk/f $AS_BARE" 'with its name known: locked'
	at_least "$(scripts_called)" $((calls + 2)) '... and at Redis'
else
	skip 'files that are opened by their handles' 'no loop device here'
fi

# --- moved out of what is mounted ------------------------------------------------

# opens HOW WHAT NAME: a program begins that does WHAT with NAME, opened below a bind
# mount
opens()
{
	on A rm -rf tree/sub tree/x
	on A mkdir -p tree/sub/x there
	on A touch tree/sub/x/f
	on A mount --bind tree/sub there
	peer moved "$1" A python3 "$RIG/locks.py" "$2" "there/x/$3" -
	hear moved
}

# moved HOW NAME: what it is told of NAME, which is moved out of the mount
moved()
{
	opens "$1" open "$2"
	on A mv tree/sub/x tree/x
	ask moved go
	cp "$RIG/moved.err" "$RIG/err"
	peer_end moved
	on A umount there
}

for name in f ''; do
	moved on "$name"
	is "$HEARD" "/ $AS_BARE" "moved away, \"$name\": bare (control)"
	moved dl "$name"
	is "$HEARD" "/ $REFUSED" "moved away, \"$name\": under dlock"
	says_why "moved away, \"$name\""
done

# What was locked before can be unlocked, at Redis as well, and at once: no tick
# of the thread's looks for it so soon.
rig_config A ttl=60s
opens dl hold f
is "$HEARD" 'flock 0 fcntl 0' 'locked by its path'
is "$(keys_left | grep -c "^dlock:$MNT/there/x/f")" 2 '... at Redis, both'
on A mv tree/sub/x tree/x
ask moved go
is "$HEARD" 'flock 0 fcntl 0' '... and moved away: unlocked'
is "$(cat "$RIG/moved.err")" '' '... without a word'
rig_empty 5 '... at Redis, too'
peer_end moved
on A umount there

# --- and the one that has this path ----------------------------------------------

rig_config A prefix=/
# shellcheck disable=SC2016 # its own
dl A sh -c 'exec 9</ && flock -n 9 && redis-cli -s "$0" exists dlock:/' \
	"$RIG/redis.sock" >"$RIG/root" 2>"$RIG/err"
is "$(cat "$RIG/root" "$RIG/err")" 1 'the root directory is locked by its path'
rig_end
