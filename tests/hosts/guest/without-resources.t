#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Programs at the edge (L7): without descriptors, processes, memory, a reader
# of their standard error, an environment; daemons; before any constructor and
# after the last destructor; of 32 bits.  What dlock cannot do
# there is ENOLCK and a line (L8), never a crash, and nothing is left.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=20s timeout=5s
program=$BIN/without_resources
shim=$BUILD/libdlock-preload.so
sink=$RIG/silent.conf
cp "$RIG/A.conf" "$sink"
sed -i 's,^    url = .*,    url = "unix:///nonexistent.sock",
	s,timeout = "5s",timeout = "100ms",' "$sink"

# unreachable COMMAND...: under dlock, on A, without a Redis
unreachable()
{
	on A env LD_PRELOAD="$shim" DLOCK_CONFIG="$sink" "$@"
}

# refused FILE: to the other host
refused()
{
	! dl B flock -n "$1" true
}

# --- few descriptors ----------------------------------------------------------

for few in 64 16 12 8 7 6 5; do
	status=0
	# shellcheck disable=SC2016 # the inner shell's
	dl A sh -c 'ulimit -n "$0"; exec flock few true' "$few" \
		2>"$RIG/err" || status=$?
	if [ "$status" = 0 ]; then
		pass "$few descriptors: works"
	else
		like "$(cat "$RIG/err")" 'dlock: .*ENOLCK' \
			"$few descriptors: a line"
		like "$(cat "$RIG/err")" 'No locks available' \
			"$few descriptors: ENOLCK"
	fi
	[ "$few" -lt 12 ] || is "$status" 0 "$few descriptors suffice"
	# Without a keeper it lasts until its ttl, and that is said.
	if [ "$few" -lt 12 ] && grep -q 'ends by its ttl' "$RIG/err"; then
		rr del "dlock:$MNT/few" >"$RIG/del"
	fi
	ok "$few descriptors: no lease is left" until_true 2 lease_is_gone few
done

most=$(ulimit -Hn)
[ "$most" != unlimited ] || most=1000000000
for try in 1000000000 1048576; do
	(ulimit -n "$try") 2>/dev/null && most=$try && break
done
# size HOST-RUNNER LIMIT NAME: in kB
size()
{
	# shellcheck disable=SC2016 # the inner shell's
	"$1" A sh -c 'ulimit -n "$0"; exec "$@"' "$2" "$program" sizes sizes |
		sed -n "s/^$3:[^0-9]*\\([0-9]*\\) kB/\\1/p"
}
for name in VmSize VmRSS; do
	more=$(($(size dl "$most" "$name") - $(size dl 64 "$name")))
	note "$name: $(size on 64 "$name") kB bare," \
		"$(size dl 64 "$name") with 64 descriptors," \
		"$(size dl "$most" "$name") with $most"
	at_most "$more" 400 "$most descriptors cost $more kB of $name"
done

# --- few processes, little memory ---------------------------------------------

is "$(on A "$program" alone few2)" 0 'one process: bare'
is "$(dl A "$program" alone few2 2>"$RIG/err")" ENOLCK \
	'one process: ENOLCK'
like "$(cat "$RIG/err")" 'renewal thread.*ENOLCK' 'one process: it says why'
ok 'one process: no lease is left' until_true 2 lease_is_gone few2
ok 'one process: nor a kernel lock' on A flock -n few2 true

# The program before it has the lock, and the keeper the lease.
again()
{
	peer p dl A "$program" again "$MNT/again" "$1"
	hear p
	is "$RESULT" "$2" "one process: $1, locked again as a reader"
	ok "... and has its lock" eval '! on A flock -n again true'
	locker other dl B
	ask other 'open f again'
	ask other 'lock f EX NB'
	is "$RESULT" EAGAIN '... and its lease'
	peer_end other
	say p go
	peer_end p
	ok '... until it ends' until_true 5 lease_is_gone again
}
on A touch again
on A chmod 666 again
again SH ENOLCK
again EX 0

# --- refused calls --------------------------------------------------------------

# A keeper that cannot be started is none, whatever the errno is: EPERM is said, too,
# where a policy forbids its execution.
for call in capget socketpair; do
	is "$(dl A timeout -s KILL 60 "$BIN/refused" "$call" flock refused echo went \
		2>"$RIG/err"; echo $?)" $'went\n0' "$call is refused: works, and ends"
	like "$(cat "$RIG/err")" 'no keeper for the lease .*not permitted' \
		"... and it is said that there is no keeper"
	rr del "dlock:$MNT/refused" >"$RIG/del"
done

