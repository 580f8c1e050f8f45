#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Where a file cannot be locked in the kernel, its shadow is (DESIGN L1, L4):
# by itself and with one warning where flock answers ENOLCK, ENOSYS or
# EOPNOTSUPP or hides its locks (tests/programs/lockfs.c), and where the rule
# says so; for as long as the program's description lives, whoever has it.
# shellcheck disable=SC2016 # the jobs' shells expand these
. "${0%/*}/../../lib/rig.sh"

TTL=5 # s

rig_start disks
LOG=$RIG/log
chmod 711 "$RIG"

# configs [LOCAL]: of both hosts, with a state_dir of each.
configs()
{
	local h

	for h in A B; do
		rig_config "$h" ttl=${TTL}s connect_timeout=800ms \
			path_more="local = \"${1:-file}\""
		echo "state_dir = \"${STATE:-$RIG/state.$h}\"" >>"$RIG/$h.conf"
	done
}
configs

answers='ENOLCK ENOSYS EOPNOTSUPP own'
for answer in $answers; do
	mkdir "$RIG/share/$answer"
	for h in A B; do
		mkdir -p "$RIG/locks.$h"
		on "$h" mkdir "$answer"
		on "$h" "$BIN/lockfs" "$RIG/share/$answer" "$MNT/$answer" \
			"$answer" "$RIG/locks.$h" ||
			rig_die "host $h: no lockfs"
	done
done

key()
{
	rr get "dlock:$MNT/$1"
}

is_free()
{
	[ -z "$(key "$1")" ]
}

# --- by itself ---------------------------------------------------------------

# Two on A and one on B: one has it at a time.
one_at_a_time()
{
	local p results=''

	locker a "$RUN" A
	locker a2 "$RUN" A
	locker b "$RUN" B
	for p in a a2 b; do
		ask "$p" "open f $FILE"
	done
	for p in a a2 b; do
		ask "$p" 'lock f EX NB'
		results+=" $RESULT"
	done
	[ "$results" = ' 0 EAGAIN EAGAIN' ] || return 1
	say a2 'lock f EX'
	ask a 'close f'
	hear a2
	[ "$RESULT" = 0 ] || return 1
	ask b 'lock f EX NB'
	[ "$RESULT" = EAGAIN ] || return 1
	say b 'lock f EX'
	ask a2 'lock f UN'
	[ "$RESULT" = 0 ] || return 1
	hear b
	[ "$RESULT" = 0 ] || return 1
	peer_end b
	until_true 2 is_free "$FILE"
}

for answer in $answers; do
	locker bare on A
	ask bare "open f $answer/f"
	ask bare 'lock f EX NB'
	want=$answer
	[ "$answer" != own ] || want=0
	is "$RESULT" "$want" "$answer: what flock says there"
	peer_end bare
	for RUN in on null dl; do
		FILE=$answer/f.$RUN
		DLOCK_LOG=warning:$LOG.$answer
		export DLOCK_LOG
		if [ "$RUN" = dl ]; then
			ok "$answer: one at a time on two hosts" one_at_a_time
		elif one_at_a_time; then
			fail "$answer: not so under $RUN (control)"
		else
			pass "$answer: not so under $RUN (control)"
		fi
		unset DLOCK_LOG
	done
	ok "$answer: once more" one_at_a_time
	is "$(cat "$RIG/a.err" "$RIG/b.err")" '' "$answer: without a word"
	is "$(grep -c 'no locks that the kernel lists' "$LOG.$answer")" 2 "$answer: one line of each host"
	like "$(head -n 1 "$LOG.$answer")" \
		"$answer/f.*shadows of its files are locked, in $RIG/state" \
		"$answer: which says what happens"
done

# In one process: the kernel's answers, not the file system's.
is "$(dl A /usr/bin/python3 -c '
import errno, fcntl, os
def try_(f, op):
    try:
        fcntl.flock(f, op)
        return "0"
    except OSError as e:
        return errno.errorcode[e.errno]
