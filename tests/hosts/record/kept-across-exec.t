#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# What a program held before execve(2), the next one holds: a refusal leaves
# it, in the kernel and at Redis, and an unlock of a part gives that part to
# others.  The kernel of one host, bare, is the oracle.
. "${0%/*}/../../lib/rig.sh"

# p on A and q on HOST, of the file NAME
both()
{
	peer p "$RUN" A "$BIN/records" tell
	peer q "$RUN" "$1" "$BIN/records" tell
	ask p "open a $2" && ask q "open a $2"
}

# gets PEER RESULT CALL
gets()
{
	ask "$1" "$3" 20 && [ "$RESULT" = "$2" ] && return
	note "$RUN: $1: $3: $RESULT, not $2"
	return 1
}

keepers_are()
{
	[ "$(on A pgrep -xc dlock-keeper)" = "$1" ]
}

keepers_here()
{
	pids_of A -x dlock-keeper
}

only_another()
{
	[ "$(keepers_here | wc -l)" = 1 ] && has_another
}

config_a()
{
	rig_config A url="redis://127.0.0.1:$PROXY/0" ttl="$1" timeout=2s \
		path_more='on_lost = "report"'
}

# Nobody of one scene is left in the next.
ends()
{
	ask slow pass
	peer_end p q
	[ "$RUN" != dl ] || { until_true 10 db_is_empty &&
		until_true 10 keepers_are 0; }
}

scene()
{
	local status=0

	"$@" || status=1
	ends || status=1
	return "$status"
}

# refused HOST [CALL]: what p asks for first, and then WRITE, is refused
refused()
{
	both "$1" refused && gets p 0 'set a R 0 10' &&
		gets q 0 'set a R 0 10' && gets p 0 'exec a' || return 1
	[ -z "${2-}" ] || gets p "$3" "$2" || return 1
	gets p EAGAIN 'set a W 0 10' && gets q 0 'set a U 0 0' &&
		gets q EAGAIN 'set a W 0 10' && kernel_has 'READ .* 0 9'
}

# The kernel of A has such a line of p's file.
kernel_has()
{
	on A grep -q "POSIX .*$1\$" /proc/locks && return
	note "$RUN: the kernel has no $1"
	return 1
}

# Who waits for it, waits on: it was never free.
waited_for()
{
	both "$1" waited && gets p 0 'set a W 0 10' &&
		gets p 0 'set a R 20 10' && gets p 0 'exec a' || return 1
	say q 'wait a W 5 20'
	until_true 5 waits_at "$1" || return 1
	gets p 0 'set a W 40 10' && ! hear q 1 &&
		gets p 0 'set a U 0 0' && hear q && [ "$RESULT" = 0 ]
}

waits_at()
{
	if [ "$RUN" = dl ] && [ "$1" = B ]; then
		[ "$(rr exists "{dlock:$MNT/waited%rec}%q")" = 1 ]
	else
		on A grep -q -e '->' /proc/locks
	fi
}

# The same by the next program but one.
refused_later()
{
	both "$1" later && gets p 0 'set a R 0 10' && gets p 0 'exec a' &&
		gets p 0 'set a R 20 10' && gets p 0 'exec a' &&
		gets q 0 'set a R 0 30' && gets p EAGAIN 'set a W 0 30' &&
		gets q 0 'set a U 0 0' && gets q EAGAIN 'set a W 9 1' &&
		gets q EAGAIN 'set a W 20 1' && gets q 0 'set a W 10 10'
}

# apart HOST TYPE: a part is unlocked first of all, and then all of it
apart()
{
	both "$1" "apart$2" && gets p 0 "set a $2 0 10" &&
		gets p 0 'set a W 20 10' && gets p 0 'exec a' &&
		gets p 0 'set a U 0 5' && gets q 0 'wait a W 0 5' &&
		gets q EAGAIN 'set a W 5 5' && gets q EAGAIN 'set a R 25 1' &&
		gets p EAGAIN 'set a R 0 1' && gets q EAGAIN 'set a W 5 1' &&
		gets p 0 'set a U 0 0' && gets q 0 'wait a W 0 0'
}

