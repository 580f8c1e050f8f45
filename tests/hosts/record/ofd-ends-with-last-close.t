#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# An OFD lock ends with the last descriptor of its description, and so does its
# lease (DESIGN L4), whatever else is locked in the file: a byte far off by
# another process of the host, here, for the whole of the test.  The ttl is
# longer than any of these waits.
. "${0%/*}/../../lib/rig.sh"

SOON=3 # s

# granted BYTE...: to host B, which gives them back
granted()
{
	ask q "range a F_WRLCK $1 ${2:-1}"
	[ "$RESULT" = 0 ] || return 1
	ask q "range a F_UNLCK $1 ${2:-1}"
}

refused()
{
	! granted "$@"
}

p()
{
	ask p "$1" "${2-}"
	[ "$RESULT" = "${3:-0}" ] || diag "$1: $RESULT"
}

# Those that expired are no matter; the far lock is one.
owners()
{
	echo $(($(rr hlen "dlock:$MNT/f%rec") - 1))
}

few_owners()
{
	[ "$(owners)" -le 1 ]
}

rig_start disks
rig_configs ttl=20s
locker far dl A
locker p dl A
locker q dl B
ask far "open a $MNT/f"
ask far 'range a F_WRLCK 1000 1'
is "$RESULT" 0 'a byte far off is locked'
ask q "open a $MNT/f"

# Whoever has made a child may share.
ask p fork
child=$RESULT

ask p "open a $MNT/f"
ask p 'range a F_WRLCK 5 1 OFD'
ok 'locked: refused to the other host (control)' refused 5
ask p 'close a'
ok 'closed: granted' until_true $SOON granted 5

ask p "open a $MNT/f"
ask p 'range a F_WRLCK 5 1 OFD'
ask p 'dup a b'
ask p 'close a'
ok 'one of two descriptors closed: refused' refused 5
ask p 'close b'
ok 'the other one too: granted' until_true $SOON granted 5

ask p "open a $MNT/f"
ask p 'range a F_WRLCK 5 1 OFD'
ask p 'range a F_WRLCK 20 10 OFD'
ask p fork
sharer=$RESULT
ask p 'close a'
ok 'a child has the description too: refused' refused 5
ok 'a child has the description too: refused, the second range' refused 25
sleep 1
ok 'a child has the description too: still refused' refused 5
ask p "reap $sharer"
ok 'the child is killed: granted' until_true $SOON granted 5
ok 'the child is killed: granted, the second range' until_true $SOON granted 25

ask p "open a $MNT/f"
ask p 'range a F_WRLCK 5 1 OFD'
ask p 'twin a'
is "$RESULT" 0 'a process that has the descriptor table closes it'
ok 'that is the end as well: granted' until_true $SOON granted 5
ask p 'close a'
is "$RESULT" EBADF 'it was the same table (control)'

# Locked by a description, the first one ended by its last reader's close.
for i in a b; do
	ask p "open $i $MNT/f"
	ask p "range $i F_RDLCK 5 1 OFD"
	is "$RESULT" 0 "$i reads"
done
ask p 'close a'
ok 'one of two readers closed: refused' refused 5
ask p 'close b'
ok 'the other one too: granted' until_true $SOON granted 5

begin=$(now)
ask p "cycle $MNT/f ${CYCLES:-400}" 120
took=$((($(now) - begin) / 1000000))
is "$RESULT" 0 'open, lock, close, many times'
ok 'no owner is left of it' until_true $SOON few_owners
note "${CYCLES:-400} cycles in $took ms; $(owners) owners left"

# What a program that is not preloaded unlocks is given back by parts.
cat >"$RIG/parts.py" <<'END'
import fcntl, os, struct, sys

def lock(fd, what, start, length):
    fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", what, 0, start, length, 0))

if len(sys.argv) == 2:
    fd = os.open(sys.argv[1], os.O_RDWR)
    os.set_inheritable(fd, True)
    lock(fd, fcntl.F_WRLCK, 100, 10)
    lock(fd, fcntl.F_WRLCK, 200, 10)
    os.execve(sys.executable, ["python3", sys.argv[0], sys.argv[1], str(fd)],
              {"PATH": "/usr/bin:/bin"})
print("become", flush=True)
sys.stdin.readline()
lock(int(sys.argv[2]), fcntl.F_UNLCK, 200, 10)
lock(int(sys.argv[2]), fcntl.F_UNLCK, 100, 5)
print("unlocked", flush=True)
sys.stdin.readline()
END
peer parts dl A /usr/bin/python3 "$RIG/parts.py" "$MNT/f"
hear parts
is "$HEARD" become 'a program becomes one that is not preloaded'
ok 'its locks are there' refused 205
ok 'its locks are there, the first too' refused 102
ask parts go
is "$HEARD" unlocked 'it unlocks one, and half of the other'
ok 'the one is granted' until_true 8 granted 200 10
ok 'the half of the other' until_true 8 granted 100 5
ok 'not the rest' refused 107
say parts end
ok 'it ends: granted' until_true $SOON granted 107

ask p "reap $child"
for name in far p q; do
	say "$name" 'exit 0'
done

# Where kcmp(2) is refused (a container's filter; a kernel without it) a duplicate
# is known by the locks that it shows.  All of it before a keeper has the lease, in
# a process that has made no child.
rig_configs ttl=6s
locker q dl B
ask q "open a $MNT/f"

# at_once LINE...: the last one's answer
at_once()
{
	local line

	for line; do
		say k "$line"
	done
	for line; do
		hear k
	done
}

lives()
{
	kill -0 "${PEER_PID[k]}" 2>/dev/null
}

for type in F_WRLCK F_RDLCK; do
	peer k dl A "$BIN/refused" kcmp "$BIN/locker"
	at_once "open a $MNT/f" "range a $type 5 1 OFD" 'dup a b' 'close a'
	is "$RESULT" 0 "$type, no kcmp: one of two descriptors is closed"
	ok "$type, no kcmp: refused" throughout 7000 40 refused 5
	ask k 'close b'
	ok "$type, no kcmp: the other one too: granted" until_true $SOON granted 5

	at_once "open a $MNT/f" "range a $type 5 1 OFD" 'dup a b' \
		'range b F_WRLCK 5 15 OFD'
	is "$RESULT" 0 "$type, no kcmp: more of it by the other one"
	ok "$type, no kcmp: that kills nobody" throughout 7000 40 lives
	ok "$type, no kcmp: refused, all of it" refused 19
	ask k 'close a'
	ok "$type, no kcmp: refused when one is closed" refused 5
	ask k 'close b'
	ok "$type, no kcmp: closed: granted" until_true $SOON granted 5 15
	say k 'exit 0'
done
say q 'exit 0'
rig_empty 3
done_testing