f = os.open("ENOSYS/g", os.O_RDWR | os.O_CREAT)
g = os.open("ENOSYS/g", os.O_RDONLY)
p = os.open("ENOSYS/g", os.O_PATH)
print(try_(f, 3), try_(f, 8), try_(p, 2), try_(f, 2), try_(g, 5), try_(f, 1),
      try_(g, 5), try_(g, 8), try_(f, 2 | 4), try_(f, 8), try_(999, 2))')" \
	'EINVAL 0 EBADF 0 EAGAIN 0 0 0 0 0 EBADF' 'results of all kinds'

# --- its life ----------------------------------------------------------------

cat >"$RIG/still.c" <<'END'
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char c;
	int out = open(argv[1], O_WRONLY), in = open(argv[2], O_RDONLY);

	return argc != 3 || write(out, "\n", 1) != 1 || read(in, &c, 1) < 0;
}
END
"${CC:-cc}" -static -o "$RIG/still" "$RIG/still.c"

# $f the file, $locked and $go the fifos, $still a static program that uses
# them as a shell would: says that it is locked, waits for leave to go.
declare -A IDIOM=(
	[descriptor]='exec 9>$f; flock 9; $still $locked $go'
	[closed]='exec 9>$f; flock 9; $still $locked $go; exec 9>&-
		read x <$end'
	[subshell]='( flock 9; $still $locked $go ) 9>$f'
	[command]='flock $f $still $locked $go'
	[close]='flock -o $f $still $locked $go'
	[unlock]='exec 9>$f; flock 9; $still $locked $go; flock -u 9
		read x <$end'
	[convert]='exec 9>$f; flock -s 9; flock -x 9; $still $locked $go'
	[killed]='flock $f sh -c "echo \$PPID >$f.pid; exec $still $locked $go" &
		while ! read p <$f.pid; do :; done 2>/dev/null
		kill -KILL $p; wait'
	[inherits]='perl -e "\$^F = 99; open F, q(>), q($f) or die;
		flock F, 2 or die; exit if fork;
		exec q($still), q($locked), q($go)"'
	[exec]='perl -e "\$^F = 99; open F, q(>), q($f) or die;
		flock F, 2 or die; exec q($still), q($locked), q($go)"'
	[again]='exec 9>$f; flock 9; exec 9>&-; exec 9>$f; flock -n 9 &&
		$still $locked $go'
	[together]='exec 9>$f; flock 9 & flock 9; wait; $still $locked $go'
	[two]='exec 8>$f 9>&8; flock 8; exec 8>&-; $still $locked $go'
)
# By polling where nothing tells of an end (the disk), by itself (own).
places='disk own'
on A mkdir disk
on B mkdir disk
mkdir "$RIG/share/disk"
declare -A token
names=()
for place in $places; do
	configs "$([ "$place" = own ] || echo shadow)"
	for idiom in "${!IDIOM[@]}"; do
		name=$place.$idiom
		names+=("$name")
		cp_new "$name.locked" "$name.go" "$name.end"
		dl A env DLOCK_LOG="info:$RIG/log.$place" \
			f="$place/$idiom" still="$RIG/still" \
			locked="$RIG/cp/$name.locked" go="$RIG/cp/$name.go" \
			end="$RIG/cp/$name.end" bash -c "${IDIOM[$idiom]}" \
			2>"$RIG/$name.err" &
	done
	# Each program reads the configuration: it changes afterwards.
	for idiom in "${!IDIOM[@]}"; do
		name=$place.$idiom
		ok "$name: locks" cp_wait "$name.locked"
		token[$name]=$(key "${name/.//}")
		like "${token[$name]}" '^dlock1 ' "$name: has a lease"
		[ -n "${token[$name]}" ] ||
			diag "$(cat "$RIG/$name.err" "$RIG/log.$place")"
	done
done

all_refused()
{
	local name i

	for name in "${names[@]}"; do
		for i in 0 1; do
			dl "$i" flock -n "${name/.//}" true &&
				diag "granted: $name" && return 1
		done
	done
	return 0
}