# The keeper of the program before ends, and says nothing of a loss.  (For how long
# there are two is not the subject.)
quiet()
{
	both B quiet && gets p 0 'set a W 0 10' && gets p 0 'set a R 20 10' &&
		gets p 0 'exec a' && until_true 5 keepers_are 1 &&
		KEEPER=$(keepers_here) && gets p 0 'set a W 40 10' &&
		until_true 5 has_another && until_true 10 only_another &&
		gets q EAGAIN 'set a W 29 1' &&
		gets q EAGAIN 'set a R 9 1' &&
		! grep LOST "$RIG/log"
}

# Redis cannot be reached at the first call: nothing has changed.
unreached()
{
	both B unreached && gets p 0 'set a R 0 10' && gets p 0 'exec a' &&
		ask slow hang && gets p ENOLCK 'set a W 0 10' &&
		gets p 0 'set a U 5 1' && ask slow pass &&
		kernel_has 'READ .* 0 4' && gets q EAGAIN 'set a W 0 10' &&
		gets p 0 'set a W 0 1' && gets q 0 'wait a W 5 1' &&
		gets q EAGAIN 'set a W 6 1'
}

# Redis has granted the next program what it inherited, and the answer is lost: it
# is kept for as long as nobody knows, and its own with the next answer.
unanswered()
{
	both B unanswered && gets p 0 'set a W 0 10' && gets p 0 'exec a' &&
		ask slow 'strand rest' && gets p ENOLCK 'set a W 20 1' &&
		ask slow pass && throughout 2000 10 gets q EAGAIN 'set a W 9 1' &&
		gets p 0 'set a W 20 1' && gets q EAGAIN 'set a W 9 1' &&
		gets p 0 'set a U 0 5' && gets q 0 'wait a W 0 5'
}

# Its keeper was stopped until another host had it: said, and not taken back; the
# program lives, by its rule.
robbed()
{
	local keeper

	both B robbed && gets p 0 'set a W 0 10' && gets p 0 'set a W 20 10' &&
		gets p 0 'exec a' && until_true 5 have_standbys A 1 &&
		mapfile -t keeper < <(all_keepers A) &&
		on A kill -STOP "${keeper[@]}" && gets q 0 'wait a W 0 10' &&
		gets p 0 'set a W 40 10' && grep -q LOST "$RIG/p.err" &&
		gets p EAGAIN 'set a R 0 10' && gets q 0 'set a W 0 5' &&
		gets q EAGAIN 'set a W 25 1'
	local status=$?
	on A kill -CONT "${keeper[@]}"
	return "$status"
}

rig_start disks
proxy slow
config_a 9s
rig_config B ttl=9s timeout=2s
RUN=on
ok 'one host, bare: a refusal leaves what was inherited' scene refused A
ok 'one host, bare: a part of it is unlocked' scene apart A R
ok 'one host, bare: who waits for it waits on' scene waited_for A
RUN=dl
ok 'one host: a refusal leaves it' scene refused A
ok 'one host: a part of it is unlocked' scene apart A W
three_ways 'a refusal leaves what was inherited' scene refused B
three_ways '... after F_GETLK' scene refused B 'get a W 20 10' U
three_ways '... after a lock elsewhere' scene refused B 'set a W 20 10' 0
three_ways '... after an unlock of nothing' scene refused B 'set a U 20 10' 0
ok 'who waits for it waits on' scene waited_for B
three_ways '... of the next program but one' scene refused_later B
three_ways 'a part that is unlocked is free (READ)' scene apart B R
three_ways 'a part that is unlocked is free (WRITE)' scene apart B W
RUN=dl
export DLOCK_LOG=warning:$RIG/log
: >"$RIG/log"
ok 'the keeper of the program before ends quietly' scene quiet
unset DLOCK_LOG
ok 'Redis cannot be reached: nothing has changed' scene unreached
config_a 60s
ok 'its answer is lost: nothing has changed' scene unanswered
config_a 9s
ok 'what another has got since is said to be lost' scene robbed
rig_end
