#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Ordinary programs that take flock locks on managed files: each behaves,
# prints, writes and exits as bare, has asked Redis for a lease, and leaves
# none.  flock-programs-exclude.t shows that those leases exclude the other host.
#
# Files named *.rec are excluded, for programs that take record locks as well.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/programs.sh"

rig_start disks
programs_start 'exclude = { "*.rec" }'

# --- flock(1) ---------------------------------------------------------------
program 'flock: cmd, -c, -s, -x, -n, -E' locks <<'END'
flock f echo a; flock f -c 'echo b; exit 3'; echo $?; flock -s f flock -s -n f echo c
flock f flock -n f echo no; echo $?; flock f flock -E 9 -n f echo no; echo $?
flock -s f flock -n f true; echo $?; flock f false; echo $?; flock f /no/such; echo $?
END
program 'flock: -w, -F, -o, --verbose' locks 's/took [0-9.]+/took T/' <<'END' # a time
flock f flock -w 0.1 f echo no; echo $?; flock f flock -w 0.1 -E 7 f true; echo $?
flock -F f sh -c 'flock -n f true; echo $?'; flock -o f sh -c 'flock -n f true; echo $?'
flock --verbose f echo v; flock -n -w 1 src echo a directory; flock --verbose -s f flock -n --verbose f true
END
program 'flock: a number, -u' locks <<'END'
exec 9>f; flock 9; flock -n f true; echo $?; flock -u 9; flock -n f true; echo $?
flock -s 9; flock -s -n f true; echo $?; flock -n f true; echo $?; exec 9>&-; flock -n f true; echo $?
flock 8; echo $?; flock x </dev/null; echo $?
END
# (Whether the shell says "Terminated" is a matter of who looks first, bare as well.)
program 'flock: a signal while it waits' locks '/^Terminated$/d' <<'END'
mkfifo up go; flock f sh -c 'echo >up; read x <go' & read x <up
flock f true & w=$!; sleep 0.1; kill $w; wait $w; echo $?; timeout 0.1 flock f true; echo $?
echo >go; wait; flock -n f echo free; rm up go
END
program 'flock: a job that outlives it' locks <<'END'
mkfifo up go; flock f sh -c '(echo >up; read x <go; echo job >>out) & exit 5'; echo $?; read x <up
flock -n f true; echo $?; echo >go; flock f cat out; rm up go
END
for shell in dash bash 'busybox sh'; do
	program "$shell: exec 9>f; flock 9" locks <<-END
	cat >script <<'SH'
	exec 9>f; flock 9 || exit 1; flock -n f true; echo \$?; (flock -n f true; echo \$?)
	( flock 8; echo in; cat src/1 | cat; flock -n g true; echo \$? ) 8>g; flock -n g true; echo \$?
	x=\$(flock -n f echo no; echo \$?); echo \$x; sh -c 'flock -n f true; echo \$?'; exit 3
	SH
	$shell script; echo \$?; flock -n f echo free
	END
done
program 'mksh, whose descriptors are close-on-exec' locks <<'END'
mksh -c 'exec 9>f; flock 9; echo $?; flock 9 9>&9; flock -n f true; echo $?; exec 9>&-; flock -n f true; echo $?'
END
program 'busybox sed -i and xargs, under flock' locks <<'END'
flock f busybox sed -i s/line/LINE/ src/1; flock f busybox find src -name '1*' | flock g busybox xargs cat
END

# --- other wrappers ---------------------------------------------------------
program 'chpst -l and -L (runit)' locks <<'END'
chpst -l f sh -c 'chpst -L f echo no; echo $?; exit 3'; echo $?; chpst -L f echo yes; flock -n f echo free
END
program 'setlock (daemontools)' locks <<'END'
setlock f sh -c 'setlock -n f echo no; echo $?; setlock -nx f echo no; echo $?; exit 3'; echo $?
setlock -N f echo yes; setlock -n /no/f echo no; echo $?
END
program 'socat flock-ex, flock-sh-nb' locks <<'END'
socat -u OPEN:src/1,flock-ex STDOUT; socat -u EXEC:'flock -n src/1 echo free' STDOUT
flock src/1 socat -u OPEN:src/1,flock-sh-nb STDOUT 2>/dev/null; echo $?
END

