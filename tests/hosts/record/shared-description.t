#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# OFD locks of a description that two processes share (DESIGN L2).  What the
# one is refused changes nothing of what the other one has there, which only
# that knows: it was unlocked with what was undone, and another host had it.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=6s

# A line each: "TYPE START LEN" is done by the parent, "child TYPE ..." and
# "wait TYPE ...", with an alarm after 0.3 s, by a child each, "killed TYPE ..." by
# one that is killed at once; "start TYPE ..." is one that waits until "stop".  The
# answer: its error, and what the description has, of both.
cat >"$RIG/shared.py" <<'END'
import errno, fcntl, os, re, signal, struct, sys

SETLK, SETLKW = 37, 38 # F_OFD_
TYPES = {"R": fcntl.F_RDLCK, "W": fcntl.F_WRLCK, "U": fcntl.F_UNLCK}

class Alarm(Exception):
    pass

def on_alarm(*_):
    raise Alarm()

def lock(cmd, what, start, length, alarm=0):
    l = struct.pack("hhqqi4x", TYPES[what], 0, int(start), int(length), 0)
    try: # (An alarm before the call is followed by one in it.)
        signal.setitimer(signal.ITIMER_REAL, alarm, alarm)
        fcntl.fcntl(fd, cmd, l)
        return 0
    except OSError as e:
        return e.errno
    except Alarm:
        return errno.EINTR

def start(cmd, args, seconds=0, dies=False):
    signal.signal(signal.SIGALRM, on_alarm)
    child = os.fork()
    if child == 0:
        err = lock(cmd, *args, seconds)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(err)
    return child

