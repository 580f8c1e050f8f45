#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A program becomes another one, and its descriptor is closed by that.  Its lock ends
# then, as bare, though the file server is late to open the file for its keeper, which
# has been lent the program's descriptor just before: a keeper has that for no longer
# than the program.
. "${0%/*}/../../lib/rig.sh"

rig_start share
rig_configs
mkdir "$RIG/late"
on A mkdir "$RIG/mnt.late"
on A "$BIN/lockfs" "$RIG/late" "$RIG/mnt.late" late "$RIG" || rig_die 'no lockfs'
sed -i "s|^path .*|path \"$RIG/mnt.late/\" {|" "$RIG/A.conf"
cat >"$RIG/becomes.py" <<'END'
import fcntl, os, struct, sys
name, kind = sys.argv[1:]
fd = os.open(name, os.O_RDWR | os.O_CREAT)  # closed by an execve(2)
if kind == "flock":
    fcntl.flock(fd, fcntl.LOCK_EX)
else:
    F_OFD_SETLK = 37
    fcntl.fcntl(fd, F_OFD_SETLK,
                struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
del os.environ["LD_PRELOAD"]
os.execvp("python3", ["python3", __file__.replace("becomes", "tries"), name, kind])
END
cat >"$RIG/tries.py" <<'END'
import fcntl, os, struct, sys
name, kind = sys.argv[1:]
fd = os.open(name, os.O_RDWR)
try:
    if kind == "flock":
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("it has ended")
except OSError:
    print("it is there")
END
for kind in flock OFD; do
	is "$(dl A python3 "$RIG/becomes.py" "$RIG/mnt.late/$kind" $kind)" \
		'it has ended' "$kind: as the program becomes another one"
	ok "$kind: and so does its lease" until_true 5 db_is_empty
done
rig_end
