#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Ordinary programs that lock nothing on a managed path, though they work in
# one (L7, a guest): they behave, print, write and exit as bare, and Redis does
# not hear of them.  flock-as-bare.t has those that lock, and
# system-programs-as-bare.t those that change who and where they are.
#
# Files named *.rec are excluded: what takes record locks runs there.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/programs.sh"

rig_start disks
programs_start 'exclude = { "*.rec", "*.rec-*" }'

# --- the table can fail -----------------------------------------------------
is_seen 'a status' <<'END'
exit ${LD_PRELOAD:+3}
END
is_seen 'a word on standard output' <<'END'
echo ${LD_PRELOAD:+x}
END
is_seen 'a word on standard error' <<'END'
echo ${LD_PRELOAD:+x} >&2
END
is_seen 'a mode' <<'END'
test -z "$LD_PRELOAD" || chmod 600 src/7
END
is_seen 'a content' <<'END'
test -z "$LD_PRELOAD" || echo >>src/7
END
is_seen 'a process' <<'END'
test -z "$LD_PRELOAD" || setsid sleep 100 >/dev/null 2>&1 &
END
sleep_is_gone()
{
	on A pkill -x sleep
	host_is_idle A
}
until_true 5 sleep_is_gone

# --- files ------------------------------------------------------------------
program tar none <<'END'
tar cf - --sort=name --mtime=@0 src | gzip -n >a.tgz
mkdir to && tar xzf a.tgz -C to && diff -r src to/src && tar tzf a.tgz
END
program 'xz and zstd with threads' none <<'END'
head -c 3000000 /dev/zero >zeros
xz -T2 -k --block-size=500000 zeros && zstd -q -T2 -k zeros
xz -dc zeros.xz | cmp - zeros && zstd -dc zeros.zst | cmp - zeros
END
program rsync none <<'END'
rsync -a --delete src/ to && rsync -ain src/ to && rm to/3 &&
rsync -a --out-format='%i %n' src/ to
END
program 'git, with a clone and gc' none <<'END'
export GIT_AUTHOR_DATE='@1700000000 +0000' GIT_COMMITTER_DATE='@1700000000 +0000'
export GIT_CONFIG_GLOBAL=$PWD/conf
git config --global user.name n; git config --global user.email e@example.org
git config --global init.defaultBranch main; git config --global index.threads 4
git init -q repo && cp -r src repo && cd repo && git add . &&
git commit -qm one && git gc -q && git clone -q . ../clone && git status -s &&
git log --format='%H %s' && git fsck --no-progress
cd .. && rm -rf repo/.git clone/.git # indexes hold times, packs are threaded
END
program 'find and xargs -P' none <<'END'
find src -type f -print0 | xargs -0 -n1 -P4 wc -c | sort
END
# Its printing is racy of itself: 5 of 150 bare runs lose a line.
program 'parallel (moreutils)' none <<'END'
parallel -j4 sh -c 'echo $(($1 * $1)) >n$1' sh -- 1 2 3 4 5 6 7 8
END
program 'sponge, chronic, pee, ifne (moreutils)' none <<'END'
sort -r src/1 src/2 | sponge src/1; chronic sh -c 'echo no; exit 0'
echo hi | pee cat 'tr h H' | sort; : | ifne echo no; chronic sh -c 'echo e; exit 5'
END
program 'gcc and make -j4' none <<'END'
for i in 1 2 3 4 5 6; do echo "int f$i(void) { return $i; }" >f$i.c; done
echo 'int f1(void); int main(void) { return f1() - 1; }' >main.c
printf 'prog: f1.o f2.o f3.o f4.o f5.o f6.o main.o\n\t$(CC) -pipe -o $@ $^\n' >Makefile
make -s -j4 && ./prog
END
program 'ed' none <<'END'
printf '/of/s/of/OF/\nw\n!echo hi\nq\n' | ed -s src/5; cat src/5
END
# (At the end of its input, for which it looks while cat runs, it would end.)
program 'vim -es' none <<'END'
mkfifo in
vim -u NONE -i NONE -es -c '%s/line/LINE/' -c 'w !cat' -c wq src/6 <>in; cat src/6
END
program 'mawk with system and pipes' none <<'END'
mawk 'BEGIN { system("echo one"); "echo two" | getline x; print x; print "three" | "cat"; close("cat"); exit 4 }'
END
program 'sqlite3, on an excluded file' none <<'END'
sqlite3 a.rec 'create table t(n); insert into t values (1); update t set n = n + 41; select n from t; pragma integrity_check'
END