# --- supervisors and loggers ------------------------------------------------
program 'runsv, sv (runit)' locks <<'END'
mkdir svc; printf '#!/bin/sh\necho ran >>../out\nexec sleep 100\n' >svc/run; chmod +x svc/run
runsv svc & until sv check ./svc >/dev/null && test -s out; do sleep 0.02; done
runsv svc 2>&1; echo $?; sv -w 60 exit ./svc | sed 's/[0-9]*s/T/'; wait; rm -rf svc/supervise
END
program 'supervise, svc (daemontools)' locks <<'END'
mkdir svc; printf '#!/bin/sh\necho ran >>../out\nexec sleep 100\n' >svc/run; chmod +x svc/run
supervise svc & until svok svc && test -s out; do sleep 0.02; done
supervise svc 2>&1; echo $?; svc -dx svc; wait; svok svc; echo $?; rm -rf svc/supervise
END
program 'svlogd and multilog' locks <<'END'
mkdir a; (echo one; until test -s a/current; do sleep 0.02; done; flock -n a/lock true; echo $? >&2; echo two) | svlogd ./a; cat a/current
(echo one; echo two) | multilog ./b; cat b/current; multilog ./b </dev/null
END
program tmux locks <<'END'
tmux -S s -f /dev/null new-session -d -x 80 -y 24 'echo in; cat'; tmux -S s list-windows -F '#{window_width}'
tmux -S s kill-server; until ! pgrep -x tmux:\ server >/dev/null; do sleep 0.02; done; rm -f s
END
program 'redis-server, cluster: nodes.conf' locks <<'END'
redis-server --port 6999 --bind 127.0.0.1 --unixsocket "$PWD/s" --save '' --cluster-enabled yes \
	--daemonize yes --dir "$PWD" --logfile log >/dev/null
until redis-cli -s s ping 2>/dev/null; do sleep 0.02; done | grep PONG; flock -n nodes.conf true; echo $?
redis-cli -s s shutdown nosave; rm -f log nodes.conf s
END
program logrotate locks 's/.* (state)/\1/' <<'END' # a date in its state
echo x >x.log; printf '"%s/x.log" {\nrotate 2\ncompress\npostrotate\necho done\nendscript\n}\n' "$PWD" >conf.rec
logrotate -f -s state conf.rec; echo $?; flock state logrotate -f -s state conf.rec; echo $?
zcat x.log.1.gz; rm x.log.1.gz state
END
program 'vim: system(), its directory in TMPDIR' locks <<'END'
vim -u NONE -i NONE -es -c 'call writefile([system("echo hi")], "v")' -c qa!; cat v
END

