#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# replicas = 1: what the replica does not have is no lock.  A grant, a claim and a
# renewal count when WAIT says that it has them; else nobody has answered (fail
# closed), and what was written is taken back.  Control: host B, which does not
# want it, at the same moment.
. "${0%/*}/../../lib/rig.sh"

waits()
{
	stat_of commandstats cmdstat_wait
}

rig_start disks
replica_up 2
TIMES=(ttl=12s connect_timeout=2s)
of_a()
{
	rig_config A "${TIMES[@]}" redis_more='replicas = 1' \
		path_more='on_lost = "report"' "$@"
}
of_a
rig_config B "${TIMES[@]}" path_more='on_lost = "report"'

# (What is answered late is asked twice.)
by_one_wait()
{
	ask a 'lock a UN'
	before=$(waits)
	ask a 'lock a EX'
	[ "$RESULT $(waits)" = "0 $((before + 1))" ]
}

locker a dl A
locker b dl B
ask a pid
dl A flock warm true
before=$(waits)
ask b 'open b g'
ask b 'lock b EX'
is "$RESULT $(waits)" "0 $before" 'B asks no replica (control)'
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'A has a lock'
is "$(m 2 get "dlock:$MNT/f")" "$(token_of f)" '... and so has the replica'
ok '... by one WAIT' until_true 10 by_one_wait

# Both hold a lock, and the replica is not heard of any more.
of_a timeout=3s # of programs that begin now
master_stop 2
dl A flock -n free true 2>"$RIG/err"
ok 'the replica is silent: A gets nothing' test "$?" != 0
like "$(cat "$RIG/err")" 'replicas = 1, and none had it in time' '... by name'
ok '... and nothing of it is left' until_true 3 lease_is_gone free
ok 'B gets it at that moment (control)' dl B flock -n free true
dl A /usr/bin/python3 -c 'import fcntl
fcntl.lockf(open("rec", "a"), fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>"$RIG/err"
ok '... nor a record lock' test "$?" != 0
like "$(cat "$RIG/err")" 'none had it in time' '... by name, too'

# B's way: it is renewed; A's is not proved, though the server renews it.
ok 'the renewals do not count, though the master has it: A'"'"'s is lost' \
	until_true 20 grep -q 'is LOST' "$RIG/a.err"
note "$(grep -h LOST "$RIG/a.err")"
is "$(grep -c LOST "$RIG/b.err")" 0 'B holds its lock (control)'
master_cont 2
of_a
dl A flock -w 20 free true
is "$?" 0 'the replica is back: A gets a lock'
ask a 'lock a UN'
ask b 'lock b UN'

# What is granted in the queue.
ask b 'open f f'
ask b 'lock f EX'
say a 'lock a EX'
queued()
{
	[ "$(m 1 exists "{dlock:$MNT/f}%q")" = 1 ]
}
ok 'A waits for B' until_true 5 queued
master_stop 2
ask b 'lock f UN'
RESULT=
hear a 1
unlike "$RESULT" '^0$' 'A does not have what only the master has'
master_cont 2
if [ "$RESULT" = silence ]; then
	hear a 30
	is "$RESULT" 0 'and has it when the replica does'
else
	is "$RESULT" ENOLCK 'and gave up'
fi
ask a 'lock a UN'
rig_empty 15
done_testing