# --- packages and the system ------------------------------------------------
program 'apt-get -s' none <<'END'
apt-get -s -q install --no-install-recommends bash
END
program 'dpkg -l, -V and -S' none <<'END'
dpkg -l bash coreutils; dpkg -V bash; dpkg -S /bin/bash; dpkg-query -W -f='${Status}\n' bash
END
program 'fakeroot dpkg-deb' none <<'END'
mkdir -p p/DEBIAN p/etc
printf 'Package: x\nVersion: 1\nArchitecture: all\nMaintainer: m <m@example.org>\nDescription: d\n' >p/DEBIAN/control
echo hi >p/etc/x
chown -R 65534:65534 p
SOURCE_DATE_EPOCH=1 fakeroot sh -c 'chown -R 0:0 p; find p -exec touch -d @1 {} +; dpkg-deb -Znone -b p x.deb; stat -c %u p'
dpkg-deb -c x.deb && dpkg-deb -x x.deb to && cat to/etc/x
END
program 'update-alternatives, ldconfig -p, run-parts' none <<'END'
update-alternatives --query awk | head -4; ldconfig -p | grep -c libc.so.6
mkdir parts; printf '#!/bin/sh\necho part\nexit 3\n' >parts/a; chmod +x parts/a
run-parts --report parts
END

# --- languages --------------------------------------------------------------
program 'python3: threads, subprocess, multiprocessing' none <<'END'
cat >p.py <<'PY'
import concurrent.futures as cf, multiprocessing as mp, os, subprocess
def square(n):
    return n * n
if __name__ == "__main__":
    with cf.ThreadPoolExecutor(8) as e:
        print(sum(e.map(square, range(100))))
    for method in "fork", "spawn", "forkserver":
        with mp.get_context(method).Pool(3) as pool:
            print(method, sum(pool.map(square, range(100))))
    print(subprocess.run(["sh", "-c", "cat; exit 3"], input=b"in\n", close_fds=True, start_new_session=True))
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 5"], {})
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
/usr/bin/python3 -B p.py; /usr/bin/python3 -c 'import os; os.closerange(3, 1024); print(open("src/1").read())'
END
program "python3's test_fcntl, on an unmanaged directory" none 's/[0-9.]+ (sec|ms)|load avg: [0-9.]+|^[0-9:]+ |seed: .*/T/g' <<'END' # times
d=$(mktemp -d /dev/shm/x.XXXXXX); TMPDIR=$d /usr/bin/python3 -m test test_fcntl; s=$?; rm -rf "$d"; exit $s
END
program 'perl: fork, pipes, %SIG, alarm' none <<'END'
perl -MTime::HiRes=setitimer,ITIMER_REAL -e '$| = 1; $SIG{ALRM} = sub { print "alarm\n" }; setitimer(ITIMER_REAL, .1); select(undef, undef, undef, 5);
for (1 .. 3) { my $p = open(my $h, "-|") // die; if (!$p) { print "child $_"; exit $_ } print <$h>, "\n"; close $h; print $? >> 8, "\n" }
exec "sh", "-c", "exit 6"'
END
program 'ruby: fork, spawn, threads' none <<'END'
ruby -e 'puts (1..4).map { |i| Thread.new { `echo #{i * i}`.to_i } }.map(&:value).sum; pid = fork { exit! 4 }; Process.wait(pid); p $?.exitstatus
Process.wait(Process.daemon ? 0 : 0) rescue nil; File.write("'"$PWD"'/d", "daemon\n")'
until test -s d; do sleep 0.02; done
END
program 'php: pcntl_fork, proc_open' none <<'END'
php -r 'if (!pcntl_fork()) exit(4); pcntl_wait($s); echo pcntl_wexitstatus($s), "\n"; passthru("echo hi; exit 3", $r); echo $r, "\n";'
END
program 'tclsh and lua' none <<'END'
echo 'puts [exec sh -c {echo tcl}]; set p [open "|cat" r+]; puts $p x; flush $p; puts [gets $p]; close $p; exit 3' | tclsh; echo $?
lua5.4 -e 'local u = require "posix.unistd"; local w = require "posix.sys.wait"; local p = u.fork(); if p == 0 then u._exit(5) end print(select(3, w.wait(p))) print(io.popen("echo lua"):read("a"))'
END
program 'dash, bash, mksh, busybox sh' none <<'END'
for s in dash bash mksh 'busybox sh'; do
	$s -c 'x=$(echo sub; exit 3); echo "$x $?"; (exit 4); echo $?; sh -c "exit 6" & wait $!; echo $?; cat src/1 | cat; exec 5>f; echo to >&5; exec 5>&-; cat f'
done 2>&1
END

# --- locks of other kinds ---------------------------------------------------
program 'lockfile, dotlockfile: files as locks' none <<'END'
lockfile -1 -r1 l; lockfile -1 -r1 l; echo $?; dotlockfile -l -r 0 d; dotlockfile -l -r 0 d; echo $?; rm -f l d
END
program 'lckdo: a record lock, excluded' none <<'END'
lckdo -w l.rec sh -c 'lckdo -q l.rec echo no; echo $?; exit 3'; echo $?
END
rig_end
