#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A shadow is locked for as long as the program's description lives (DESIGN L4), where
# its keeper may not look for that any more, too: the program has become one that is
# not dumpable (proc(5), kcmp(2)), as by setuid(2).  Nobody else has the lock until it
# is given back, on this host and on another one.
. "${0%/*}/../../lib/rig.sh"

# Each line it is told is a step of its own.
make_steps()
{
	cat <<-END
	import ctypes, fcntl, os, sys
	fd = os.open(sys.argv[1], os.O_RDWR)
	for line in sys.stdin:
	    exec(line)
	    print("done", flush=True)
	END
}

has_keeper()
{
	have_standbys A 1
}

not_granted()
{
	! dl "$1" flock -n f true
}

# Regular files, which cannot be polled (epoll(7)).
rig_start disks
chmod 711 "$RIG"
on A chmod 755 "$MNT"
for h in A B; do
	rig_config "$h" ttl=6s path_more='local = "shadow"'
	echo "state_dir = \"$RIG/state.$h\"" >>"$RIG/$h.conf"
	mkdir -m 1777 "$RIG/state.$h"
	on "$h" sh -c 'touch f; chmod 666 f'
done
make_steps >"$RIG/steps.py"
: >"$RIG/log"
chmod 666 "$RIG/log"
peer p dl A setpriv --reuid 65534 --regid 65534 --clear-groups \
	env DLOCK_LOG="warning:$RIG/log" /usr/bin/python3 "$RIG/steps.py" f
ask p 'fcntl.flock(fd, fcntl.LOCK_EX)'
is "$HEARD" 'done' 'it has the lock'
ok '... and a keeper' until_true 10 has_keeper
ask p 'ctypes.CDLL(None).prctl(4, 0)'
is "$HEARD" 'done' '... and may not be looked into from now on'
for h in A B; do
	ok "refused on $h, for as long" throughout 1500 20 not_granted "$h"
done
is "$(cat "$RIG/log")" '' 'nothing to say'
ask p 'fcntl.flock(fd, fcntl.LOCK_UN)'
for h in A B; do
	ok "... given back, it is free on $h" until_true 5 dl "$h" flock -n f true
done
ask p 'fcntl.flock(fd, fcntl.LOCK_EX)'
peer_end p
ok '... and when it has ended' until_true 10 dl A flock -n f true
rig_end
