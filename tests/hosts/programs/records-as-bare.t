#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# Ordinary programs that take record locks: on one host each behaves, prints,
# writes and exits as bare, and asks Redis for a lease.  (stress-ng's --lockmix
# came after the version of Debian 12; --locka, --lockf and --lockofd are what
# it mixes.)  From two hosts: record-programs-exclude.t.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/programs.sh"

rig_start disks
programs_start ""

# --- on one host ----------------------------------------------------------------
program 'stress-ng --lockf' killed 's/\[[0-9]+\]|in [0-9.]+.*s|[0-9.]+ (secs|bogo).*/N/g' <<'END'
stress-ng --lockf 2 --verify -t 1
END
program 'stress-ng --lockofd' killed 's/\[[0-9]+\]|in [0-9.]+.*s|[0-9.]+ (secs|bogo).*/N/g' <<'END'
stress-ng --lockofd 2 --verify -t 1
END
program 'stress-ng --locka' killed 's/\[[0-9]+\]|in [0-9.]+.*s|[0-9.]+ (secs|bogo).*/N/g' <<'END'
stress-ng --locka 2 --verify -t 1
END
program 'qemu-img' locks <<'END'
qemu-img create -f qcow2 d.qcow2 1M; qemu-img info d.qcow2 | grep virtual; qemu-io -c 'write -P 5 0 64k' d.qcow2 | head -1; qemu-img check d.qcow2; qemu-img convert -O raw d.qcow2 d.raw; cksum d.raw; rm d.qcow2
END
program 'svn' locks 's/^Date:.*|[0-9a-f]{8}-[0-9a-f-]{27}/D/' <<'END'
svnadmin create repo; svn co -q file://$PWD/repo wc; cd wc; echo a >a; svn add a; svn ci -qm one; echo b >>a; svn ci -qm two; svn log -q | grep -c ^r; svnadmin verify -q ../repo; cd ..; svnlook youngest repo; rm -rf repo wc
END
program 'tdb' locks <<'END'
printf 'create t.tdb\nstore a 1\nstore b 2\ntransaction_start\nstore c 3\ntransaction_commit\nshow a\ncheck\n' | tdbtool; tdbdump t.tdb; tdbbackup t.tdb; rm *.tdb*
END
program 'rrdtool' locks <<'END'
rrdtool create r.rrd --start 1000000000 --step 1 DS:x:GAUGE:2:U:U RRA:LAST:0.5:1:10
rrdtool update r.rrd 1000000001:5 1000000002:6; rrdtool fetch r.rrd LAST -s 1000000000 -e 1000000002; rrdtool dump r.rrd | cksum; rm r.rrd
END
program 'lckdo' locks <<'END'
lckdo f sh -c 'lckdo f echo no; echo $?; lckdo -q f true; echo $?; lckdo -s f true; echo $?'; lckdo -W 60 f echo yes; lckdo -s f lckdo -s f echo shared
END
program 'LMDB' locks <<'END'
mkdir db; /usr/bin/python3 -c '
import lmdb
e=lmdb.open("db"); 
with e.begin(write=True) as t: t.put(b"a",b"1")
with e.begin() as t: print(t.get(b"a"))
'; mdb_stat db | tail -3; rm -rf db
END
program 'Berkeley DB: DB_REGISTER' locks <<'END'
mkdir env; for i in 1 2; do /usr/bin/python3 -c 'from bsddb3 import db
e = db.DBEnv(); e.open("env", db.DB_CREATE|db.DB_INIT_TXN|db.DB_INIT_LOG|db.DB_INIT_LOCK|db.DB_INIT_MPOOL|db.DB_REGISTER|db.DB_RECOVER)
t = e.txn_begin(); d = db.DB(e); d.open("y.db", None, db.DB_BTREE, db.DB_CREATE, txn=t); d.put(b"k", b"v", txn=t); t.commit(); print(d.get(b"k")); d.close(); e.close()'
done; db5.3_verify env/y.db; rm -rf env
END
program 'perl: fcntl' locks <<'END'
perl -MFcntl -e '$| = 1; open(my $f, "+>", "f"); my $l = pack("s s x![q] q q i x4", F_WRLCK, 0, 0, 10, 0); print fcntl($f, F_SETLK, $l) ? "ok\n" : "$!\n";
if (!fork) { open(my $g, "+<", "f"); my $m = pack("s s x![q] q q i x4", F_WRLCK, 0, 5, 1, 0); print fcntl($g, F_SETLK, $m) ? "no\n" : "$!\n"; fcntl($g, F_GETLK, $m); my @m = unpack("s s x![q] q q i", $m); print "@m[0..3] ", $m[4] == getppid ? "parent" : $m[4], "\n"; exit 3 } wait; print $? >> 8, "\n";'
END
program 'python3: lockf' locks <<'END'
/usr/bin/python3 -c '
import fcntl, os
f = open("f", "w+"); fcntl.lockf(f, fcntl.LOCK_EX, 10, 0)
if os.fork() == 0:
    try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 5)
    except OSError as e: print(repr(e), flush=True)
    try: os.lockf(f.fileno(), os.F_TEST, 1)
    except OSError as e: print(repr(e), flush=True)
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 10); os._exit(0)
print(os.wait()[1]); os.lockf(f.fileno(), os.F_TEST, 1); fcntl.lockf(f, fcntl.LOCK_UN)'
END
program "python3's test_fcntl" locks 's/[0-9.]+ ?(sec|ms|s)\b|load avg: [0-9.]+|^[0-9:]+ |seed: .*/T/g' <<'END' # times
/usr/bin/python3 -m test -m 'test_lockf*' -m 'test_fcntl*' test_fcntl; echo $?
END
program 'dpkg: its admindir' locks <<'END'
mkdir -p adm/info adm/updates adm/triggers; touch adm/status adm/available
mkdir -p p/DEBIAN p/opt; printf 'Package: p\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n' >p/DEBIAN/control; echo x>p/opt/x
dpkg-deb -b p p.deb >/dev/null; mkdir inst; dpkg --admindir=adm --instdir=$PWD/inst --force-not-root -i p.deb; dpkg --admindir=adm -l | tail -1; rm -rf adm p p.deb
END
rig_end
