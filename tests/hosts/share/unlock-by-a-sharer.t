#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Who has another's description, but not the shadow that this locked, unlocks it by
# its keeper (shim/DESIGN.md 6.8): by its standby, if that one is stopped; also where
# a file server is away.  Where it cannot be unlocked the program is told: it would
# stay locked.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
# configs TTL: and what is below plain/ is locked in the kernel
configs()
{
	local h

	for h in A B; do
		rig_config "$h" ttl="$1" connect_timeout=400ms \
			path_more='local = "shadow" on_lost = "report"'
		rig_also "$h" plain "$MNT/plain/" ttl="$1"
		echo "state_dir = \"$RIG/state.$h\"" >>"$RIG/$h.conf"
	done
}

for h in A B; do
	mkdir "$RIG/state.$h"
	on "$h" mkdir plain
done
configs 4s

# Each line it is told is a step of its own.
cat >"$RIG/sharer.py" <<'END'
import errno, fcntl, os, resource, subprocess, sys
def unlock():
    try:
        fcntl.flock(9, fcntl.LOCK_UN)
    except OSError as e:
        return errno.errorcode[e.errno]
    return "unlocked"
spare = []
def fill():
    resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
    try:
        while True:
            spare.append(os.dup(0))
    except OSError:
        return len(spare)
def give():
    os.close(spare.pop())
    return unlock()
def born():
    fcntl.flock(9, fcntl.LOCK_EX)
    if os.fork() != 0:
        os.wait()
        os._exit(0)
    return "born"
def again():
    fcntl.flock(9, fcntl.LOCK_EX)
    fcntl.flock(9, fcntl.LOCK_UN)
    subprocess.run(["flock", "9"], pass_fds=(9,), check=True)
    return "again"
print("ready", flush=True)
for line in sys.stdin:
    print(eval(line), flush=True)
END

# shares FILE: s is another program than the one that has locked it, and its lease is
# carried by a keeper
shares()
{
	ok "$1: no keeper is left" until_true 20 no_keeper A
	: >"$RIG/log"
	# shellcheck disable=SC2016 # the inner shell's
	peer s dl A nice -n -20 env DLOCK_LOG="warning:$RIG/log" bash -c \
		'exec 9>"$0"; flock 9 && exec /usr/bin/python3 "$1"' "$1" \
		"$RIG/sharer.py"
	hear s
	is "$HEARD" ready "$1: locked, and another program has it"
	ok "$1: ... its keeper, too" until_true 10 have_standbys A 1
	is "$(dl A flock -n "$1" true; echo $?)" 1 "$1: locked on A"
}

# opens FILE: s has it open by itself
opens()
{
	# shellcheck disable=SC2016 # the inner shell's
	peer s dl A bash -c 'exec 9>"$0"; exec /usr/bin/python3 "$1"' "$1" \
		"$RIG/sharer.py"
	hear s
}

# without_descriptors WANT NAME: what s hears when it unlocks, and none is left to it
without_descriptors()
{
	ask s 'fill()'
	ask s 'unlock()'
	is "$HEARD" "$1" "$2"
}

# is_unlocked FILE: while s has it
is_unlocked()
{
	ok "$1: it is free" until_true 5 dl A flock -n "$1" true
	ok "$1: on B, too" until_true 5 dl B flock -n "$1" true
	is "$(cat "$RIG/log")" '' "$1: nothing to say"
}

shares asked
ask s 'unlock()'
is "$HEARD" unlocked 'asked: its keeper answers'
is_unlocked asked
peer_end s

configs 12s
shares stopped
on A pkill -STOP -x dlock-keeper
ask s 'unlock()' 40
is "$HEARD" unlocked 'stopped: its standby answers'
ok 'stopped: it is free' until_true 5 dl A flock -n stopped true
ok 'stopped: on B, too' until_true 5 dl B flock -n stopped true
peer_end s
configs 4s

shares silent
on A pkill -STOP -x 'dlock-(keeper|standby)'
ask s 'unlock()' 30
is "$HEARD" ENOLCK 'silent: nobody answers: it is not unlocked'
like "$(cat "$RIG/log")" 'silent": it may be locked yet.*SIGCONT' '... which is said'
on A pkill -CONT -x 'dlock-(keeper|standby)'
peer_end s

# Each time it is told the truth, however few descriptors are left.
shares limit
without_descriptors ENOLCK 'limit: no descriptor is left: it is not unlocked'
like "$(cat "$RIG/log")" 'limit": it may be locked yet.*Too many open files' '... which is said'
for ((n = 1; n <= 5; n++)); do
	[ "$HEARD" = ENOLCK ] || break
	is "$(dl B flock -n limit true; echo $?)" 1 "limit: it is locked ($n)"
	ask s 'give()'
done
is "$HEARD" unlocked "limit: unlocked"
ok 'limit: it is free' until_true 5 dl B flock -n limit true
peer_end s

# A child has its parent's shadow, and unlocks that, though it cannot see whether there
# is another one by now.
opens child
ask s 'born()'
is "$HEARD" born 'child: its parent has locked it'
without_descriptors ENOLCK 'child: it may be by another shadow by now'
ok 'child: it is free' until_true 5 dl B flock -n child true
peer_end s

# Unlocked, a shadow stays; another program opens and locks one of its own.
opens second
ask s 'again()'
is "$HEARD" again 'second: locked by another shadow than its own'
ok 'second: ... and a keeper has it' until_true 10 have_standbys A 1
without_descriptors ENOLCK 'second: it cannot ask for that'
is "$(dl B flock -n second true; echo $?)" 1 'second: so it is locked'
peer_end s
ok 'second: with the program it is free' until_true 10 dl B flock -n second true

shares plain/f
without_descriptors unlocked 'without a shadow: it takes no descriptor to unlock'
is_unlocked plain/f
peer_end s

# What has a file of a file server that is away may not wait for that to close it.
mkdir "$RIG/far" "$RIG/locks"
on A mkdir far
on A "$BIN/lockfs" "$RIG/far" "$MNT/far" flush "$RIG/locks" ||
	rig_die 'no lockfs'
server=$(on A pgrep -x lockfs)
shares far/f
on A kill -STOP "$server"
ask s 'unlock()'
is "$HEARD" unlocked 'a file server is away: unlocked'
ok '... and so it is on all hosts' until_true 5 db_is_empty
is "$(cat "$RIG/log")" '' '... nothing to say'
on A kill -CONT "$server"
peer_end s
rig_end
