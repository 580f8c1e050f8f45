#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A file server is late.
#
# A program becomes another one, and its descriptor is closed by that.  Its lock ends
# then, as bare, though the file server is late to open the file for its keeper, which
# has been lent the program's descriptor just before: a keeper has that for no longer
# than the program.
#
# While the server is waited for, before a lock call or after an unlock's beginning
# (DESIGN L10), the lease is renewed for longer than its ttl: nobody is killed for a
# stall of the share.  Where Redis was away meanwhile as well, what it grants others
# is granted to nobody here.  A close(2) by another thread, of what has no record lock,
# does not wait for that server.
. "${0%/*}/../../lib/rig.sh"

rig_start share
rig_configs
mkdir "$RIG/late"
on A mkdir "$RIG/mnt.late"
on A "$BIN/lockfs" "$RIG/late" "$RIG/mnt.late" late "$RIG" || rig_die 'no lockfs'
sed -i "s|^path .*|path \"$RIG/mnt.late/\" {|" "$RIG/A.conf"
cat >"$RIG/becomes.py" <<'END'
import fcntl, os, struct, sys
name, kind = sys.argv[1:]
fd = os.open(name, os.O_RDWR | os.O_CREAT)  # closed by an execve(2)
if kind == "flock":
    fcntl.flock(fd, fcntl.LOCK_EX)
else:
    F_OFD_SETLK = 37
    fcntl.fcntl(fd, F_OFD_SETLK,
                struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
del os.environ["LD_PRELOAD"]
os.execvp("python3", ["python3", __file__.replace("becomes", "tries"), name, kind])
END
cat >"$RIG/tries.py" <<'END'
import fcntl, os, struct, sys
name, kind = sys.argv[1:]
fd = os.open(name, os.O_RDWR)
try:
    if kind == "flock":
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("it has ended")
except OSError:
    print("it is there")
END
for kind in flock OFD; do
	is "$(dl A python3 "$RIG/becomes.py" "$RIG/mnt.late/$kind" $kind)" \
		'it has ended' "$kind: as the program becomes another one"
	ok "$kind: and so does its lease" until_true 5 db_is_empty
done

# --- longer than a lease ---

rig_configs ttl=3s
server=$(pids_of A -x bindfs)
cat >"$RIG/stalls.py" <<'END'
import fcntl, mmap, os, signal, sys
name, what, server = sys.argv[1], sys.argv[2], int(sys.argv[3])
fd = os.open(name, os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4096)
page = mmap.mmap(fd, 4096)
page[0] = 1
if what == "convert":
    fcntl.flock(fd, fcntl.LOCK_EX)
else:
    fcntl.lockf(fd, fcntl.LOCK_EX)
page[0] = 2
os.kill(server, signal.SIGSTOP)
print("begins", flush=True)
if what == "convert":
    fcntl.flock(fd, fcntl.LOCK_SH)
elif what == "weaken":
    fcntl.lockf(fd, fcntl.LOCK_SH)
elif what == "unlock":
    fcntl.lockf(fd, fcntl.LOCK_UN)
else:
    os.close(fd)
print("is over", flush=True)
sys.stdin.readline()
END

# waits_still NAME: for the server
waits_still()
{
	kill -0 "${PEER_PID[$1]}" 2>/dev/null && ! hear "$1" 0.01
}

granted_to_q()
{
	ask q "$lock"
	[ "$RESULT" = 0 ]
}

is_leased()
{
	[ -n "$(keys_left)" ]
}

locker p dl A
for kind in flock POSIX OFD; do
	ask p "open a $MNT/$kind"
	kill -STOP "$server"
	case $kind in
	flock) say p 'lock a EX NB' ;;
	POSIX) say p 'range a F_WRLCK 0 10' ;;
	OFD) say p 'range a F_WRLCK 0 10 OFD' ;;
	esac
	ok "$kind: granted, and the server is away" until_true 5 is_leased
	ok "$kind: longer than the lease: nobody is killed" \
		throughout 4000 50 waits_still p
	kill -CONT "$server"
	hear p
	is "$RESULT" 0 "$kind: the server is back: locked"
	ask p 'close a'
	ok "$kind: closed: no lease is left" until_true 5 db_is_empty
done
say p 'exit 0'

on_a=$(on A pgrep -x bindfs)
for what in convert weaken unlock close; do
	peer q dl A /usr/bin/python3 "$RIG/stalls.py" "$MNT/$what" "$what" "$on_a"
	hear q
	is "$HEARD" begins "$what: what was written is to be written back"
	ok "$what: longer than the lease: nobody is killed" \
		throughout 4000 50 waits_still q
	kill -CONT "$server"
	hear q
	is "$HEARD" 'is over' "$what: the server is back: done"
	peer_end q
	ok "$what: no lease is left" until_true 5 db_is_empty
done

# Pipes are closed until all that a lock of our own could be shared with the file's
# were (hold/file_lock.c).
rig_configs ttl=20s
cat >"$RIG/closes.py" <<'END'
import fcntl, os, sys, threading
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
print("open", flush=True)
sys.stdin.readline()
thread = threading.Thread(target=fcntl.lockf, args=(fd, fcntl.LOCK_EX))
thread.start()
sys.stdin.readline()
places = set()
while len(places) < 64:
    ends = os.pipe()
    places.add(os.fstat(ends[0]).st_ino % 64)
    for end in ends:
        os.close(end)
print("closed", flush=True)
thread.join()
print("locked", flush=True)
sys.stdin.readline()
END
peer c dl A /usr/bin/python3 "$RIG/closes.py" "$MNT/closes"
hear c
kill -STOP "$server"
say c go
ok 'a thread is granted a lock, and the server is away' until_true 5 is_leased
ask c go
is "$HEARD" closed 'another thread closes pipes'
kill -CONT "$server"
hear c
is "$HEARD" locked 'the server is back: locked'
peer_end c
ok 'no lease is left' until_true 5 db_is_empty

# Redis is away as well.
rig_configs ttl=3s path_more='on_lost = "report"'
for kind in flock POSIX; do
	locker p dl A
	locker q dl B
	ask p "open a $MNT/$kind"
	ask q "open a $MNT/$kind"
	lock='range a F_WRLCK 0 10'
	[ "$kind" = POSIX ] || lock='lock a EX NB'
	kill -STOP "$server"
	say p "$lock"
	ok "$kind: granted, and the server is away" until_true 5 is_leased
	kill -STOP "$REDIS_PID"
	ok "$kind: so is Redis, for longer than the lease" \
		throughout 4000 50 waits_still p
	kill -CONT "$REDIS_PID"
	ok "$kind: another host is granted it" until_true 5 granted_to_q
	kill -CONT "$server"
	hear p
	ok "$kind: so it is not granted here ($RESULT)" [ "$RESULT" != 0 ]
	say p 'exit 0'
	say q 'exit 0'
done
rig_end
