#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# Ordinary programs that take record locks exclude each other from two hosts
# with disks of their own; each row without dlock and under the null shim does
# not.  Of Berkeley DB and LMDB it is the files that say who is there: their
# memory is not made distributed by locks.
. "${0%/*}/../../lib/rig.sh"

hear_held()
{
	until hear holder && [ "$HEARD" = held ]; do
		[ "$HEARD" ] || return 1
	done
}

# HOLD on A says `held` when it holds, until its input ends; then TRY on B must
# fail, and afterwards succeed.  Both in a fresh directory that PREPARE, the
# same on each host, has filled.  A TRY that waits gives up after $LIMIT seconds:
# one, but where it is to succeed a busy machine has more.
is_excluded()
{
	local h dir tried after

	number=$((number + 1))
	dir=$MNT/$number
	for h in A B; do
		on "$h" sh -c "mkdir $dir && cd $dir && $3" \
			>"$RIG/prepared" 2>&1 ||
			rig_die "$3: $(cat "$RIG/prepared")"
	done
	peer holder "$RUN" A env -C "$dir" sh -c "$1"
	hear_held || rig_die "$1: $(cat "$RIG/holder.err")"
	"$RUN" B env -C "$dir" LIMIT="${TRIES:-1}" timeout 60 sh -c "$2" \
		>"$RIG/tried" 2>&1
	tried=$?
	say holder ''
	peer_end holder
	until_true 6 db_is_empty
	"$RUN" B env -C "$dir" LIMIT=60 timeout 60 sh -c "$2" >"$RIG/after" 2>&1
	after=$?
	note "$RUN: $tried, then $after: $(tail -1 "$RIG/tried")"
	[ "$tried" != 0 ] && [ "$after" = 0 ]
}

# excluded NAME HOLD TRY [PREPARE]
excluded()
{
	three_ways "$1" is_excluded "$2" "$3" "${4:-true}"
}

rig_start disks
number=0
hold='echo held; read -r x'
excluded lckdo "lckdo f sh -c '$hold'" 'lckdo f true'
excluded 'lckdo -W' "lckdo f sh -c '$hold'" "lckdo -W \$LIMIT f true"
excluded 'qemu-io and qemu-img' \
	'{ echo length; read -r x; } | qemu-io d.qcow2 | sed -u s/.*MiB/held/' \
	'qemu-img info d.qcow2' 'qemu-img create -f qcow2 d.qcow2 1M'
excluded 'svnadmin freeze and svn' "svnadmin freeze repo -- sh -c '$hold'" \
	"timeout \$LIMIT svn mkdir -qm x file://\$PWD/repo/\$\$" \
	'svnadmin create repo'