# What the keeper had of the shell's would be locked for ever, and the pipe have no
# end.
# shellcheck disable=SC2016 # its own
is "$(dl A "$BIN/refused" close_range sh -c 'exec 9>shell 8>&1; flock 9; echo went' \
	2>"$RIG/err" | timeout -s KILL 20 cat; echo "${PIPESTATUS[1]}")" $'went\n0' \
	'close_range is refused: the pipe ends with its program'
is "$(cat "$RIG/err")" '' '... and there is a keeper'
ok '... which releases what the program had' until_true 5 lease_is_gone shell

# (A token has 32 digits of it.)
for n in 1 2; do
	dl A timeout -s KILL 20 "$BIN/refused" getrandom flock "random$n" \
		redis-cli -s "$RIG/redis.sock" get "dlock:$MNT/random$n"
done >"$RIG/out" 2>"$RIG/err"
is "$(wc -l <"$RIG/out") $(cut -d' ' -f2 "$RIG/out" | sort -u | grep -cE \
	'^[0-9a-f]{32}$') $(cat "$RIG/err")" '2 2 ' \
	'getrandom is refused: works, and each token is its own'

worked=0 said=0
for mib in 3 4 5 6 7 8 12 16 24 32 64 128; do
	bare=$(on A "$program" memory memory "$mib" 2>/dev/null </dev/null)
	with=$(dl A "$program" memory memory "$mib" 2>"$RIG/err" </dev/null)
	case $bare/$with in
	0/0)
		worked=$((worked + 1))
		;;
	0/ENOLCK)
		said=$((said + 1))
		like "$(cat "$RIG/err")" ENOLCK "$mib MiB: a line"
		;;
	*)
		fail "$mib MiB: bare '$bare', with dlock '$with'"
		diag "$(cat "$RIG/err")"
		;;
	esac
	until_true 2 lease_is_gone memory || fail "$mib MiB: a lease is left"
done
at_least "$worked" 3 "memory: with $worked limits it works"
at_least "$said" 1 "memory: with $said it is refused"
is "$(on A "$program" memory /dev/null 4 </dev/null)" \
	"$(dl A "$program" memory /dev/null 4 </dev/null)" \
	'memory: what is not managed is as bare'

# What it has locked is a list, too; the kernel's is not changed where that cannot
# be: or it would have what others have been granted meanwhile.
peer p dl A "$program" split split
locker a dl A
locker b dl B
ask a 'open f split'
ask b 'open f split'
hear p
is "$RESULT" ENOLCK 'memory: an unlock that makes two ranges of one'
hear p
is "$RESULT" ENOLCK '... and a weaker lock that does'
like "$(cat "$RIG/p.err")" 'no memory.*ENOLCK' '... a line'
ask a 'range f F_WRLCK 799 1'
is "$RESULT" EAGAIN '... which is locked still'
ask a 'range f F_RDLCK 901 1'
is "$RESULT" EAGAIN '... and for writing'
ask a 'range f F_UNLCK 0 0'
ask b 'range f F_WRLCK 799 1'
is "$RESULT" EAGAIN '... for the other host, too'
say p go
hear p
is "$RESULT" 0 '... and can be locked once more'
say p go
peer_end p a b
ok '... and unlocked' until_true 5 lease_is_gone split%rec

# --- where no page can be wiped in a child ------------------------------------

# unwiped COMMAND...: madvise(2) has no MADV_WIPEONFORK, as before Linux 4.14
unwiped()
{
	dl A strace -f -qq -o "$RIG/strace" -e trace=madvise \
		-e inject=madvise:error=EINVAL "$@"
}
locker other dl B
ask other 'open f unwiped'
ask other 'lock f EX'
is "$(unwiped flock -n -E 7 unwiped true 2>/dev/null; echo $?)" 7 \
	'unwiped: another host keeps it out'
like "$(cat "$RIG/strace")" 'MADV_WIPEONFORK.*INJECTED' '... (control)'
ask other 'lock f UN'
is "$(unwiped flock -n unwiped sh -c 'flock -n unwiped true; echo $?')" 1 \
	'... a child that was forked is another process'
ok '... and the lease goes with the lock' until_true 2 lease_is_gone unwiped
# Its child has its number, in a namespace of its own, and none of its locks.
peer p dl A strace -f -qq -o "$RIG/strace" -e trace=madvise \
	-e inject=madvise:error=EINVAL unshare -m -p -f --mount-proc \
	/usr/bin/python3 -c '
import ctypes, fcntl, os, sys
f = open(sys.argv[1], "w")
fcntl.lockf(f, fcntl.LOCK_EX)
if ctypes.CDLL(None).unshare(0x20000000):
	sys.exit("unshare")
