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
import errno, fcntl, os, resource, signal, subprocess, sys, threading, time
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
def try_lock(fd, how=fcntl.LOCK_EX | fcntl.LOCK_NB):
    try:
        fcntl.flock(fd, how)
    except OSError as e:
        return errno.errorcode[e.errno]
    return "locked"
def reads():
    fcntl.flock(9, fcntl.LOCK_SH)
    return unlock()
def waits_for_an_answer(thread):
    try:
        with open("/proc/self/task/%d/wchan" % thread.native_id) as f:
            return "skb" in f.read()
    except OSError:
        return False
def while_it_asks(call, then):
    said = []
    thread = threading.Thread(target=lambda: said.append(call()))
    thread.start()
    while thread.is_alive() and not waits_for_an_answer(thread):
        time.sleep(0.01)
    in_time = then(lambda: waits_for_an_answer(thread))
    thread.join()
    return said[0] if in_time else "late"
def opened(name):
    return os.open(name, os.O_RDWR | os.O_CREAT)
def become(name, number=9):
    fd = opened(name)
    os.dup2(fd, number)
    os.close(fd)
def reused(other):
    def then(asks):
        become(os.readlink("/proc/self/fd/9"))
        fcntl.flock(opened(other), fcntl.LOCK_EX)
        return True
    return while_it_asks(unlock, then)
def stolen(other, how, number=9):
    def then(asks):
        become(other, number)
        if not asks():
            return False
        fcntl.flock(number, fcntl.LOCK_EX)
        return True
    return while_it_asks(lambda: try_lock(number, how), then)
def refused(name, other, how):
    return stolen(other, how | fcntl.LOCK_NB, opened(name))
def answered_late(name, keepers):
    def then(asks):
        become(name)
        if not asks():
            return False
        for pid in keepers:
            os.kill(pid, signal.SIGCONT)
        return True
    return while_it_asks(lambda: try_lock(9), then)
def again():
    fcntl.flock(9, fcntl.LOCK_EX)
    fcntl.flock(9, fcntl.LOCK_UN)
    subprocess.run(["flock", "9"], pass_fds=(9,), check=True)
    return "again"
print("ready", flush=True)
for line in sys.stdin:
    print(eval(line), flush=True)
END

