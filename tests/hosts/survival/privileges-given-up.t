#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A process that has given up its privileges can tell the keeper that it had nothing
# more (DESIGN 9.2).  All the same nobody who shares its lock works on when another
# host has that (L6): neither a worker of root's that has the descriptor, and that the
# next keeper may not signal, nor one that was made since, without the descriptor.
# And what the next keeper tells of its own leases is not taken for word of the first
# one's, which it cannot reach either.
#
# Control: with on_lost = "report" each is at work yet when the other host has it.
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/idioms.sh"

make_programs()
{
	cat >"$RIG/work.py" <<-END
	import sys, time
	with open("$RIG/" + sys.argv[1] + ".worked", "a") as f:
	    while True:
	        print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), file=f, flush=True)
	        time.sleep(0.01)
	END
	cat >"$RIG/hold.py" <<-END
	import fcntl, os, signal, sys, time
	work = "$RIG/work.py"
	fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
	def worker():
	    if os.fork() == 0:
	        os.execve("/usr/bin/python3", ["python3", work, sys.argv[1]], {})
	def give_up():
	    os.setgroups([])
	    os.setresgid(65534, 65534, 65534)
	    os.setresuid(65534, 65534, 65534)
	fcntl.flock(fd, fcntl.LOCK_EX)
	exec(sys.argv[2])
	signal.pause()
	END
}

# By when the worker is made, and whether it has the descriptor; or what gives them up
# works itself, and has another lock, of the same server, for longer.
declare -A HOW=(
	[before]='os.set_inheritable(fd, True); worker(); time.sleep(0.5); give_up()'
	[since]='time.sleep(0.5); give_up(); worker()'
)
names=("${!HOW[@]}")
HOW[alone]='more = open("more", "w"); give_up(); fcntl.flock(more, fcntl.LOCK_EX)
exec(open(work).read())'

# begin RULE TTL NAME...: each works under its lock, and its keepers have the lease
begin()
{
	local rule=$1 name

	rm -f "$RIG"/*.owned "$RIG/log"
	ask p pass
	rig_config A ttl="$2" connect_timeout=400ms \
		url="redis://127.0.0.1:$PROXY/0" path_more="on_lost = \"$rule\""
	sed "/^path/,\$!d; s,^path .*,path \"$MNT/more\" {,; s,ttl = .*,ttl = \"12s\"," \
		"$RIG/A.conf" >"$RIG/more.conf"
	cat "$RIG/more.conf" >>"$RIG/A.conf"
	shift 2
	# (A ttl of 3 s is short on a busy machine: it has a core when it is to renew.)
	for name; do
		: >"$RIG/$name.worked"
		chmod 666 "$RIG/$name.worked"
		dl A nice -n -20 env DLOCK_LOG="warning:$RIG/log" /usr/bin/python3 \
			"$RIG/hold.py" "$name" "${HOW[$name]}" 2>"$RIG/$name.err" &
	done
	for name; do
		ok "$rule, $name: a worker works" until_true 10 has_worked "$name"
	done
	ok "$rule: the first keepers have it, and the next ones" \
		until_true 10 have_standbys A $((2 * $#))
}

# run RULE NAME...: and each loses it, and the other host gets it
run()
{
	begin "$1" 6s "${@:2}"
	others_get "$1, " 20 "${@:2}"
}

# The keeper of nobody has one to the server.
has_connection()
{
	local fd socket

	for fd in /proc/"$(pids_of A -u 65534 -x dlock-keeper)"/fd/*; do
		socket=$(readlink "$fd" | sed -n 's/^socket:\[\(.*\)\]$/\1/p')
		[ -z "$socket" ] || ! grep -q " $socket " /proc/net/tcp || return 0
	done
	return 1
}

called()
{
	stat_of commandstats 'cmdstat_eval[a-z]*'
}

was_called()
{
	[ "$(called)" -ge "$1" ]
}

no_worker()
{
	[ "$(on A pgrep -fc 'work\.py|hold\.py')" = 0 ]
}

all_end()
{
	on A pkill -KILL -f 'work\.py|hold\.py'
	ask p pass
	ok "$1: none of them is left" until_true 20 no_keeper A
}

rig_start disks
chmod 755 "$RIG" "$MNT"
on A chmod 755 "$MNT"
make_programs
make_owner
proxy p

run report "${names[@]}"
for name in "${names[@]}"; do
	ok "report: $name works on (control)" until_true 10 works_beside "$name"
done
all_end report

run kill "${names[@]}"
ok 'kill: none works by then' no_worker
for name in "${names[@]}"; do
	took=$(last_work "$name")
	at_most "$took" -1 "kill, $name: worked for the last time $took ms after"
done
unlike "$(cat "$RIG/log")" 'dlock-keeper has ended|refused' 'kill: nothing else is said'
all_end kill

# The next keeper connects by a renewal of its own, and tells of that.
begin kill 3s alone
ok 'alone: the next keeper has a connection' until_true 20 has_connection
calls=$(called)
ok 'alone: ... and has renewed' until_true 20 was_called $((calls + 3))
others_get 'alone, ' 20 alone
ok 'alone: is dead by then' no_worker
took=$(last_work alone)
at_most "$took" -1 "alone: worked for the last time $took ms after"
all_end alone
rig_end
