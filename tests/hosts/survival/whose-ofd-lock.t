#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# Of an OFD lock the kernel names nobody (fcntl(2)), so a lost one's holders are told
# by their descriptions (DESIGN 9.8): all that its taker has of the file count, by
# whichever of his locks he was found first.  Who has another lock of the same file,
# and his own healthy lease, is not killed with him; who has one of his descriptions
# is, though the taker has opened the file once more.  So it is when the taker is dead,
# of whom has been told apart while he lived, and of his children.
#
# Control: the taker is killed each time.
. "${0%/*}/../../lib/rig.sh"

make_programs()
{
	cat >"$RIG/take.py" <<-END
	import fcntl, os, signal, struct, sys
	# take(DESCRIPTOR, KIND, START), of one byte (struct flock, fcntl(2)).
	def take(fd, kind, start):
	    global taken
	    taken = fd
	    fcntl.fcntl(fd, fcntl.F_OFD_SETLK,
	                struct.pack("hhqqi4x", kind, 0, start, 1, 0))
	# Told to, it has it by one more descriptor, and so has a child, which says
	# its number, too.
	def fork(*_):
	    os.dup(taken)
	    if os.fork() == 0:
	        print(os.readlink("/proc/self"), flush=True)
	signal.signal(signal.SIGUSR1, fork)
	exec(sys.argv[1])
	print(os.readlink("/proc/self"), flush=True)
	while os.read(0, 1):
	    pass
	END
}

# begin NAME CONFIGURATION COMMAND...: on A; its number there is in $PID
begin()
{
	peer "$1" dl A env DLOCK_CONFIG="$2" DLOCK_LOG="warning:$RIG/log" "${@:3}"
	hear "$1"
	PID=$HEARD
	like "$PID" '^[0-9]+$' "$1: has its locks"
}

lives()
{
	on A kill -0 "$1"
}

is_said()
{
	grep -qE "$1" "$RIG/log"
}

# The leases of the two files end so many ms apart, at least.
are_apart()
{
	[ "$(rr eval 'return redis.call("pttl", KEYS[2]) -
		redis.call("pttl", KEYS[1])' 2 \
		"dlock:$MNT/image%rec" "dlock:$MNT/later/below%rec")" -ge "$1" ]
}

# each_has_his_own WHEN FILE SECONDS LOST: as virtual machines have them, of an image and
# of what lies below it, taken one so long after the other, and lost LOST seconds after
# it at most.
each_has_his_own()
{
	local taker other

	: >"$RIG/log"
	begin taker "$RIG/A.conf" /usr/bin/python3 "$RIG/take.py" "
import time
image, below = (os.open(name, os.O_RDWR | os.O_CREAT) for name in ('image', '$2'))
take(image, fcntl.F_WRLCK, 0)
time.sleep($3)
take(below, fcntl.F_RDLCK, 0)"
	taker=$PID
	begin other "$RIG/direct.conf" /usr/bin/python3 "$RIG/take.py" "
take(os.open('$2', os.O_RDWR), fcntl.F_RDLCK, 0)"
	other=$PID
	ok "$1: their keepers have the leases" until_true 10 have_standbys A 2
	ask p hang
	ok '... the taker is killed (control)' until_true 20 pid_is_gone_on A "$taker"
	ok '... both of its locks are lost (control)' until_true "$4" is_said 'below.* is LOST'
	ok '... who has a lock of his own on the same file lives' lives "$other"
	unlike "$(cat "$RIG/log")" "killed:.* $other \\(" '... and is not among the killed'
	ask p pass
	peer_end taker other
	ok '... and all is over' until_true 20 host_is_idle A
}

rig_start disks
make_programs
cp "$RIG/A.conf" "$RIG/direct.conf"
proxy p
rig_config A ttl=5s connect_timeout=400ms url="redis://127.0.0.1:$PROXY/0"
on A mkdir later
rig_also A longer "$MNT/later/" ttl=12s connect_timeout=400ms \
	url="redis://127.0.0.1:$PROXY/0"

each_has_his_own 'locks taken at once' below 0 5
# The second lease's stop mark comes when the taker is dying, or dead.
each_has_his_own 'a moment later' below 0.025 5
each_has_his_own 'of a lease that lasts longer' later/below 0 15

# Whom the taker's end does not touch, and who has the second lock by his description.
: >"$RIG/log"
# shellcheck disable=SC2016 # the inner shell's
begin sharer "$RIG/A.conf" bash -c 'exec 7<>later/below
	/usr/bin/python3 "$0/take.py" "$1"
	exec sleep 1001' "$RIG" '
os.dup2(7, 8)
take(os.open("image", os.O_RDWR), fcntl.F_WRLCK, 0)
take(7, fcntl.F_RDLCK, 0)'
taker=$PID
sharer=$(on A ps -o ppid= -p "$taker" | tr -d ' ')
begin other "$RIG/direct.conf" /usr/bin/python3 "$RIG/take.py" '
take(os.open("later/below", os.O_RDWR), fcntl.F_RDLCK, 0)'
other=$PID
ok 'their keepers have the leases' until_true 10 have_standbys A 2
ok 'its leases end far apart (control)' are_apart 2000
ask p hang
ok 'the taker is killed (control)' until_true 20 pid_is_gone_on A "$taker"
on A kill -USR1 "$other"
hear other
child=$HEARD
like "$child" '^[0-9]+$' '... another forks'
ok '... who shares one of its locks lives for now (control)' lives "$sharer"
ok '... and is killed by that one' until_true 15 pid_is_gone_on A "$sharer"
ok '... who has a lock of his own on the same file lives' lives "$other"
ok '... and so does his child, who is younger than the end of the taker' lives "$child"
ask p pass
peer_end sharer other
ok '... and all is over' until_true 20 host_is_idle A

: >"$RIG/log"
# shellcheck disable=SC2016 # the inner shell's
begin shell "$RIG/A.conf" bash -c 'exec 6<>twice
	/usr/bin/python3 "$0/take.py" "$1"
	exec sleep 1001' "$RIG" '
os.dup2(os.open("twice", os.O_RDWR), 5)
take(6, fcntl.F_WRLCK, 0)
take(5, fcntl.F_WRLCK, 7)'
taker=$PID
shell=$(on A ps -o ppid= -p "$taker" | tr -d ' ')
ok 'its keeper has both leases' until_true 10 have_standbys A 1
ask p hang
ok 'the taker is killed (control)' until_true 20 pid_is_gone_on A "$taker"
ok 'whose descriptor it has locked is killed with it' \
	until_true 5 pid_is_gone_on A "$shell"
ask p pass
on A pkill -KILL -x sleep
peer_end shell
ok 'all is over' until_true 20 host_is_idle A
rig_end
