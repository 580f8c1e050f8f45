#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A keeper that is asked for a sharer's shadow is sent the asker's descriptor, and closes
# it by a thread, which may get no core for long.  A lock whose last descriptor the asker
# closes by then has ended all the same (shim/DESIGN.md 6.8).  And so it is with the
# descriptor that it was told of the lock by.  (That close is held up by strace(1), for
# less than half of the second in which it is waited for.)
. "${0%/*}/../../lib/rig.sh"

rig_start share
rig_config A ttl=10s path_more='local = "shadow"'
echo "state_dir = \"$RIG/state\"" >>"$RIG/A.conf"
mkdir "$RIG/state"
on A touch f

cat >"$RIG/asks.py" <<'END'
import fcntl, glob, os, sys, time
def two_listen(state):
    return len(glob.glob(state + "/*/*.*")) >= 2
def lock(state):
    global fd
    fd = os.open("f", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_SH)
    while not two_listen(state):
        time.sleep(0.005)
    return "told"
def again():
    os.close(fd)
    try:
        fcntl.flock(os.open("f", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "refused"
    return "locked"
# From here on its descriptors may be others' as well.
if os.fork() == 0:
    os._exit(0)
os.wait()
print("ready", flush=True)
for line in sys.stdin:
    print(eval(line), flush=True)
END

# hold_up MS: the keeper's closes of that file
hold_up()
{
	: >"$RIG/strace"
	chrt -r 5 strace -f -qq -o "$RIG/strace" -P "$MNT/f" -e trace=close \
		-e inject=close:delay_enter=$(($1 * 1000)) -p "$keeper" \
		2>"$RIG/strace.err" &
	strace=$!
	ok "its closes of that file are held up for $1 ms" until_true 10 \
		grep -q 'TracerPid:[^0-9]*[1-9]' "/proc/$keeper/status"
}

locker h dl A
ask h "open a $MNT/f"
ask h 'lock a SH'
ok 'one has a lock, and a keeper' until_true 10 have_standbys A 1
keeper=$(pids_of A -o -x dlock-keeper)
peer p dl A /usr/bin/python3 "$RIG/asks.py"
hear p
hold_up 400
ask p "lock('$RIG/state')" 20
is "$HEARD" told 'another asks it, locks, and has a keeper, too'
ask h 'lock a UN'
ask p 'again()' 20
is "$HEARD" locked 'it closes the file: that is free'
at_least "$(grep -c 'close(' "$RIG/strace")" 1 'and it was asked (control)'
kill "$strace"
peer_end p

# --- by an ADD -----------------------------------------------------------------
listeners()
{
	[ "$(find "$RIG/state" -type s | wc -l)" = "$1" ]
}

closes()
{
	grep -c 'close(.* = 0' "$RIG/strace"
}

ok 'it has ended' until_true 10 listeners 0
hold_up 100
ask h "open b $MNT/f"
ask h 'lock b EX'
until_true 10 listeners 1
had=$(closes)
ask h 'close b'
note "$had closes before, $(closes) after"
at_least "$(closes)" 1 'who closes what its keeper was told of waits for its close'
kill "$strace"
peer_end h
rig_end
