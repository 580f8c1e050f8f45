#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A record lock that is made weaker while Redis does not answer (L1): the kernel
# grants that, so it is granted, though the lock is one from before an execve(2), and
# no list of ours has it.  The other host is kept out of what is left, and gets the rest
# when Redis has heard of it.  What needs more than is there fails, and so does what is
# weaker of a description that others share, for one of them may be asking for it just
# now.  That has changed nothing: not for a moment has a program of this host found a
# write lock to be a read lock.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=30s timeout=4s
proxy slow

# gets PEER RESULT CALL
gets()
{
	ask "$1" "$3" 40 && [ "$RESULT" = "$2" ] && return
	note "$1: $3: $RESULT, not $2"
	return 1
}

# The kernel of A has these locks of p's file: "TYPE START END", a line each
kernel_has()
{
	local -a file
	local found

	mapfile -t file < <(on A stat -c '%Hd %Ld %i' "$MNT/$1")
	# shellcheck disable=SC2046,SC2086,SC2183 # words
	found=$(on A grep " $(printf '%02x:%02x:%d' ${file[0]}) " /proc/locks |
		awk '{ print $(NF - 4), $(NF - 1), $NF }' | sort)
	[ "$found" = "$2" ] && return
	note "the kernel has $found, not $2"
	return 1
}

# begin FILE OFD: p on A has WRITE 0-9, and becomes another program; x on A has no
# dlock, q is of B.  Redis is silent then.  (OFD: "ofd" or "".)
begin()
{
	peer p dl A "$BIN/records" tell
	peer q dl B "$BIN/records" tell
	peer x on A "$BIN/records" tell
	ask q "open a $1" && ask p "open a $1" && ask x "open a $1" &&
		gets p 0 "$2set a W 0 10" && gets p 0 'exec a' && silence
}

silence()
{
	kill -STOP "$REDIS_PID"
}

answers()
{
	kill -CONT "$REDIS_PID"
}

scene()
{
	local status=0

	"$@" || status=1
	answers
	ask slow pass
	peer_end p q x
	until_true 10 db_is_empty && return "$status"
	note "left in Redis: $(rr --scan)"
	return 1
}

# weaker FILE HOW: all of it, and a part of it
weaker()
{
	begin "$1" '' && gets p 0 "$2 a R 3 4" &&
		kernel_has "$1" $'READ 3 6\nWRITE 0 2\nWRITE 7 9' &&
		gets p 0 "$2 a R 0 10" && kernel_has "$1" 'READ 0 9' &&
		grep -q 'cannot weaken the lease' "$RIG/p.err" || return 1
	answers
	gets q 0 'wait a R 0 10' && gets q EAGAIN 'set a W 0 10' &&
		gets q 0 'set a U 0 0' && gets p 0 'set a R 0 5' &&
		gets p 0 'set a U 5 5' && gets q 0 'wait a W 5 5' &&
		gets q EAGAIN 'set a W 4 1'
}

# shared FILE HOW: it may be another's, and fails
shared()
{
	begin "$1" ofd && say p "ofd$2 a R 3 4" &&
		throughout 300 5 gets x EAGAIN 'set a R 3 1' &&
		hear p 20 && is_refused && kernel_has "$1" 'WRITE 0 9' || return 1
	answers
	gets q EAGAIN 'set a R 3 1' && gets p 0 "ofd$2 a R 3 4" &&
		kernel_has "$1" $'READ 3 6\nWRITE 0 2\nWRITE 7 9' &&
		gets q 0 'wait a R 3 4'
}

# What has had no answer may have taken its lease from the keeper: then it is asked for
# until it is known whose it is.
unsure()
{
	peer p dl A "$BIN/records" tell
	peer q dl B "$BIN/records" tell
	peer x on A "$BIN/records" tell
	ask q 'open a unsure' && ask p 'open a unsure' && gets p 0 'set a W 0 10' &&
		gets p 0 'exec a' && ask slow 'strand rest' &&
		gets p ENOLCK 'set a R 0 10' && gets p ENOLCK 'set a R 0 10' &&
		kernel_has unsure 'WRITE 0 9' && ask slow pass &&
		gets p 0 'set a R 0 10' && kernel_has unsure 'READ 0 9' &&
		gets q EAGAIN 'set a W 0 1' && gets q 0 'set a R 0 1'
}

is_refused()
{
	[ "$RESULT" = ENOLCK ] || note "p: $RESULT, not ENOLCK"
	[ "$RESULT" = ENOLCK ]
}

