#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Programs that change who and where they are, preloaded (L7): users, groups
# and capabilities, daemons, namespaces, tracers.  They lock nothing managed,
# behave as bare, and Redis does not hear of them.
#
# Files in *.rec are excluded, for what takes record locks (gpg takes some).
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/programs.sh"

rig_start disks
programs_start 'exclude = { "*.rec/*" }'

# --- privileges -------------------------------------------------------------
program sudo none <<'END'
sudo -n true && sudo -n -u nobody id -u; sudo -n sh -c 'exit 6'
END
program su none <<'END'
su nobody -s /bin/sh -c 'id -u; umask'; su - nobody -s /bin/sh -c 'exit 7'
END
program runuser none <<'END'
runuser -u nobody -- id; runuser -u daemon -g nogroup -- sh -c 'id -gn; exit 3'
END
program setpriv none <<'END'
setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs id
setpriv --inh-caps=-all --bounding-set=-all sh -c 'grep CapBnd /proc/self/status'
END
program 'capsh' none <<'END'
capsh --drop=cap_net_raw,cap_sys_admin --uid=65534 -- -c 'id -u; grep Cap /proc/self/status'
END
program 'chpst -u, -o, -0; setuidgid, softlimit, envdir' none <<'END'
chpst -u nobody:daemon id; chpst -o 20 sh -c 'ulimit -n'; setuidgid nobody id -u
softlimit -o 30 sh -c 'ulimit -n'; mkdir e; echo v >e/V; envdir e sh -c 'echo $V'
END
program 'a user without rights' none <<'END'
runuser -u nobody -- sh -c 'echo no >src/1; sudo -n true; cat /etc/shadow'
END
program 'ssh-agent (setgid: not preloaded)' none <<'END'
ssh-agent sh -c 'ssh-add -l; kill $SSH_AGENT_PID; exit 9'
END

# --- daemons ----------------------------------------------------------------
program start-stop-daemon none <<'END'
start-stop-daemon -S -b -m -p "$PWD/pid" -x /bin/sleep -- 100
until start-stop-daemon -T -p "$PWD/pid" -x /bin/sleep; do sleep 0.02; done
start-stop-daemon -S -p "$PWD/pid" -x /bin/sleep -- 100; echo $?
start-stop-daemon -K -p "$PWD/pid" -x /bin/sleep -R 5; rm pid
END
program 'sshd -t and ssh-keygen' none 's/SHA256:[^ ]*/HASH/' <<'END' # a new key
ssh-keygen -q -t ed25519 -N '' -f key -C c && ssh-keygen -lf key.pub
printf 'HostKey %s/key\nPidFile none\n' "$PWD" >conf
unshare -m sh -c 'mount -t tmpfs run /run && mkdir -m 755 /run/sshd
sshd -t -f "$PWD/conf"; echo Nonsense yes >>conf; sshd -t -f "$PWD/conf"'; echo $?; rm key key.pub
END
program screen none <<'END'
mkdir -m 700 s; export SCREENDIR=$PWD/s
mkfifo go; screen -dmS x sh -c 'echo in >out; read y <go'
until test -s out; do sleep 0.02; done; screen -ls | sed 's/[0-9]*\.x.*(D/x (D/;/x/!d'
screen -S x -X quit; rm -rf s go
END
program 'redis-server --daemonize' none <<'END'
redis-server --port 0 --unixsocket "$PWD/s" --save '' --daemonize yes --dir "$PWD" --logfile log >/dev/null
until redis-cli -s s ping 2>/dev/null; do sleep 0.02; done | grep PONG
redis-cli -s s set k v; redis-cli -s s bgsave >/dev/null # its child writes log, too
until redis-cli -s s info persistence | grep -q 'bgsave_in_progress:0'; do sleep 0.02; done
redis-cli -s s shutdown save; rm -f log dump.rdb
END
program 'gpg and gpg-agent, excluded' none <<'END'
mkdir -m 700 g.rec; export GNUPGHOME=$PWD/g.rec
until gpgconf --launch gpg-agent 2>/dev/null; do :; done # it naps for 5 s at most
echo text | gpg -q --batch --passphrase p --pinentry-mode loopback -c -o c.gpg
gpg -q --batch --passphrase p --pinentry-mode loopback -d c.gpg; gpgconf --kill all
rm -rf g.rec c.gpg
END
program 'socat: fork, unix socket, pty' none <<'END'
socat -t10 UNIX-LISTEN:s,fork SYSTEM:'read x; echo got $x' & p=$!
until test -S s; do sleep 0.02; done # it listens a moment later
echo a | socat -t10 - UNIX:s,forever,interval=0.02; echo b | socat -t10 - UNIX:s; kill $p; wait $p; echo $?
socat -u EXEC:'echo on a pty',pty,stderr - </dev/null | tr -d '\r'
rm -f s
END

# --- namespaces, tracing ----------------------------------------------------
program bwrap none <<'END'
bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /mnt --unshare-user --unshare-pid --unshare-ipc --die-with-parent \
	sh -c 'id -u; echo $$; ls /mnt; exit 8'
END
program 'unshare -U' none <<'END'
unshare -U -r id -u; unshare -U cat /proc/self/uid_map; unshare -Ur --map-auto true 2>/dev/null; unshare -U sh -c 'exit 5'
END
program 'unshare -pf --mount-proc, -m, -n, -T' none <<'END'
unshare -p -f --mount-proc sh -c 'echo $$; set -- /proc/[0-9]*; echo $#'
mkdir m; unshare -m sh -c 'mount -t tmpfs t m; touch m/x; ls m'; ls m; unshare -n grep -c : /proc/net/dev; unshare -T true
END
program nsenter none <<'END'
mkfifo up go; unshare -U -r -m -u sh -c 'hostname inside; echo >up; read x <go' & read x <up
nsenter -t $(pgrep -P $!) -U -u --preserve-credentials hostname 2>/dev/null || nsenter -t $! -U -u --preserve-credentials hostname
echo >go; wait; rm up go
END
program chroot none <<'END'
chroot / sh -c 'echo in'; chroot --userspec=65534:65534 / id -u; chroot src /bin/sh; echo $?
END
program strace none <<'END'
strace -f -qq -e trace=exit_group -e signal=none sh -c 'true; sh -c "exit 3"; exit 4' 2>out; echo $?
sed 's/^\[pid *[0-9]*\] //' out | sort; rm out
END
program 'gdb --batch' none <<'END'
gdb -nx -q --batch -ex 'catch syscall exit_group' -ex run -ex 'info inferiors' --args /bin/false 2>&1 | grep -cE 'Catchpoint 1 \(call to|process [0-9]'
END
program 'nohup, setsid, timeout, nice, taskset, prlimit' none <<'END'
nohup sh -c 'echo a' 2>/dev/null; setsid -w sh -c 'exit 3'; echo $?; timeout 0.1 sleep 5; echo $?
timeout -s KILL 0.1 sh -c 'sleep 5'; echo $?; nice -n 5 nice; taskset 1 nproc; prlimit --nofile=64 sh -c 'ulimit -n'
env -i sh -c 'echo empty'; exec 7<src/1; sh -c 'cat <&7'
END
program 'script (a pty)' none <<'END'
script -qec 'tty >/dev/null && echo yes; exit 4' /dev/null | tr -d '\r'; script -qec 'exit 4' /dev/null; echo $?
END
rig_end