refused_throughout()
{
	configs shadow
	throughout $((TTL * 3100)) 1 all_refused
}
# On both hosts: shadows on A, leases on B.
INIT[0]=${INIT[A]} INIT[1]=${INIT[B]}
ln -s A.conf "$RIG/0.conf"
ln -s B.conf "$RIG/1.conf"
ok 'refused on both hosts for 3.1 x ttl' refused_throughout
unset 'INIT[0]' 'INIT[1]'
for name in "${names[@]}"; do
	is "$(key "${name/.//}")" "${token[$name]}" "$name: the same lease"
done
for name in "${names[@]}"; do
	begin=$(now)
	cp_reach "$name.go"
	ok "$name: ends" until_true 2 is_free "${name/.//}"
	took=$((($(now) - begin) / 1000))
	in_time_us "$took" 300000 "$name: its lease is gone in $took us"
	ok "$name: and so is its shadow's lock" dl A flock -n "${name/.//}" true
	cp_reach "$name.end"
done
wait

# --- the description is passed on ---------------------------------------------

is_said_to_be_sent()
{
	grep -q "$place/p\" stays locked.* sent to process $receiver " "$LOG.sent"
}

# Whose keeper has a copy of the description, and has renewed by a connection of its own.
keeper_is_connected()
{
	for keeper in $(on A pgrep -x dlock-keeper); do
		on A ls -l "/proc/$keeper/fd" | grep -q "$place/p$" &&
			rr client list | grep -q " name=dlock-$keeper " && return
	done
	return 1
}

# No table of descriptors has it until it is received.
for place in $places; do
	configs "$([ "$place" = own ] || echo shadow)"
	peer "take.$place" dl A "$BIN/moved_descriptions" take "$RIG/sock.$place"
	hear "take.$place"
	receiver=$(on A pgrep -f "take $RIG/sock.$place")
	peer "give.$place" dl A env DLOCK_LOG="warning:$LOG.sent" \
		"$BIN/moved_descriptions" give "$place/p" "$RIG/sock.$place" -
	hear "take.$place"
	is "$HEARD" connected "$place: connected"
	on A kill -STOP "$receiver"
	ask "give.$place" go
	is "$HEARD" given "$place: sent over a socket"
	say "give.$place" go
	not_granted()
	{
		! dl A flock -n "$place/p" true && ! dl B flock -n "$place/p" true
	}
	ok "$place: sent, and not received: locked" throughout 500 3 not_granted
	if [ "$place" = disk ]; then
		ok "$place: and who should receive it is named" until_true 10 is_said_to_be_sent
		# A keeper that cannot look has found nobody, which proves nothing.
		ok "$place: its keeper is connected" until_true 10 keeper_is_connected
		ok "$place: and opens nothing more" on A prlimit --pid "$keeper" --nofile=4:
	fi
	on A kill -CONT "$receiver"
	hear "take.$place"
	is "$HEARD" got "$place: received"
	ok "$place: the receiver has the lock" throughout 200 3 not_granted
	[ "$place" = own ] || on A prlimit --pid "$keeper" --nofile=1024:
	ask "take.$place" go
	ok "$place: it closes: free" until_true 2 is_free "$place/p"
done

# --- by a thread, whose first one has ended -------------------------------------

cat >"$RIG/thread.py" <<'END'
import ctypes, fcntl, os, threading, time
fcntl.flock(os.open("disk/thread", os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
if os.fork():
    os._exit(0)
def go_on():
    while ") Z " not in open("/proc/self/stat").read():
        time.sleep(0.01)
    print("alone", flush=True)
    while os.read(0, 1):
        pass
    os._exit(0)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
END
thread_has_it()
{
	! dl A flock -n disk/thread true && ! dl B flock -n disk/thread true
}
configs shadow
peer thread dl A /usr/bin/python3 "$RIG/thread.py"
hear thread
is "$HEARD" alone 'only a second thread of a child goes on'
ok 'it has the lock' throughout 500 3 thread_has_it
peer_end thread
ok 'it ends: free' until_true 2 is_free disk/thread

# --- two alike ----------------------------------------------------------------

# One process takes two shared locks of one file; then each description is with
# another program, which knows of no shadow.  The one that ends must not take
# the other along.
cat >"$RIG/two.py" <<'END'
import fcntl, os, sys
cp = sys.argv[2]
fds = [os.open("disk/two", os.O_RDWR | os.O_CREAT) for i in (0, 1)]
for fd in fds:
    fcntl.flock(fd, fcntl.LOCK_SH)
for i in (0, 1):
    if os.fork() == 0:
        os.close(fds[1 - i])
        os.set_inheritable(fds[i], True)
        os.execv(sys.argv[1], ["still", cp + ".in%d" % i, cp + ".go%d" % i])
for fd in fds:
    os.close(fd)
print("left", flush=True)
input()
END
leases()
{
	[ "$(rr hkeys "dlock:$MNT/disk/two" | grep -c '^dlock1 ')" = "$1" ]
}
neither_writes()
{
	! dl A flock -n disk/two true && ! dl B flock -n disk/two true
}
nobody_writes()
{
	throughout $((TTL * 1500)) 2 neither_writes
}
configs shadow
for first in 0 1; do
	name="two alike, $first ends first"
	cp_new "$first.in0" "$first.go0" "$first.in1" "$first.go1"
	peer two dl A /usr/bin/python3 "$RIG/two.py" "$RIG/still" \
		"$RIG/cp/$first"
	hear two
	is "$HEARD" left "$name: locked"
	ok "$name: with one" cp_wait "$first.in0"
	ok "$name: and the other" cp_wait "$first.in1"
	ok "$name: two leases" leases 2
	cp_reach "$first.go$first"
	ok "$name: one is left" until_true 2 leases 1
	ok "$name: and stays" nobody_writes
	cp_reach "$first.go$((1 - first))"
	ok "$name: until it ends" until_true 2 is_free disk/two
	ok "$name: and so does its shadow" dl A flock -n disk/two true
	say two end
	peer_end two
done

# --- killed ------------------------------------------------------------------

configs shadow
locker a dl A
locker a2 dl A
ask a 'open f disk/k'
ask a2 'open f disk/k'
ask a 'lock f EX'
ask a pid
pid=$RESULT
say a2 'lock f EX'
begin=$(now)
on A kill -KILL "$pid"
hear a2
is "$RESULT" 0 'kill -9: the local waiter has it'
in_time_us $(((END - begin) / 1000)) 300000 \
	"kill -9: after $(((END - begin) / 1000)) us"

# --- own descriptors ----------------------------------------------------------

# dup2() onto every number that may be ours, and all others closed.
cat >"$RIG/over.py" <<'END'
import fcntl, os, sys
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(f, fcntl.LOCK_EX)
for to in range(900, 1023):
    os.dup2(1, to)
for fd in range(3, 1023):
    if fd != f:
        try:
            os.close(fd)
        except OSError:
            pass
print("locked", flush=True)
input()
os.close(f)
print("closed", flush=True)
input()
END
peer over dl A /usr/bin/python3 "$RIG/over.py" disk/o
hear over
over_refuses()
{
	! dl A flock -n disk/o true && ! dl B flock -n disk/o true
}
ok 'dup2 onto a shadow, and close loops: still locked' over_refuses
ask over go
# (What its keeper had of it that gives back when it has a core.)
ok 'closed: no longer' until_true 2 dl A flock -n disk/o true
peer_end over

# --- a state directory that is not to be trusted -------------------------------

# refuses NAME REASON: the lock fails with ENOLCK, says why, leaves nothing.
refuses()
{
	STATE=$RIG/hostile
	configs shadow
	locker a dl A
	ask a 'open f disk/h'
	ask a 'lock f EX NB'
	is "$RESULT" ENOLCK "$1: ENOLCK"
	peer_end a
	like "$(cat "$RIG/a.err")" "no shadow of it can be locked: .*$2" \
		"$1: and why"
	is "$(key disk/h)" '' "$1: nothing in Redis"
	rm -rf "$RIG/hostile"
	unset STATE
}

nobody=65534
ln -s "$RIG/state.A" "$RIG/hostile"
refuses 'a symbolic link' 'hostile Not a directory'
install -d -o $nobody -m 755 "$RIG/hostile"
refuses "another user's" 'hostile belongs to another user'
install -d -m 777 "$RIG/hostile"
refuses 'writable by all' 'can be written by others and is not sticky'
install -d -m 1777 "$RIG/hostile"
install -d -o $nobody -m 700 "$RIG/hostile/0"
refuses "in it, another user's" 'hostile/0 belongs to another user'
install -d -m 1777 "$RIG/hostile"
install -d -m 755 "$RIG/hostile/0"
refuses 'in it, one open to others' 'hostile/0 is open to others'
install -d -m 1777 "$RIG/hostile"
ln -s "$RIG/state.A/0" "$RIG/hostile/0"
refuses 'in it, a symbolic link' 'hostile/0 Not a directory'

name=$(printf '%x-%x-0' "$(on A stat -c %d disk/h)" "$(on A stat -c %i disk/h)")
install -d -m 755 "$RIG/hostile"
install -d -m 700 "$RIG/hostile/0"
mkfifo "$RIG/hostile/0/$name"
refuses 'a FIFO for a shadow' "shadow $name is not a file of the user's own"
install -d -m 755 "$RIG/hostile"
install -d -m 700 "$RIG/hostile/0"
ln -s /etc/passwd "$RIG/hostile/0/$name"
refuses 'a symbolic link for a shadow' "shadow $name Too many levels"
install -d -m 755 "$RIG/hostile"
install -d -m 700 "$RIG/hostile/0"
touch "$RIG/hostile/0/x"
ln "$RIG/hostile/0/x" "$RIG/hostile/0/$name"
refuses 'a hard link for a shadow' "shadow $name is not a file of the user's"

# --- two users ----------------------------------------------------------------

cp "$BUILD/libdlock-preload.so" "$BUILD/dlock-keeper" "$BIN/locker" "$RIG/"
as_nobody()
{
	on A setpriv --reuid $nobody --regid $nobody --clear-groups \
		env LD_PRELOAD="$RIG/libdlock-preload.so" \
		DLOCK_CONFIG="$RIG/A.conf" "$RIG/locker"
}
on A chmod 777 "$MNT" disk
configs shadow
peer n as_nobody
ask n 'open f disk/u'
ask n 'lock f EX NB'
is "$RESULT" ENOLCK 'a user without a place for shadows: ENOLCK'
peer_end n
like "$(cat "$RIG/n.err")" "$RIG/state.A/$nobody Permission denied" \
	'and the log says where it would have been'
chmod 1777 "$RIG/state.A"
peer n as_nobody
ask n 'open f disk/u'
on A chmod 666 disk/u
locker a dl A
ask a 'open f disk/u'
ask a 'lock f EX NB'
is "$RESULT" 0 'one user locks'
ask n 'lock f EX NB'
is "$RESULT" EAGAIN 'the other is refused'
say n 'lock f EX'
ask a 'lock f UN'
hear n
is "$RESULT" 0 'and granted when the first has unlocked'
ask a 'lock f EX NB'
is "$RESULT" EAGAIN 'and the other way round'
is "$(stat -c '%u %a' "$RIG/state.A/$nobody")" "$nobody 700" \
	'each has a directory of its own'
peer_end n a

# --- shadows that are out of use ----------------------------------------------

shadow_of()
{
	printf '%s/state.A/0/%x-%x-0' "$RIG" \
		"$(on A stat -c %d "$1")" "$(on A stat -c %i "$1")"
}
locker a dl A
ask a 'open f disk/held'
ask a 'lock f EX NB'
on A touch disk/idle
dl A flock -n disk/idle true
ok 'a short lock' until_true 2 is_free disk/idle
find "$RIG/state.A/0" -type f -exec touch -d '2 minutes ago' {} +
ask a 'open g disk/next'
ask a 'lock g EX NB'
ok 'out of use for a minute: removed by the next' \
	test ! -e "$(shadow_of disk/idle)"
ok 'but not while it is locked' test -e "$(shadow_of disk/held)"
# Removed by hand: whoever has it open sees that, and takes the new one.
ask a 'lock g UN'
rm "$(shadow_of disk/next)"
locker a2 dl A
ask a2 'open g disk/next'
ask a2 'lock g EX NB'
is "$RESULT" 0 'one that was removed is made anew'
ask a 'lock g EX NB'
is "$RESULT" EAGAIN 'and found by those who had the old one'
peer_end a a2

no_keeper_listens()
{
	[ -z "$(find "$RIG"/state.* -type s)" ]
}
ok 'the keepers are gone, and their sockets' until_true 3 no_keeper_listens
rig_end