py='/usr/bin/python3 -c'
excluded 'tdb transactions' "$py 'import os, tdb
t = tdb.open(\"t\", flags=os.O_RDWR); t.transaction_start()
print(\"held\", flush=True); input()'" \
	"timeout \$LIMIT sh -c 'echo store b 2 | tdbtool t'" \
	'echo create t | tdbtool'
lockf="$py 'import fcntl, sys
f = open(sys.argv[1], \"r+\"); fcntl.lockf(f, fcntl.LOCK_EX, 1, 5)
print(\"held\", flush=True); input()'"
# shellcheck disable=SC2016
try_perl='perl -MFcntl -e '"'"'open(my $f, "+<", "f") or die;
my $l = pack("s s x![q] q q i x4", F_RDLCK, 0, 0, 0, 0);
fcntl($f, F_SETLK, $l) or die "$!\n"'"'"
excluded "python's lockf and perl's fcntl" "$lockf f" "$try_perl" 'touch f'
# shellcheck disable=SC2016
perl_holds='perl -MFcntl -e '"'"'open(my $f, "+<", "f") or die;
my $l = pack("s s x![q] q q i x4", F_WRLCK, 0, 0, 10, 0);
fcntl($f, F_SETLK, $l) or die "$!\n"; $| = 1; print "held\n"; <>'"'"
excluded "perl's fcntl and python's lockf" "$perl_holds" \
	"$py 'import fcntl
fcntl.lockf(open(\"f\", \"r+\"), fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 9)'" \
	'touch f'
excluded 'rrdtool' "$lockf r.rrd" 'rrdtool update r.rrd N:1' \
	'rrdtool create r.rrd --step 1 DS:x:GAUGE:2:U:U RRA:LAST:0.5:1:10'
# LMDB's reader table is begun anew by who has its lock file alone; and who is
# about to begin it lets nobody in.
open_lmdb="$py 'import lmdb
e = lmdb.open(\"db\"); print(\"held\", flush=True); input()'"
excluded 'LMDB: one has it open' "$open_lmdb" \
	"$py 'import fcntl
f = open(\"db/lock.mdb\", \"r+\")
fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)'" \
	"mkdir db; $open_lmdb </dev/null || :"
excluded 'LMDB: one begins its lock file' \
	"$py 'import fcntl
f = open(\"db/lock.mdb\", \"r+\"); fcntl.lockf(f, fcntl.LOCK_EX, 1, 0)
print(\"held\", flush=True); input()'" \
	"timeout \$LIMIT mdb_stat db" "mkdir db; $open_lmdb </dev/null || :"

# Berkeley DB's register: whose byte is free there is dead, and the environment
# is recovered; and one at a time looks.
# shellcheck disable=SC2016
register="$py"' '"'"'import sys
from bsddb3 import db
e = db.DBEnv()
e.open("env", db.DB_CREATE | db.DB_INIT_TXN | db.DB_INIT_LOG | db.DB_INIT_LOCK
       | db.DB_INIT_MPOOL | db.DB_REGISTER | db.DB_RECOVER)
print("held", flush=True); sys.stdin.readline(); e.close()'"'"
excluded 'Berkeley DB: one is registered' "$register" \
	"$py 'import fcntl
f = open(\"env/__db.register\", \"r+\")
fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)'" \
	"mkdir env; $register </dev/null"
excluded 'Berkeley DB: one registers' \
	"$py 'import fcntl
f = open(\"env/__db.register\", \"r+\"); fcntl.lockf(f, fcntl.LOCK_EX, 1, 1)
print(\"held\", flush=True); input()'" \
	"timeout \$LIMIT $register </dev/null" "mkdir env; $register </dev/null"

# A package whose script waits; the host's own state is left alone.
# shellcheck disable=SC2016
package='mkdir -p adm/info adm/updates adm/triggers inst lists cache p/DEBIAN
touch adm/status adm/available
printf "%s\n" "Package: p" "Version: 1" "Architecture: all" \
	"Maintainer: a <a@b>" "Description: x" >p/DEBIAN/control
printf "#!/bin/sh\n[ -z \"\$HOLD\" ] || { echo held; read -r x; }\n" \
	>p/DEBIAN/postinst
chmod 755 p/DEBIAN/postinst
dpkg-deb -b p p.deb'
# shellcheck disable=SC2016
dpkg='dpkg --admindir="$PWD/adm" --instdir="$PWD/inst" \
	--force-script-chrootless -i p.deb'
# shellcheck disable=SC2016
apt='apt-get -o Dir::State::status="$PWD/adm/status" \
	-o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD/cache" \
	-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=/dev/null \
	-o DPkg::Lock::Timeout=0 install'
excluded 'dpkg' "HOLD=1 $dpkg" "$dpkg" "$package"
excluded 'dpkg and apt-get' "HOLD=1 $dpkg" "$apt" "$package"
# shellcheck disable=SC2016
apt_holds='printf "Dir::Etc::parts \"/nowhere\";\n" >conf; export APT_CONFIG=conf
'"${apt% install}"' -y -qq -o Dir::Bin::dpkg=/bin/true \
	-o DPkg::Pre-Invoke::="echo held; read -r x" install ./p.deb'
excluded 'apt-get and dpkg' "$apt_holds" "$dpkg" "$package"

# --- stress-ng --------------------------------------------------------------------

# It locks a file of its own; the other host asks for all of a file by that name.
# (--locka and --lockofd of this version lock nothing, bare neither: they make
# F_SETLK of what F_GETLK answered, which is F_UNLCK.)
# shellcheck disable=SC2016
ask_often='import fcntl, sys
refused = 0
for _ in range(300):
    try:
        fcntl.lockf(f := open(sys.argv[1], "a"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        f.close()
    except BlockingIOError:
        refused += 1
print(refused)'

found()
{
	file=$(on A find "$MNT/$number" -name "stress-ng-*-0-*")
	[ "$file" ]
}

is_refused()
{
	local refused file

	number=$((number + 1))
	on A mkdir "$MNT/$number"
	peer holder "$RUN" A env -C "$MNT/$number" \
		timeout -s INT 60 stress-ng -q --lockf 1 --temp-path .
	until_true 5 found || rig_die "no stress-ng: $(cat "$RIG/holder.err")"
	on B mkdir -p "${file%/*}"
	refused=$("$RUN" B /usr/bin/python3 -c "$ask_often" "$file" 2>&1)
	note "$RUN: $refused of 300 refused"
	kill -INT "${PEER_PID[holder]}"
	on A pkill -INT -x timeout
	peer_end holder
	until_true 6 db_is_empty
	[ "$refused" -gt 0 ]
}

three_ways 'stress-ng --lockf' is_refused
rig_end
