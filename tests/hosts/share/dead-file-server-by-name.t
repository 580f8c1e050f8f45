#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 150
#
# A file server is dead, and a server's name is asked for, or a keeper is to be
# started: by a child, which has copies of descriptors, and whose close of one of them
# is told to that file server (FUSE_FLUSH), and waits for it.  Nobody waits for that
# child (os/spawn.c): the leases of files there, and of others, are renewed.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=4s connect_timeout=600ms url="redis://the-server.example:$PORT/0"
printf '#!/bin/sh\necho "127.0.0.1 STREAM the-server.example"\n' >"$RIG/getent"
chmod +x "$RIG/getent"
mkdir "$RIG/far" "$RIG/locks"
for h in A B; do
	on $h mount --bind "$RIG/getent" /usr/bin/getent
	on $h mkdir far
done
on A "$BIN/lockfs" "$RIG/far" "$MNT/far" flush "$RIG/locks" ||
	rig_die 'no lockfs'
server=$(on A pgrep -x lockfs)

# It has a file of the file server's as descriptors 1 and 3, and two others; what it
# says goes by what was its standard output.
cat >"$RIG/guest.py" <<'END'
import fcntl, os, sys
out = os.fdopen(fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 50), "w")
fd = os.open("far/f", os.O_RDWR | os.O_CREAT)
if fd != 3:
    os.dup2(fd, 3)
os.dup2(3, 1)
os.dup(3)
def lock(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    os.set_inheritable(fd, True)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return 0
def becomes():
    print("becomes", file=out, flush=True)
    del os.environ["LD_PRELOAD"]
    os.dup2(2, 1)
    os.execvp("sleep", ["sleep", "1000"])
def forks():
    if os.fork() == 0:
        os.kill(os.getpid(), 9) # which waits for the file server, bare as well
    return "forked"
print(os.getpid(), file=out, flush=True)
for line in sys.stdin:
    print(eval(line), file=out, flush=True)
END

# guest: $guest is its pid
guest()
{
	peer p dl A /usr/bin/python3 "$RIG/guest.py"
	hear p
	guest=$HEARD
}

# away: the file server, and then Redis closes all connections
away()
{
	on A kill -STOP "$server"
	rr client kill type normal >/dev/null
}

back()
{
	on A kill -KILL "$guest" 2>/dev/null
	on A kill -CONT "$server"
	peer_end p
	ok "$1: the file server is back: no lease is left" \
		until_true 20 db_is_empty
}

lives()
{
	[[ $(on A cat "/proc/$guest/stat" 2>/dev/null) == *') '[RSD]' '* ]]
}

# On this host it is held, and by the lease on the other one; or nobody has it.
is_held()
{
	lives && [ "$(rr exists "dlock:$MNT/$1")" = 1 ]
}

# --- the keeper asks ---
guest
ask p 'lock("far/f")'
ask p 'lock("near")'
is "$RESULT" 0 'a file of the file server is locked, and one of a disk'
ask p 'becomes()'
is "$HEARD" becomes 'it becomes another program'
ok 'its keeper has a standby' until_true 10 have_standbys A 1
are_held()
{
	is_held far/f && is_held near
}
ok 'it holds both' are_held
away
ok 'the file server is dead, and Redis has closed all connections: none is lost' \
	throughout 9000 100 are_held
locker b dl B
ask b 'open x far/f'
ask b 'lock x EX NB'
is "$RESULT" EAGAIN 'another host is refused'
peer_end b
on A pkill -KILL -x dlock-keeper
ok 'its keeper is killed: none is lost' throughout 6000 100 are_held
back 'its keeper'

# --- the guest asks ---
guest
ask p 'lock("near")'
is "$RESULT" 0 'a file of a disk is locked'
is_near()
{
	is_held near
}
ok '... and its keeper has a standby' until_true 10 have_standbys A 1
away
ok 'the file server is dead, and Redis has closed all connections: it lives' \
	throughout 9000 100 is_near
ask p 'lock("second")' 10
is "$RESULT" 0 '... and locks another one'
back 'its own thread'

# --- a keeper is to be started ---
rig_configs ttl=4s connect_timeout=600ms
guest
on A kill -STOP "$server"
say p 'lock("near")'
hear p 5
is "$RESULT" 0 'the file server is dead: a file of a disk is locked'
ask p 'forks()' 15
is "$HEARD" forked '... and it forks, though it can have no keeper'
ok '... and who lists all processes is not held up by those' \
	on A timeout 20 sh -c 'ps -A -o args >/dev/null'
ok '... and it lives on' throughout 6000 100 is_near
back 'without a keeper'
rig_end
