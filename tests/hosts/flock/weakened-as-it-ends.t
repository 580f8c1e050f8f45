#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# One thread weakens its lock, and Redis does not answer, when another one makes the
# process another program, or ends it while a child has the description (L4).  The
# shared lock that the kernel has by then goes on, and so does its lease: no other
# host writes a ttl later.
#
# Control: where the lock ends by the same calls, the other host writes at once.
. "${0%/*}/../../lib/rig.sh"

TTL=9

# weaken.py FILE HOW: it has the lock, says so, and waits for a line; HOW is run
# while another thread weakens it.  What has the lock from then on is `sleep`.
make_program()
{
	cat >"$RIG/weaken.py" <<-END
	import fcntl, os, signal, socket, sys, threading, time
	fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
	sleep = ["sleep", "1000"]
	def child():
	    os.set_inheritable(fd, True)
	    if os.fork() == 0:
	        # (No preload: what it does itself changes nothing.)
	        os.execve("/bin/sleep", sleep, {})
	def pause():
	    s = socket.create_connection(("127.0.0.1", $PORT))
	    s.sendall(b"CLIENT PAUSE 1500 ALL\r\n")
	    s.recv(16)
	def weakened():
	    threading.Thread(target=fcntl.flock, args=(fd, fcntl.LOCK_SH),
	                     daemon=True).start()
	    while "READ" not in open("/proc/self/fdinfo/%d" % fd).read():
	        pass
	def execute():
	    os.set_inheritable(fd, True)
	    os.execv("/bin/sleep", sleep)
	def lock():
	    fcntl.flock(fd, fcntl.LOCK_EX)
	def told():
	    print("has it", flush=True)
	    sys.stdin.readline()
	exec(sys.argv[2])
	END
}

declare -A HOW=(
	[exec]='lock(); told(); weakened(); execute()'
	[exit]='child(); lock(); told(); weakened(); os._exit(0)'
	[exits]='child(); lock(); told(); weakened(); sys.exit(0)'
	[killed]='child(); lock(); told(); weakened(); os.kill(os.getpid(), 9)'
	[closed]='lock(); told(); os.execv("/bin/sleep", sleep)'
	[young]='told(); lock(); pause(); weakened(); execute()'
)
KEPT=(exec exit exits killed)

begin()
{
	peer "$1" dl A nice -n -20 /usr/bin/python3 "$RIG/weaken.py" "$1" "${HOW[$1]}"
	hear "$1" 30
	is "$HEARD" 'has it' "$1: begins"
}

sleepers()
{
	[ "$(on A pgrep -xc sleep)" = "$1" ] && [ "$(on A pgrep -fc weaken)" = 0 ]
}

is_kept()
{
	[ "$(rr exists "dlock:$MNT/$1")" = 1 ]
}

# are_kept NAME...: for longer than they last if nobody renews them
are_kept()
{
	ok 'for more than a ttl the other host may write none of them' \
		refused_for $((TTL * 1000 + 1500)) "$@"
	for name; do
		ok "$name: there is a lease" is_kept "$name"
	done
	on A pkill -KILL -x sleep
	for name; do
		ok "$name: it ends with the lock" \
			until_true 10 dl B flock -n "$name" true
	done
	rig_empty 5
}

rig_start disks
make_program
proxy p
rig_config A ttl=${TTL}s connect_timeout=900ms url="redis://127.0.0.1:$PROXY/0"
rig_config B ttl=${TTL}s

# What is sent arrives when that is over ("hold"), or never ("hang").
for mode in hold hang; do
	for name in "${KEPT[@]}" closed; do
		begin "$name"
	done
	ok "$mode: keepers have them" until_true 20 have_standbys A 5
	ask p "$mode"
	for name in "${KEPT[@]}" closed; do
		say "$name" go
	done
	ok "$mode: each has ended, or is another program" until_true 20 sleepers 5
	ask p pass
	ok 'what was closed by execve(2) is free (control)' \
		until_true 10 dl B flock -n closed true
	are_kept "${KEPT[@]}"
	peer_end "${KEPT[@]}" closed
done

# No keeper has it yet: it is handed over as it is.
begin young
ok 'young: no keeper has any' until_true 10 no_keeper A
say young go
ok 'young: it is another program' until_true 20 sleepers 1
are_kept young
peer_end young
rig_end