if os.fork() == 0:
	f.close()
	os._exit(0)
os.wait()
print("closed", flush=True)
sys.stdin.readline()' "$MNT/number1"
hear p 20
is "$HEARD" closed '... a child of a namespace of its own closes the file'
ok '... and it stays locked' eval '! until_true 3 lease_is_gone number1%rec'
ask other 'open g number1'
ask other 'range g F_WRLCK 0 1'
is "$RESULT" EAGAIN '... for all hosts'
say p go
peer_end p other
ok '... until the container ends' until_true 20 lease_is_gone number1%rec

# --- standard error ---------------------------------------------------------

for what in broken full; do
	is "$(unreachable timeout -s KILL 600 "$program" "$what" err)" 'ENOLCK
none pending' "standard error is $what: the program lives"
done

# A unix socket whose other end is closed: SIGPIPE, at the first byte.
rig_config A url="unix://$RIG/redis.sock" ttl=20s
locker p dl A
ask p 'open a pipe'
for _ in 1 2 3; do
	ask p 'lock a EX'
	is "$RESULT" 0 'SIGPIPE: locks'
	rr client kill type normal skipme yes >"$RIG/killed"
	ask p 'lock a UN'
	is "$RESULT" 0 'SIGPIPE: unlocks, on a broken connection'
done
peer_end p
ok 'SIGPIPE: gone' until_true 2 lease_is_gone pipe
rig_config A ttl=20s

# --- storage of threads, the environment ------------------------------------

peer tls dl A env LD_PRELOAD="$shim:$BIN/much_tls.so" "$program" empty tls
peer empty dl A "$program" empty empty
for what in tls empty; do
	hear "$what"
	is "$HEARD" 0 "$what: locks"
	ok "$what: refused to the other host" refused "$what"
	say "$what" go
	ok "$what: gone" until_true 2 lease_is_gone "$what"
	is "$(cat "$RIG/$what.err")" '' "$what: nothing was said"
done

# --- daemons ----------------------------------------------------------------

pid_of_daemon()
{
	read -r pid fd result < <(on A cat "$1" 2>/dev/null) &&
		[ -n "$result" ]
}
on A "$program" daemon bare-daemon </dev/null
dl A "$program" daemon daemon </dev/null
until_true 5 pid_of_daemon bare-daemon
bare=$fd
on A kill -TERM "$pid"
ok 'daemon: up' until_true 5 pid_of_daemon daemon
is "$fd $result" "$bare 0" 'daemon: locked, by its first descriptor'
ok 'daemon: refused to the other host' refused daemon
on A kill -TERM "$pid"
ok 'daemon: gone with it' until_true 2 lease_is_gone daemon

is "$(on A "$program" bare bare; on A cat bare)" '1 2 3' \
	'without 0, 1 and 2: the next are 1, 2 and 3'
on A rm bare
is "$(dl A "$program" bare bare; on A cat bare)" '1 2 3' \
	'without 0, 1 and 2: and with dlock'

# --- early and late -----------------------------------------------------------

locker b dl B
for name in preinit ifunc; do
	ask b "open ${name::1} $name"
	ask b "lock ${name::1} EX"
	is "$RESULT" 0 "$name: the other host locks"
done
free='0 0 0 0 0 0 '
is "$(on A "$BIN/preinit" preinit)" "$free" 'preinit: bare'
is "$(dl A "$BIN/preinit" preinit)" '0 0 0 EAGAIN 0 0 ' 'preinit: refused'
ask b 'lock p UN'
is "$(dl A "$BIN/preinit" preinit)" "$free" 'preinit: granted'
ok 'preinit: gone' until_true 2 lease_is_gone preinit
is "$(dl A "$BIN/ifunc")" '0 0 0 0 0 EBADF ' 'ifunc: closes'
on A touch ifunc
is "$(on A "$BIN/ifunc")" '0 0 0 0 0 EBADF ' 'ifunc: bare'
is "$(dl A "$BIN/ifunc" 2>"$RIG/err")" '0 ENOLCK 0 0 0 EBADF ' 'ifunc: refused'
like "$(cat "$RIG/err")" 'relocated' 'ifunc: and why'
is "$(on A env LD_PRELOAD="$shim" DLOCK_DISABLE=1 DLOCK_CONFIG="$sink" \
	"$BIN/ifunc")" '0 0 0 0 0 EBADF ' 'ifunc: as bare when dlock is off'
ask b 'lock i UN'

for run in on dl; do
	is "$("$run" A "$program" late "late-$run" | tr '\n' ' ')" \
		'0 0 0 0 0 0 ' "late: $run"
