#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A shell has the lock, and a program that it runs weakens it by the same descriptor,
# while Redis does not answer (L1).  Where it can see that a keeper has the lease, that
# is granted; where it cannot, it is refused, and the shell has its lock still: what
# was refused had obtained nothing.  So it is where a program cannot see what the
# descriptor has.
. "${0%/*}/../../lib/rig.sh"

# shell NAME COMMAND: bash on A that has the lock by descriptor 9; when it is told to,
# COMMAND runs: its status, and what the kernel says that descriptor has
shell()
{
	# shellcheck disable=SC2016 # its own
	peer "$1" dl A bash -c 'exec 9>"$1"; flock 9; echo has it; read -r _
		eval "$2"
		echo "$? $(awk "/^lock:/ { print \$5 }" /proc/$$/fdinfo/9)"
		read -r _' sh "$MNT/$1" "$2"
	hear "$1" 30
}

# weakens NAME COMMAND WANTED
weakens()
{
	shell "$1" "$2"
	# (Who has no standby may have only begun, or be about to end.)
	ok "$1: a keeper has the lease" until_true 10 have_standbys A 1
	kill -STOP "$REDIS_PID"
	ask "$1" go 60
	is "$HEARD" "$3" "$1: $2"
	ok '... and no program of this host has it otherwise' \
		eval "! on A flock -n '$1' true"
	kill -CONT "$REDIS_PID"
	ok '... nor has the other host' eval "! dl B flock -n '$1' true"
	peer_end "$1"
	ok '... until the shell ends' until_true 10 lease_is_gone "$1"
}

rig_start disks
rig_configs ttl=60s timeout=2s
cat >"$RIG/full.py" <<'END'
import fcntl, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    fcntl.flock(9, fcntl.LOCK_EX)
except OSError:
    sys.exit(71)
END
weakens seen 'flock -s 9' '0 READ'
weakens hidden 'unshare -p -f --mount-proc flock -s 9' '71 READ'
weakens nolist 'unshare -m sh -c "mount -t proc -o subset=pid proc /proc && exec flock -s 9"' \
	'71 READ'
weakens unread "python3 $RIG/full.py" '71 WRITE'

# Nor does a server that was restarted just now say whose it is.
until_true 15 redis_is_old 7
rig_configs ttl=6s timeout=2s restart_delay=6s
shell young 'flock -s 9'
ok 'young: a keeper has the lease' until_true 10 have_standbys A 1
redis_kill
redis_up
ask young go 60
is "$HEARD" '0 READ' 'young: granted'
like "$(cat "$RIG/young.err")" 'cannot weaken .*: it was restarted, and grants nothing yet;' \
	'... and said what is not done, and why'
peer_end young
rig_end