def end(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def held():
    with open("/proc/self/fdinfo/%d" % fd) as f:
        return " ".join(m[1][0] + m[2] + "-" + m[3] for m in re.finditer(
            r"OFDLCK\s+ADVISORY\s+(\w+) \S+ \S+ (\d+) (\d+)", f.read()))

how = os.O_WRONLY if sys.argv[2:] == ["writes"] else os.O_RDWR
fd = os.open(sys.argv[1], how | os.O_CREAT, 0o666)
for line in sys.stdin:
    w = line.split()
    if w[0] == "child":
        err = end(start(SETLK, w[1:]))
    elif w[0] == "killed":
        err = end(start(SETLK, w[1:], dies=True))
    elif w[0] == "wait":
        err = end(start(SETLKW, w[1:], 0.3))
    elif w[0] == "start":
        waiter, err = start(SETLKW, w[1:]), 0
    elif w[0] == "stop":
        os.kill(waiter, signal.SIGALRM)
        err = end(waiter)
    elif w[0] == "look":
        err = 0
    else:
        err = lock(SETLK, *w)
    print(errno.errorcode.get(err, err), held(), flush=True)
END

holds()
{
	ask q 'set a W 12 1'
	[ "$RESULT" = 0 ]
}

# scene RUN HOLDER'S-RUN HOLDER'S-HOST: what is said, all of it
scene()
{
	local line

	said=''
	peer q "$2" "$3" "$BIN/records" tell
	ask q 'open a o'
	# (Bare, it may meet the keeper that sees the last scene's end.)
	until_true 3 holds || rig_die "no holder: $HEARD"
	peer p "$1" A /usr/bin/python3 "$RIG/shared.py" "$MNT/o"
	for line in 'W 0 10' 'child W 5 11' 'wait W 5 11' 'U 0 10' \
		'R 0 4' 'W 6 2' 'child W 2 16' 'child R 2 16' 'W 30 2' \
		'child W 1 40' 'wait W 1 40'; do
		ask p "$line"
		said+="$line: $HEARD"$'\n'
	done
}

scene_end()
{
	peer_end p q
}

scene on on A
scene_end
bare=$said
like "$bare" 'child W 5 11: EAGAIN W0-9' 'bare: what is refused changes nothing'
like "$bare" 'wait W 5 11: EINTR W0-9' 'nor does a wait'
scene dl dl A
is "$said" "$bare" 'one host: the same'
scene_end
scene dl on A
is "$said" "$bare" 'one host, beside a program without dlock: the same'
scene_end
scene dl dl B
is "$said" "$bare" 'two hosts: the same'

# ... and not for a moment only
ask p 'W 0 4'
is "$HEARD" '0 W0-3 W6-7 W30-31' 'the one goes on'
for byte in 0 3 6 7 30; do
	ask q "set a W $byte 1"
	is "$RESULT" EAGAIN "the other host does not get byte $byte"
done
ask q 'set a W 8 1'
is "$RESULT" 0 '... but what is free'
ask q 'set a U 0 0'
peer_end q

# --- taken over ---------------------------------------------------------------

# Another process may lock what the one has: it is the same owner's, who goes on.
renewed()
{
	[ "$(scripts_called)" -ge $((calls + 4)) ]
}

ask p 'U 0 0'
peer_end p
peer p dl A /usr/bin/python3 "$RIG/shared.py" "$MNT/o"
ask p 'W 0 10'
ask p 'child W 0 10'
is "$HEARD" '0 W0-9' 'a child locks all that its parent has'
ask p 'W 20 1'
is "$HEARD" '0 W0-9 W20-20' '... and the parent goes on'
calls=$(scripts_called)
until_true 15 renewed
is "$(cat "$RIG/p.err")" '' '... whose lease is none that is lost'
peer q dl B "$BIN/records" tell
ask q 'open a o'
ask q 'set a W 5 1'
is "$RESULT" EAGAIN '... and holds'
# What is taken over was not free: no waiter is served with it.
queued()
{
	[ "$(rr hlen "{dlock:$MNT/o%rec}%q")" -gt 0 ]
}
say q 'wait a W 5 1'
ok 'the other host waits' until_true 5 queued
ask p 'child W 0 10'
is "$HEARD" '0 W0-9 W20-20' '... while a child locks it again'
# (Its place ends, and comes back, where it has no core for two seconds.)
ok '... and goes on waiting' until_true 5 queued
# (While others of the host have OFD locks of the file, a keeper cannot tell.)
ask p 'U 20 1'
ask p 'child U 0 10'
hear q
is "$RESULT" 0 'a child unlocks it: free for the other host'
ask p 'W 0 10'
is "$HEARD" 'EAGAIN' '... where the one does not have it once more'
ask q 'set a U 0 0'
ask p 'U 0 0'
peer_end q
peer_end p

# Nor does it end with that child, though it is killed the moment it has it.
peer p dl A /usr/bin/python3 "$RIG/shared.py" "$MNT/k"
ask p 'W 0 10'
ask p 'killed W 0 10'
is "$HEARD" '-9 W0-9' 'a child locks what its parent has, and is killed'
peer q dl B "$BIN/records" tell
ask q 'open a k'
q_is_refused()
{
	ask q 'set a W 5 1'
	[ "$RESULT" = EAGAIN ]
}
ok '... whose parent has it for longer than a ttl' \
	throughout 9000 1 q_is_refused
ask p 'U 0 10'
ask q 'wait a W 5 1' 20
is "$RESULT" 0 '... until it unlocks'
peer_end p q

# A child unlocks it and locks it again: that is its lock, of the same description, and
# no loss of who had it before.
is_forgotten()
{
	[ "$(rr exists "dlock:$MNT/u%rec")" = 0 ]
}
# is_not_there BYTE: of a range that begins there
is_not_there()
{
	! rr zrangebylex "{dlock:$MNT/u%rec}%r" - + |
		grep -q "^SW$(printf %019d "$1")"
}
for when in 'at once' 'when it is forgotten'; do
	peer p dl A /usr/bin/python3 "$RIG/shared.py" "$MNT/u"
	ask p 'W 0 10'
	ask p 'child U 0 10'
	[ "$when" = 'at once' ] ||
		ok 'what nobody has a keeper gives back' \
			until_true 10 is_forgotten
	ask p 'child W 0 10'
	is "$HEARD" '0 W0-9' \
		"a child unlocks what its parent has, and locks it, $when"
	ask p 'W 20 1'
	is "$HEARD" '0 W0-9 W20-20' '... and the parent goes on'
	calls=$(scripts_called)
	until_true 15 renewed
	is "$(cat "$RIG/p.err")" '' '... and has lost nothing'
	peer_end p
	until_true 10 is_forgotten
done
# What is refused undoes nothing of that.
peer p dl A /usr/bin/python3 "$RIG/shared.py" "$MNT/u"
peer q dl B "$BIN/records" tell
ask q 'open a u'
ask q 'set a W 15 1'
for when in 'at once' 'when it is forgotten'; do
	ask p 'W 0 10'
	ask p 'child U 0 10'
	[ "$when" = 'at once' ] || until_true 10 is_not_there 0
	ask p 'child W 0 10'
	ask p 'W 0 20'
	is "$HEARD" 'EAGAIN W0-9' \
		"the parent is refused more, and the child's stays, $when"
	ask q 'set a W 5 1'
	is "$RESULT" EAGAIN '... also for another host'
	ask p 'U 0 20'
	until_true 10 is_not_there 0
done
peer_end p q

# (Who is not asked for more learns it by his renewal.)
peer p dl A /usr/bin/python3 "$RIG/shared.py" "$MNT/u"
ask p 'W 0 10'
ask p 'child U 0 10'
until_true 10 is_forgotten
ask p 'child W 0 10'
calls=$(scripts_called)
until_true 15 renewed
ask p 'W 20 1'
is "$HEARD" '0 W0-9 W20-20' '... who is renewed meanwhile, too'
is "$(cat "$RIG/p.err")" '' '... and has lost nothing'
peer_end p

# Nor does it become a weaker one that the description is not open for.
for run in on dl; do
	peer p "$run" A /usr/bin/python3 "$RIG/shared.py" "$MNT/w" writes
	ask p 'W 0 10'
	ask p 'child R 2 4'
	is "$HEARD" 'EBADF W0-9' \
		"open for writing only ($run): a child may not read-lock it"
	[ "$run" = dl ] || peer_end p
done
peer q dl B "$BIN/records" tell
ask q 'open a w'
ask q 'set a R 3 1'
is "$RESULT" EAGAIN '... and the other host has no reader there'
ask p 'U 0 10'
ask q 'wait a R 3 1' 20
is "$RESULT" 0 '... until it is unlocked (control)'
peer_end p q

# --- meanwhile ----------------------------------------------------------------

# What changes while another process waits in the kernel is not undone, nor done
# again, when Redis refuses what that is granted.
queued_for_m()
{
	[ "$(rr hlen "{dlock:$MNT/m%rec}%q")" -gt 0 ]
}

waits_in_kernel()
{
	on A grep -q -e "-> OFDLCK .* $file " /proc/locks
}

# meanwhile LINE HAS: the waiter is in the kernel for byte 10, then at Redis for byte
# 15.  (It has its place as it is refused, and gives back what the kernel has granted a
# moment later.)
meanwhile()
{
	ask x 'set a W 10 1'
	ask p 'start W 0 20'
	until_true 5 waits_in_kernel || rig_die 'no wait'
	ask p "$1"
	ask x 'set a U 10 1'
	until_true 5 queued_for_m || rig_die 'it does not queue'
	until_true 5 p_has "$2"
}

p_has()
{
	ask p look
	[ "$HEARD" = "0${1:+ }$1" ]
}

peer p dl A /usr/bin/python3 "$RIG/shared.py" "$MNT/m"
peer q dl B "$BIN/records" tell
peer x on A "$BIN/records" tell
ask p look
ask q 'open a m'
ask q 'set a W 15 1'
ask x 'open a m'
# shellcheck disable=SC2046,SC2183 # words
file=$(printf '%02x:%02x:%d' $(on A stat -c '%Hd %Ld %i' "$MNT/m"))
meanwhile 'W 0 4' W0-3
is "$HEARD" '0 W0-3' 'what is locked while another process waits is there'
ask p stop
is "$HEARD" 'EINTR W0-3' '... when it is interrupted, too'
ask p 'W 0 4'
meanwhile 'U 0 4' ''
is "$HEARD" '0' 'what is unlocked while another process waits is not there'
ask p stop
is "$HEARD" 'EINTR' '... when it is interrupted, too'
peer_end x p q
# (Below it is without a server for a while, and lives.)
rig_configs ttl=20s
peer p dl A /usr/bin/python3 "$RIG/shared.py" "$MNT/o"

# --- too many to know ---------------------------------------------------------

peer q dl B "$BIN/records" tell
ask q 'open a o'
for ((byte = 0; byte <= 64; byte += 2)); do
	ask p "W $byte 1"
done
before=${HEARD#0 }
ask p 'child W 0 70'
is "$HEARD" "ENOLCK $before" 'more than can be given back: not asked for'
like "$(cat "$RIG/p.err")" 'not asked: other processes share' '... it is said'
ask p 'child W 0 64'
is "$HEARD" "0 W0-64" '... 32 can be'
ask p 'U 0 0'
for ((byte = 0; byte <= 64; byte += 2)); do
	ask p "W $byte 1"
done
ask p 'W 0 70'
is "$HEARD" '0 W0-69' 'who knows them all goes on'

# --- without Redis ------------------------------------------------------------

# A weaker lock and an unlock never fail for its sake.
redis_kill
ask p 'R 0 70'
is "$HEARD" '0 R0-69' 'a weaker lock does not fail without Redis'
ask p 'U 0 70'
is "$HEARD" 0 '... nor does an unlock'
redis_up
peer_end p q
rig_end
