#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A process gives up its privileges where no other keeper can be started: its root is
# an empty directory, or its user may have no more processes.  The first keeper goes
# on, and can be told nothing more, so it stops nobody (DESIGN 9.2).  Then the lease
# is what this process itself knows of it: Redis is cut off when it was not renewed
# for half a ttl, and all the same it is dead before another host has the lock (L6).
#
# Control: with on_lost = "report" it goes on; and where Redis is in reach, nobody is
# killed for it.
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/idioms.sh"

TTL=6

make_program()
{
	cat >"$RIG/hold.py" <<-END
	import fcntl, os, resource, sys, time
	name, how = sys.argv[1:]
	fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
	f = open("$RIG/" + name + ".worked", "a")
	def user(n):
	    os.setgroups([])
	    os.setresgid(n, n, n)
	    os.setresuid(n, n, n)
	def work(until):
	    while not until():
	        print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), file=f, flush=True)
	        time.sleep(0.01)
	fcntl.flock(fd, fcntl.LOCK_EX)
	work(lambda: os.path.exists("$RIG/" + name + ".go"))
	exec(how)
	print("done", flush=True)
	work(lambda: False)
	END
}

declare -A HOW=(
	[root]='os.chroot("empty"); user(65534)'
	[nproc]='resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)); user(54321)'
)

# (A ttl of 6 s is short on a busy machine: it has a core when it is to renew.)
begin()
{
	local name

	rig_config A ttl=${TTL}s connect_timeout=400ms \
		url="redis://127.0.0.1:$PROXY/0" path_more="on_lost = \"$1\""
	shift
	for name; do
		rm -f "$RIG/$name".{owned,go,worked}
		peer "$name" dl A nice -n -20 env DLOCK_LOG="warning:$RIG/log" \
			/usr/bin/python3 "$RIG/hold.py" "$name" "${HOW[$name]}"
	done
	for name; do
		ok "$name: works" until_true 10 has_worked "$name"
	done
	ok 'keepers have the leases' until_true 10 have_standbys A $#
}

past_half()
{
	local left

	left=$(rr pttl "dlock:$MNT/$1")
	[ "$left" -lt $((TTL * 500)) ] && [ "$left" -gt $((TTL * 250)) ]
}

gives_up()
{
	: >"$RIG/$1.go"
	hear "$1"
	is "$HEARD" 'done' "$1: has given up its privileges"
}

worker_is_gone()
{
	! kill -0 "${PEER_PID[$1]}" 2>/dev/null
}

# run RULE NAME: it loses it, and the other host gets it
run()
{
	begin "$1" "$2"
	others_wait "$2"
	ask p hang
	ok "$1, $2: it was not renewed for half a ttl" until_true 10 past_half "$2"
	gives_up "$2"
	ok "$1, $2: the other host has it" until_true 20 owned "$2"
}

others_wait()
{
	dl B /usr/bin/python3 "$RIG/own.py" "$1" "$BIN/now" >"$RIG/$1.owned" &
}

all_end()
{
	on A pkill -KILL -f hold.py
	peer_end "$@"
	ask p pass
	until_true 20 no_keeper A
	rig_empty 10
}

rig_start disks
chmod 755 "$RIG" "$MNT"
on A chmod 755 "$MNT"
on A mkdir -p empty
make_program
make_owner
proxy p

for name in root nproc; do
	run report "$name"
	ok "$name: works on (control)" until_true 10 works_beside "$name"
	all_end "$name"
	run kill "$name"
	ok "$name: is dead by then" worker_is_gone "$name"
	took=$(last_work "$name")
	at_most "$took" -1 "$name: worked for the last time $took ms after"
	all_end "$name"
done

# By its own thread.
begin kill root
gives_up root
ok 'in reach: it goes on' refused_for $((2 * TTL * 1000)) root
ok '... and works' kill -0 "${PEER_PID[root]}"
all_end root
rig_end
