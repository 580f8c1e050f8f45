#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# In a container the keeper is killed with process 1, so nobody releases what
# its last program had (DESIGN L4): at exit the ttl is cut to a second.  Not of
# what another process has too, nor elsewhere than in a pid namespace; and who
# takes long to end, to write what is buffered, keeps its lock meanwhile.
. "${0%/*}/../../lib/rig.sh"

TTL=120   # s: longer than all of this takes on a busy machine
LEFT=4000 # ms, at most: a second, and what fourteen programs take to start

# contain COMMAND...: as process 1.  (A server is given 0.2 s to cut it, of which a busy
# machine may take all: so it has a core; and a second is not long there, either.)
contain()
{
	dl A nice -n -20 unshare -p -f --mount-proc --kill-child "$@" </dev/null
}

# In ms, for how long another host waits for all of these.
waits()
{
	local begin name pids=()

	begin=$(now)
	for name; do
		dl B timeout 60 /usr/bin/python3 "$RIG/take.py" "$name" &
		pids+=($!)
	done
	wait "${pids[@]}"
	echo $((($(now) - begin) / 1000000))
}

shell_is_gone()
{
	! kill -0 "${PEER_PID[shell]}" 2>/dev/null
}

rig_start disks
rig_configs ttl=${TTL}s
cat >"$RIG/records.py" <<'END'
import fcntl, os, struct, sys

fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
cmd = fcntl.F_SETLK if sys.argv[2] == "POSIX" else 37
fcntl.fcntl(fd, cmd, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 10, 0))
END
cat >"$RIG/take.py" <<'END'
import fcntl, sys

f = open(sys.argv[1], "w")
fcntl.flock(f, fcntl.LOCK_EX)
fcntl.lockf(f, fcntl.LOCK_EX)
END

ways=(exit _exit quick_exit exit_group exit-thread pthread_exit)
for way in "${ways[@]}"; do
	contain "$BIN/lock_enders" "$way" "$way" now >/dev/null 2>"$RIG/$way.err"
done
contain flock flock.1 true
contain flock flock.2 sh -c 'exit 0'
contain flock -s flock.3 true
contain bash -c 'flock tini.1 true; exit 0'
contain bash -c 'flock -o tini.2 true; exit 0'
contain bash -c 'flock -s tini.3 sh -c "exit 0"; exit 0'
contain /usr/bin/python3 "$RIG/records.py" posix POSIX
contain /usr/bin/python3 "$RIG/records.py" ofd OFD
is "$(cat "$RIG"/*.err)" '' 'nothing is said'
note "$(rr dbsize) keys are left"
took=$(waits "${ways[@]}" flock.{1,2,3} tini.{1,2,3} posix ofd)
in_time "$took" $LEFT "another host waits for a second ($took ms)" 1000
rig_empty 2 'and then there is none'

# The shell has it too, and goes on.
cp_new locked go
peer shell dl A unshare -p -f --mount-proc --kill-child bash -c "
	exec 9>shared
	flock 9
	echo >$RIG/cp/locked
	read -r _ <$RIG/cp/go"
ok 'a shell has a lock that flock(1) took' cp_wait locked
at_least "$(rr pttl "dlock:$MNT/shared")" $((TTL * 900)) 'its ttl is whole'
cp_reach go
until_true 5 shell_is_gone
rr flushall >/dev/null

# The container's first program, though, is everybody's.
cat >"$RIG/slow.py" <<'END'
import ctypes, fcntl, os, sys

libc = ctypes.CDLL(None)
stdout = ctypes.c_void_p.in_dll(libc, "stdout")
room = ctypes.create_string_buffer(1 << 20)
libc.setvbuf(stdout, room, 0, 1 << 20)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
for wait in sys.argv[2:]:
    open(wait).readline()
libc.printf(b"%s", b"x" * 300000)
os.write(2, b"ends\n")
libc.exit(0) # Python would write it before
END
mkfifo "$RIG/slow"
exec {slow}<>"$RIG/slow"
contain /usr/bin/python3 "$RIG/slow.py" slow >"$RIG/slow" \
	2>"$RIG/slow.err" &
writer=$!
ends()
{
	grep -qs ends "$RIG/slow.err"
}

is_cut()
{
	local left

	left=$(rr pttl "dlock:$MNT/slow")
	[ "$left" -gt 0 ] && [ "$left" -le 1000 ]
}

ok 'who writes what is buffered takes its time' until_true 5 ends
ok 'its ttl is cut' until_true 5 is_cut
token=$(rr get "dlock:$MNT/slow")
like "$token" '^dlock1 ' 'it has it'
sleep 2.5
is "$(rr get "dlock:$MNT/slow")" "$token" 'it is renewed all the same'
at_most "$(rr pttl "dlock:$MNT/slow")" 1000 'by the short ttl'
head -c 300000 <&"$slow" >/dev/null
wait "$writer"
in_time "$(waits slow)" $LEFT 'written: another host waits for a second' 1000

# So does who has hold_at_least, be it longer or shorter than the ttl, and when it
# is over before the end is.
for ttl in 2 $TTL; do
	rig_configs ttl="${ttl}s" connect_timeout=300ms \
		path_more='hold_at_least = "4s"'
	: >"$RIG/slow.err"
	contain /usr/bin/python3 "$RIG/slow.py" "least.$ttl" \
		>"$RIG/slow" 2>"$RIG/slow.err" &
	writer=$!
	ok "ttl ${ttl}s, hold_at_least 4s: it takes its time" until_true 5 ends
	token=$(rr get "dlock:$MNT/least.$ttl")
	sleep 5
	is "$(rr get "dlock:$MNT/least.$ttl")" "$token" 'it has it as long as that'
	ok 'and no other host has' refused_for 1000 "least.$ttl"
	at_most "$(rr pttl "dlock:$MNT/least.$ttl")" 4000 'by no whole ttl'
	head -c 300000 <&"$slow" >/dev/null
	wait "$writer"
	ok 'written: it is free soon' until_true 6 lease_is_gone "least.$ttl"
done
rig_configs ttl=${TTL}s

# The server does not answer while a program takes longer to end than a ttl that
# is cut: it is not cut, and so the program is not stopped (L6).  Its keeper
# releases the lease.
proxy mute
rig_config A ttl=${TTL}s url="redis://127.0.0.1:$PROXY/0"
: >"$RIG/log"
dl A env DLOCK_LOG="debug:$RIG/log" /usr/bin/python3 "$RIG/slow.py" muted \
	"$RIG/cp/go" >"$RIG/slow" 2>"$RIG/slow.err" &
writer=$!
ok 'a keeper carries a lease' until_true 5 are_carried 1
ask mute hang
cp_reach go
ok 'its program takes its time to end' until_true 5 ends
sleep 3
head -c 300000 <&"$slow" >/dev/null
wait "$writer"
like "$(token_of muted)" '^dlock1 ' 'it has ended, and the server is mute yet'
ask mute pass
ok 'it answers again: the lease is released' until_true 5 lease_is_gone muted
unlike "$(cat "$RIG/log")" 'is LOST' 'and its keeper did not lose it'
rig_end