# shares FILE: s is another program than the one that has locked it, with $LOCK, and its
# lease is carried by a keeper; all of them run by $THROUGH
THROUGH=(nice -n -20)
shares()
{
	ok "$1: no keeper is left" until_true 20 no_keeper A
	: >"$RIG/log"
	# shellcheck disable=SC2016 # the inner shell's
	peer s dl A "${THROUGH[@]}" env DLOCK_LOG="warning:$RIG/log" bash -c \
		'exec 9>"$0"; flock $2 9 && exec /usr/bin/python3 "$1"' "$1" \
		"$RIG/sharer.py" "${LOCK:--x}"
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

# opens_locked FILE NAME: the same, and a keeper has another shadow than its own, locked
opens_locked()
{
	opens "$1"
	ask s 'again()'
	is "$HEARD" again "$2: locked by another shadow than its own"
	ok "$2: ... and a keeper has it" until_true 10 have_standbys A 1
}

# stop_keepers, continue_keepers: and their standbys
stop_keepers()
{
	on A pkill -STOP -x 'dlock-(keeper|standby)'
}

continue_keepers()
{
	on A pkill -CONT -x 'dlock-(keeper|standby)'
}

# goes_no_further FILE NAME: a call of s's, whose number has become FILE's, which is
# locked exclusively
goes_no_further()
{
	local h

	is "$HEARD" EBADF "$2: its number is that of another file by now"
	for h in A B; do
		is "$(dl "$h" flock -n -s "$1" true; echo $?)" 1 \
			"$2: that one is locked exclusively on $h"
	done
}

# without_descriptors WANT NAME: what s hears when it unlocks, and none is left to it
without_descriptors()
{
	ask s 'fill()'
	ask s 'unlock()'
	is "$HEARD" "$1" "$2"
}

# is_free FILE: while s has it
is_free()
{
	ok "$1: it is free" until_true 5 dl A flock -n "$1" true
	ok "$1: on B, too" until_true 5 dl B flock -n "$1" true
}

is_unlocked()
{
	is_free "$1"
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
is_free stopped
peer_end s
configs 4s

shares silent
stop_keepers
ask s 'unlock()' 30
is "$HEARD" ENOLCK 'silent: nobody answers: it is not unlocked'
like "$(cat "$RIG/log")" 'silent": it may be locked yet.*SIGCONT' '... which is said'
continue_keepers
peer_end s

# A reader that is granted beside a sharer would have another shadow than he.
configs 12s
LOCK=-s shares reads
on A pkill -STOP -x dlock-keeper
ask s 'reads()' 40
is "$HEARD" unlocked 'reads: locked and unlocked, while its keeper is stopped'
is_free reads
peer_end s
configs 4s

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
opens_locked second second
without_descriptors ENOLCK 'second: it cannot ask for that'
is "$(dl B flock -n second true; echo $?)" 1 'second: so it is locked'
peer_end s
ok 'second: with the program it is free' until_true 10 dl B flock -n second true

# While it waits for an answer, the number of its own shadow becomes that of another
# file's.
opens_locked third third
stop_keepers
ask s 'reused("fourth")' 40
is "$HEARD" EBADF 'third: its number is that of another description by now'
for h in A B; do
	is "$(dl "$h" flock -n fourth true; echo $?)" 1 \
		"fourth: locked meanwhile, it stays so on $h"
done
continue_keepers
peer_end s

# So does that of its own descriptor: a call goes on with what it was made for.
for how in SH EX; do
	ok "$how: no keeper is left" until_true 20 no_keeper A
	opens_locked "fifth-$how" "$how"
	stop_keepers
	ask s "stolen('sixth-$how', fcntl.LOCK_$how)" 40
	goes_no_further "sixth-$how" "$how"
	continue_keepers
	peer_end s
done

# So do both in the second question, of who is refused: whose lock has ended by now?
# (It takes a second; who took the number away later is to do it once more.)
for how in SH EX; do
	ok "refused, $how: no keeper is left" until_true 20 no_keeper A
	locker h dl A
	ask h "open a $MNT/seventh-$how"
	ask h 'lock a EX'
	ok "refused, $how: a keeper has it" until_true 10 have_standbys A 1
	opens spare
	stop_keepers
	for ((n = 1; n <= 5; n++)); do
		ask s "refused('seventh-$how', 'eighth-$how', fcntl.LOCK_$how)" 40
		[ "$HEARD" = late ] || break
	done
	goes_no_further "eighth-$how" "refused, $how"
	continue_keepers
	peer_end s h
done

# It becomes that of another description of the same file, and a keeper answers: what it
# has is not the shadow of that one.
for ((n = 1; n <= 5; n++)); do
	ok "answered ($n): no keeper is left" until_true 20 no_keeper A
	# shellcheck disable=SC2016 # the inner shell's
	peer s dl A bash -c 'exec 9>"$0"; flock 9; /usr/bin/python3 "$1"; :' \
		ninth "$RIG/sharer.py"
	hear s
	ok "answered ($n): a keeper has it" until_true 10 have_standbys A 1
	stop_keepers
	ask s "answered_late('ninth', [$(on A pgrep -x 'dlock-(keeper|standby)' | paste -sd,)])" 40
	continue_keepers
	[ "$HEARD" = late ] || break
	peer_end s
done
is "$HEARD" EBADF 'answered: its number is that of another description by now'
ask s 'try_lock(9)'
is "$HEARD" EAGAIN '... which is refused: the first one is locked'
peer_end s

shares plain/f
without_descriptors unlocked 'without a shadow: it takes no descriptor to unlock'
is_unlocked plain/f
peer_end s

mkdir "$RIG/far" "$RIG/locks"
on A mkdir far
on A "$BIN/lockfs" "$RIG/far" "$MNT/far" flush "$RIG/locks" ||
	rig_die 'no lockfs'
server=$(on A pgrep -x lockfs)
# What may not compare descriptors (kcmp(2)) does not say that there is no shadow.
THROUGH+=("$BIN/refused" kcmp)
shares far/g
THROUGH=(nice -n -20)
ask s 'unlock()'
is "$HEARD" ENOLCK 'confined: it is not unlocked'
like "$(cat "$RIG/log")" 'g": it may be locked yet.*kcmp' '... which is said'
peer_end s
ok 'confined: with the program it is free' until_true 10 db_is_empty

# Nor are two descriptions one because of what cannot be compared.
# shellcheck disable=SC2016 # the inner shell's
peer s dl A "$BIN/refused" kcmp bash -c \
	'exec 5<>"$0" 6<>"$0"; /usr/bin/python3 "$1"; :' far/h "$RIG/sharer.py"
hear s
ask s 'fcntl.flock(5, fcntl.LOCK_EX)'
ok 'two: one is locked, and a keeper has it' until_true 10 have_standbys A 1
ask s 'os.close(5)'
ask s 'try_lock(6)'
is "$HEARD" EAGAIN 'two: closed, the shell has it yet: the other one is refused'
peer_end s

# What has a file of a file server that is away may not wait for that to close it.
shares far/f
on A kill -STOP "$server"
ask s 'unlock()'
is "$HEARD" unlocked 'a file server is away: unlocked'
ok '... and so it is on all hosts' until_true 5 db_is_empty
is "$(cat "$RIG/log")" '' '... nothing to say'
on A kill -CONT "$server"
peer_end s
rig_end
