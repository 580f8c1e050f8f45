#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# No malloc on a lock path, and locks in a handler that interrupted malloc
# (L7): a heap that is watched (tests/preload/nomalloc_so.c) sees neither.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=6s

# watched HOST [NAME=VALUE...] CMD...
watched()
{
	local h=$1

	shift
	on "$h" env LD_PRELOAD="$BIN/nomalloc.so:$BUILD/libdlock-preload.so" \
		DLOCK_CONFIG="$RIG/$h.conf" "$@"
}

# The watch sees: 134 is SIGABRT.
aborted()
{
	"$@" >"$RIG/aborted" 2>&1
	[ $? = 134 ]
}
ok 'an allocation in a lock call is seen (control)' \
	aborted watched A env NOMALLOC_CONTROL=1 "$BIN/locker" <<-END
	open a f
	lock a EX
	END
like "$(cat "$RIG/aborted")" 'heap is used in a lock call' 'and named'

# --- every way through a lock call --------------------------------------------

locker b dl B
ask b 'open a f'
locker a watched A
ask a 'open a f'
ask a 'open b f'
for step in 'lock a EX' 'lock a UN' 'lock a SH' 'lock b SH' 'lock a EX NB' \
	    'lock b UN' 'lock a EX' 'lock a SH' 'lock a EX' 'dup a c' \
	    'close a' 'lock c UN' 'open a g' 'lock a EX' 'lock c EX' \
	    'close c' 'close a' 'open a f'; do
	ask a "$step"
	like "$RESULT" '^(0|EAGAIN)$' "$step: $RESULT"
done
ask b 'lock a EX'
ask a 'lock a EX NB'
is "$RESULT" EAGAIN 'refused by the other host'
say a 'lock a EX'
ask b 'lock a UN'
hear a
is "$RESULT" 0 'granted after a wait'
ask a fork
like "$RESULT" '^[1-9]' 'a child is made with a lock held'
child=$RESULT
ask a 'lock a UN'
is "$RESULT" 0 'unlocked'
ask a "reap $child"
redis_kill
ask a 'lock a EX' 20
is "$RESULT" ENOLCK 'refused without a Redis'
redis_up
ask a 'lock a EX'
is "$RESULT" 0 'granted with one'
ask a 'lock a UN'
ask a pid
like "$RESULT" '^[1-9]' 'and lives: nothing was seen'
peer_end a b
rig_empty

# --- in a handler --------------------------------------------------------------

# Within the allocator, surely: every 97th allocation is interrupted.
for try in 1 2 3; do
	read -r locked refused < <(watched A NOMALLOC_RAISE=97 \
		"$BIN/handler_locks" churned 300 2>"$RIG/churn.err")
	often "${locked:-0}" 100 "a heap that locks: $locked locks (run $try)" \
		300
	is "$refused" 0 "a heap that locks: none refused (run $try)"
	is "$(cat "$RIG/churn.err")" '' "a heap that locks: no word (run $try)"
done
rig_empty 8 'no lease stays that no thread sees to'

# A lease that was taken there is renewed as any other, and excludes.
locker b dl B
ask b 'open a held'
# shellcheck disable=SC2016 # for perl
peer held watched A /usr/bin/perl -e 'open F, ">", "held" or die;
	$| = 1; $SIG{ALRM} = sub { flock F, 2 };
	use POSIX; sigaction SIGALRM, POSIX::SigAction->new($SIG{ALRM},
		POSIX::SigSet->new, SA_RESTART) or die;
	kill ALRM, $$; print "locked\n"; <STDIN>; flock F, 8; <STDIN>'
hear held
is "$HEARD" locked 'held: locked in a handler'
b_is_refused()
{
	ask b 'lock a EX NB'
	[ "$RESULT" = EAGAIN ]
}
ok 'held: refused on the other host for 3.2 x ttl' \
	throughout 19200 1 b_is_refused
say held go
ask b 'lock a EX'
is "$RESULT" 0 'held: granted when unlocked'
took=$(((END - START) / 1000000))
in_time "$took" 300 "held: within $took ms"
ask b 'lock a UN'
say held go
rig_end