# Weaker, and more than is there.
more()
{
	begin "$1" "$2" && say p "$2set a R 5 10" &&
		throughout 300 5 gets x EAGAIN 'set a R 5 5' &&
		hear p 20 && is_refused && gets x EAGAIN 'set a R 5 5' &&
		kernel_has "$1" 'WRITE 0 9' || return 1
	answers
	gets q EAGAIN 'set a R 9 1' && gets p 0 "$2set a R 5 10" &&
		kernel_has "$1" $'READ 5 14\nWRITE 0 4'
}

cat >"$RIG/shared.py" <<'END_OF'
import errno, fcntl, os, struct, sys

TYPES = {"R": fcntl.F_RDLCK, "W": fcntl.F_WRLCK, "U": fcntl.F_UNLCK}

def lock(what, start, length):
    try:
        fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", TYPES[what], 0, int(start),
                                        int(length), 0)) # F_OFD_SETLK
        return "0"
    except OSError as e:
        return errno.errorcode[e.errno]

fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
for line in sys.stdin:
    w = line.split()
    if w[0] in ("child", "stays"):
        there, here = os.pipe()
        end, mine = os.pipe()
        if os.fork() == 0:
            os.close(mine)
            os.write(here, lock(*w[1:]).encode())
            if w[0] == "stays":
                os.read(end, 1)
            os._exit(0)
        print(os.read(there, 20).decode(), flush=True)
    else:
        print(lock(*w), flush=True)
END_OF

# does LINE RESULT
does()
{
	ask p "$1" 20
	[ "$HEARD" = "$2" ] && return
	note "$1: $HEARD, not $2"
	return 1
}

# The one has it, and its child makes it weaker.
child()
{
	peer p dl A /usr/bin/python3 "$RIG/shared.py" "$MNT/child"
	peer q dl B "$BIN/records" tell
	peer x on A "$BIN/records" tell
	does 'W 0 10' 0 && ask q 'open a child' && ask x 'open a child' &&
		silence && does 'child R 0 20' ENOLCK &&
		does 'child R 3 4' ENOLCK && kernel_has child 'WRITE 0 9' ||
		return 1
	answers
	does 'child R 3 4' 0 &&
		kernel_has child $'READ 3 6\nWRITE 0 2\nWRITE 7 9' &&
		gets q 0 'wait a R 3 4' && gets q 0 'set a U 0 0' &&
		gets q EAGAIN 'set a R 2 1' && gets q EAGAIN 'set a W 3 1' &&
		does 'R 0 10' 0 && gets q 0 'wait a R 0 10'
}

# Who has nothing of it is refused, as ever.
nothing()
{
	peer p dl A /usr/bin/python3 "$RIG/shared.py" "$MNT/nothing"
	peer q dl B "$BIN/records" tell
	peer x on A "$BIN/records" tell
	does 'W 0 10' 0 && does 'U 0 10' 0 && silence &&
		does 'child R 0 10' ENOLCK && kernel_has nothing ''
}

# Redis has taken a child's lock for its parent's, and the answer is lost: it is kept
# for as long as nobody knows, and the parent's with the next answer.
# unanswered FILE [LINE]: that is done before, so that it has a lease itself
unanswered()
{
	peer p dl A /usr/bin/python3 "$RIG/shared.py" "$MNT/$1"
	peer q dl B "$BIN/records" tell
	peer x on A "$BIN/records" tell
	ask x "open a $1"
	does 'stays W 0 10' 0 && ask q "open a $1" || return 1
	[ -z "${2-}" ] || does "$2" 0 || return 1
	ask slow 'strand share' && does 'W 0 15' ENOLCK && ask slow pass &&
		! gets x 0 'set a R 9 1' && gets x 0 'set a R 10 5' &&
		gets x 0 'set a U 10 5' &&
		throughout 2000 10 gets q EAGAIN 'set a W 9 1' &&
		does 'W 0 10' 0 && gets q EAGAIN 'set a W 9 1' &&
		does 'U 0 0' 0 && gets q 0 'wait a W 0 15'
}

ok 'from before an execve(2), POSIX' scene weaker posix set
ok '... by F_SETLKW' scene weaker posixw wait
ok '... OFD' scene shared ofd set
ok '... OFD, by F_OFD_SETLKW' scene shared ofdw wait
ok 'more than is there: nothing has changed, POSIX' scene more more ''
ok '... OFD' scene more moreofd ofd
ok 'a child weakens what its parent has' scene child
ok '... and has nothing where there is none' scene nothing
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=30s timeout=4s
ok 'what had no answer is asked for until it has one' scene unsure
ok 'it locks what its child has, and the answer is lost' scene unanswered taken
ok '... and it has a lease itself' scene unanswered taken2 'W 20 1'
rig_end
