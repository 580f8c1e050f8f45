#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A lock that has lasted is told to the keeper with its descriptor, and the
# program closes that one just then, and opens another file by its number; but it
# has another descriptor of the description.  The keeper gets the lock's, by
# whichever number, and carries the lease on.  (The message is held up by
# strace(1), until the program has come to its close: for 0.1 s, in which who looks
# for it has a core.)
. "${0%/*}/../../lib/rig.sh"

# is_carried FILE: a keeper says so.
is_carried()
{
	grep -qE "lease [^ ]*/$1(%rec)? .*is carried on: " "$RIG/log"
}

rig_start disks
rig_configs ttl=30s
on A touch flock ofd
export DLOCK_LOG=debug:$RIG/log

cat >"$RIG/closer.py" <<-'END'
	import fcntl, os, struct, sys, time
	how, path = sys.argv[1:]
	SENDMSG = {"x86_64": "46 ", "aarch64": "211 "}[os.uname().machine]

	def watch(pid, bell):
	    """Until a second thread is in sendmsg(2); the first one starts the keeper."""
	    senders = set()
	    while len(senders) < 2:
	        for task in os.listdir(f"/proc/{pid}/task"):
	            try:
	                with open(f"/proc/{pid}/task/{task}/syscall") as f:
	                    if f.read().startswith(SENDMSG):
	                        senders.add(task)
	            except OSError:
	                pass
	        time.sleep(0.002)
	    os.write(bell, b"!")
	    os._exit(0)

	# (By a process of its own, which closes no descriptor of this one.)
	bell, its_bell = os.pipe()
	if os.fork() == 0:
	    watch(os.getppid(), its_bell)
	first = os.open(path, os.O_RDWR)
	if how == "flock":
	    fcntl.flock(first, fcntl.LOCK_EX)
	else:
	    lock = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 10, 0)
	    fcntl.fcntl(first, fcntl.F_OFD_SETLK, lock)
	second = os.dup(first)
	os.read(bell, 1)
	os.close(first)
	assert os.open("/dev/null", os.O_RDWR) == first
	print("closed 0", flush=True)
	sys.stdin.readline()
END

for how in flock ofd; do
	peer "$how" dl A nice -n -20 strace -f -qq -o "$RIG/trace" -e signal=none \
		-e trace=sendmsg -e inject=sendmsg:delay_enter=100000:when=1 \
		/usr/bin/python3 "$RIG/closer.py" "$how" "$MNT/$how"
	hear "$how" 30
	is "$RESULT" 'closed' "$how: the descriptor is closed as it is sent"
	ok "$how: the keeper has the lease" until_true 5 is_carried "$how"
	is "$(grep 'no keeper' "$RIG/log")" '' "$how: nobody says that it has not"
	peer_end "$how"
done
rig_end
