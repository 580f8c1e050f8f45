#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A process ends in the moment in which it has locked, before any keeper has heard
# of that (L4).  Its lease stays until its ttl: for the other host; on its own the
# kernel's lock proves it dead (L3), and is had at once.  Who shares the description
# is left with the kernel's lock, and when the ttl is over the other host has it as
# well: dlock(7), LIMITS.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
cat >"$RIG/ends.py" <<'END'
import fcntl, os, signal, sys

how, shared, f = sys.argv[1], sys.argv[2], open(sys.argv[3], 'w')
if shared == 'shared' and os.fork() == 0:
    sys.stdin.readline()
    os._exit(0)
fcntl.flock(f, fcntl.LOCK_EX)
os.abort() if how == 'abort' else os.kill(os.getpid(), signal.SIGKILL)
END

is_left()
{
	! lease_is_gone "$1" && no_keeper A
}

# One that had to wait for a core is later than those 50 ms: it is tried again.
left_behind()
{
	local file=$1 try

	for try in 1 2 3 4 5 6 7 8 9; do
		BEGAN=$(now)
		peer ends dl A python3 "$RIG/ends.py" "$2" "$3" "$file"
		until_true 10 pid_is_gone "${PEER_PID[ends]}"
		throughout 200 3 is_left "$file" && return
		note "$file: try $try was too late"
		peer_end ends
		until_true 10 lease_is_gone "$file"
	done
	return 1
}

rig_configs ttl=60s
for how in kill abort; do
	ok "$how: it ends, and its lease stays" left_behind "$how" "$how" alone
	token=$(token_of "$how")
	is "$(dl B flock -n "$how" echo granted)" '' '... the other host waits'
	is "$(token_of "$how")" "$token" '... for this lease'
	is "$(dl A flock -n "$how" echo granted)" granted '... its own has the lock'
	is "$(dl B flock -n "$how" echo granted)" granted \
		'... and then the other one, too'
	peer_end ends
done

rig_configs ttl=3s
ok 'shared: it ends, and its lease stays' left_behind shared kill shared
is "$(dl B flock shared echo granted)" granted '... the other host has it'
at_least $((($(now) - BEGAN) / 1000000)) 3000 '... no sooner than by its ttl'
is "$(on A flock -n shared echo granted)" '' \
	"... though the kernel's lock is there"
peer_end ends
ok '... until its sharer ends' until_true 5 on A flock -n shared true
rig_end