# --- languages --------------------------------------------------------------
program 'perl: flock and fork' locks <<'END'
perl -MFcntl=:flock -e '$| = 1; open(my $f, ">", "f"); flock($f, LOCK_EX); open(my $g, "<", "f");
print flock($g, LOCK_SH | LOCK_NB) ? "no" : $!, "\n"; if (!fork) { print flock($f, LOCK_SH | LOCK_NB), "\n"; exit 3 } wait; print $? >> 8, "\n";
print flock($g, LOCK_SH | LOCK_NB), "\n"; flock($f, LOCK_UN); print flock($g, LOCK_EX | LOCK_NB), "\n"'
END
program 'perl: GDBM_File, Storable' locks <<'END'
perl -MGDBM_File -e 'tie my %h, "GDBM_File", "d", GDBM_WRCREAT, 0640 or die; $h{$_} = $_ * 2 for 1 .. 50;
tie my %i, "GDBM_File", "d", GDBM_WRITER, 0640 or print "locked\n"; untie %h; tie %i, "GDBM_File", "d", GDBM_READER, 0640; print $i{21}, "\n"'
perl -MStorable=lock_store,lock_retrieve -e 'lock_store([1, 2], "st"); print "@{lock_retrieve(q(st))}\n"'; rm d
END
program 'python3: flock, fork, exec' locks <<'END'
/usr/bin/python3 -c '
import fcntl, os, subprocess
f = open("f", "w"); fcntl.flock(f, fcntl.LOCK_EX)
print(subprocess.call(["flock", "-n", "f", "true"]), subprocess.call(["flock", "-n", str(f.fileno())], pass_fds=[f.fileno()]))
try: fcntl.flock(open("f"), fcntl.LOCK_SH | fcntl.LOCK_NB)
except OSError as e: print(repr(e))
if os.fork() == 0: fcntl.flock(f, fcntl.LOCK_UN); os._exit(0)
os.wait(); print(subprocess.call(["flock", "-n", "f", "true"]))
os.set_inheritable(f.fileno(), True); fcntl.flock(f, fcntl.LOCK_SH)
os.execvp("sh", ["sh", "-c", "flock -n f true; echo $?; flock -s -n f true; echo $?"])'; flock -n f echo free
END
program "python3's test_fcntl: flock" locks 's/[0-9.]+ ?(sec|ms|s)\b|load avg: [0-9.]+|^[0-9:]+ |seed: .*/T/g' <<'END' # times
/usr/bin/python3 -m test -m 'test_flock*' test_fcntl; echo $?
END
program "python3's test_eintr: flock" locks 's/[0-9.]+s$/T/' <<'END' # a time
/usr/bin/python3 -c 'import unittest, test._test_eintr as t
t.EINTRBaseTest.sleep_time = 3 # the child has it for so long, that it is seen
unittest.main(t, argv=["-", "-v", "FNTLEINTRTest.test_flock"])'; echo $?
END
program 'ruby: File#flock, PStore' locks <<'END'
ruby -rpstore -e 'f = File.open("f", "w"); p f.flock(File::LOCK_EX); g = File.open("f"); p g.flock(File::LOCK_SH | File::LOCK_NB)
p system("flock", "-n", "f", "true"); Process.wait(fork { p f.flock(File::LOCK_UN) }); p g.flock(File::LOCK_SH | File::LOCK_NB)
s = PStore.new("ps"); s.transaction { s[:a] = [1, 2] }; s.transaction(true) { p s[:a] }'
END
program 'php: flock, LOCK_EX, sessions' locks <<'END'
php -r '$f = fopen("f", "c"); var_dump(flock($f, LOCK_EX), flock(fopen("f", "r"), LOCK_SH | LOCK_NB, $would), $would);
passthru("flock -n f true", $r); echo $r, "\n"; flock($f, LOCK_UN); var_dump(file_put_contents("g", "x", LOCK_EX));
ini_set("session.use_cookies", 0); session_cache_limiter(""); session_save_path("."); session_id("a"); session_start(); $_SESSION["n"] = 1;
passthru("flock -n sess_a true", $r); echo $r, "\n"; session_write_close(); passthru("flock -n sess_a true", $r); echo $r, "\n";'
END
program 'tclsh, lua: a child that locks' locks <<'END'
echo 'set p [open "|flock f cat" r+]; fconfigure $p -buffering line; puts $p x; puts [gets $p]; puts [catch {exec flock -n f true}]; close $p; puts [exec flock -n f echo free]' | tclsh
lua5.4 -e 'local p = io.popen("flock f sh -c \"echo in; cat >out\"", "w"); p:write("x\n"); p:close(); print(os.execute("flock -n f true"))'; cat out
END
program 'stress-ng --flock 4 --verify' killed 's/\[[0-9]+\]|in [0-9.]+.*s|[0-9.]+ (secs|bogo).*/N/g' <<'END' # pids, times
stress-ng --flock 4 --verify -t 1
END

# --- with the lock in hand ----------------------------------------------------
program 'privileges are given up under a lock' locks <<'END'
exec 9>f; flock 9; runuser -u nobody -- id -u; setpriv --reuid 65534 --clear-groups id -u; sudo -n -u nobody id -u
chpst -u nobody flock -n f true; echo $?; su nobody -s /bin/sh -c 'flock -u 9; echo $?'; flock -n f echo free
END
program 'namespaces are made under a lock' locks <<'END'
exec 9>f; flock 9; unshare -U true; echo $?; unshare -p -f --mount-proc sh -c 'flock -n f true; echo $?; flock -s 9'
flock -s -n f echo shared; bwrap --ro-bind / / --proc /proc --dev /dev --unshare-all sh -c 'echo in; flock -u 9'; flock -n f echo free
END
program 'make -j4 and gcc under a lock' locks <<'END'
printf 'all: 1 2 3 4 5 6\n%%:\n\t@flock f sh -c "read n <n; echo \\$$((n + 1)) >n; echo int x$@";\n' >Makefile
echo 0 >n; make -s -j4 -C . | sort; for i in 1 2 3; do echo "int f$i;" >f$i.c; done; ls f?.c | xargs -P3 -n1 flock f gcc -c; ls *.o; rm *.o
END
program 'git and rsync under a lock' locks <<'END'
flock f git init -q r; flock f rsync -a src/ to; flock f tar cf - src | tar tf - | wc -l; rm -rf r/.git
END
rig_end