done
is "$(dl A env LD_PRELOAD="$shim:$BIN/early_constructor.so" LATE=last true)" '' \
	'late: in a destructor after ours'
ok 'late: gone, too' until_true 1 lease_is_gone last
ok 'late: gone with the process' until_true 1 lease_is_gone late-dl
ok 'late: and the second' until_true 1 lease_is_gone late-dl-2

# (A host is a container: its ttl is cut at the end, keeper/container-ends.t.)
peer quick dl A "$program" quick quick
hear quick
is "$RESULT" 0 'a child of who ends: locks'
at_least "$(rr pttl "dlock:$MNT/quick")" 2000 'and does not end itself: its whole ttl'
peer_end quick
ok 'a child of who ends: gone, too' until_true 1 lease_is_gone quick

is "$(on A env LD_PRELOAD="$BIN/early_constructor.so" EARLY=early true)" '0 0 0 5' \
	'a constructor before ours: bare'
is "$(dl A env LD_PRELOAD="$shim:$BIN/early_constructor.so" EARLY=early true)" '0 0 0 5' \
	'a constructor before ours: with dlock'
ok 'a constructor before ours: gone' until_true 2 lease_is_gone early
ask b 'open e early'
ask b 'lock e EX'
is "$(dl A env LD_PRELOAD="$shim:$BIN/early_constructor.so" EARLY=early true)" \
	'11 11 11 5' 'a constructor before ours: refused'
ask b 'lock e UN'
begin_twice()
{
	"$1" A env LD_PRELOAD="${2-}$BIN/two_begin.so" FIRST=first SECOND=second true
}
is "$(begin_twice on)" '0 0' 'two threads before our constructor: bare'
is "$(begin_twice dl "$shim:")" '0 0' 'two threads before our constructor: with dlock'
ok 'two threads before our constructor: gone' until_true 2 lease_is_gone second
ask b 'open s second'
ask b 'lock s EX'
is "$(begin_twice dl "$shim:")" '0 11' \
	'two threads before our constructor: who comes second passes no lock'
ask b 'lock s UN'

# --- other ways to load ---------------------------------------------------------

is "$(dl A env LD_BIND_NOW=1 flock now echo bound)" bound 'LD_BIND_NOW'
ok 'LD_BIND_NOW: gone' until_true 2 lease_is_gone now
# Libraries with initial-exec storage share a small reserve (dlopen(3)).
echo '__thread int some[16] __attribute__((tls_model("initial-exec")));
	int *where(void); int *where(void) { return some; }' >"$RIG/some.c"
"${CC:-cc}" -shared -fPIC -o "$RIG/some0.so" "$RIG/some.c"
for n in {1..60}; do
	cp "$RIG/some0.so" "$RIG/some$n.so"
done
cat >"$RIG/load.py" <<'END'
import ctypes, fcntl, os, sys
fd = os.open("load", os.O_RDWR | os.O_CREAT)
loaded = 0
for n in range(61):
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        ctypes.CDLL(f"{sys.argv[1]}/some{n}.so").where()
        loaded += 1
    except OSError:
        pass
    fcntl.flock(fd, fcntl.LOCK_UN)
print(loaded)
END
bare=$(on A /usr/bin/python3 "$RIG/load.py" "$RIG")
at_least "$bare" 5 "dlopen: $bare libraries find storage, bare"
is "$(dl A /usr/bin/python3 "$RIG/load.py" "$RIG")" "$bare" \
	'dlopen: as many with dlock'

cat >"$RIG/narrow.c" <<'END'
#include <fcntl.h>
#include <sys/file.h>
int main(void)
{
	return flock(open("narrow", O_RDWR | O_CREAT, 0666), LOCK_EX);
}
END
why=$(i386_why_not)
if [ -z "$why" ]; then
	"${CC:-cc}" -m32 -o "$RIG/narrow" "$RIG/narrow.c" || rig_die narrow.c
	is "$(dl A "$RIG/narrow" 2>"$RIG/err"; echo $?)" 0 \
		'32 bits: ld.so runs it unlocked'
	like "$(cat "$RIG/err")" 'ld.so.*cannot be preloaded' \
		'32 bits: and says so'
	status=0
	on A "$BUILD/dlock" run -c "$RIG/A.conf" "$RIG/narrow" \
		2>"$RIG/err" || status=$?
	is "$status" 126 '32 bits: dlock run refuses'
	like "$(cat "$RIG/err")" '32-bit' '32 bits: and says why'
else
	skip '32 bits' "$why"
fi

rig_end
