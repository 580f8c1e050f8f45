#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# F_SETLKW that closes a cycle of waits across hosts fails with EDEADLK, within
# 100 ms, and the others go on; and nothing else does (DESIGN section 4).
#
# The kernel is the oracle: on one host, bare, each cycle of POSIX locks ends
# the same way.  Over hosts, bare and under the null shim, nobody waits at all.
#
# DEADLOCK_TIMES: each cycle as many times more (make torture: 50).
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/players.sh"
FILES=(f g)

# Who waits still is left to itself: a wait MUST end with its scene.
players_leave()
{
	peer_end "${PLAYERS[@]}"
	until_true 6 db_is_empty
}

# take NAME SLOT START [READ]: at once
take()
{
	ask "$1" "range $2 ${4:-F_WRLCK} $3 1"
	[ "$RESULT" = 0 ] || rig_die "$1: cannot take $2 $3: $RESULT"
}

give()
{
	ask "$1" "range $2 F_UNLCK $3 1"
	[ "$RESULT" = 0 ] || rig_die "$1: cannot give $2 $3: $RESULT"
}

# wants NAME SLOT START [OFD]: waits, in the kernel or at Redis
wants()
{
	say "$1" "range $2 F_WRLCK $3 1 WAIT ${4-}"
	waiting=$((waiting + 1))
	if [ "${4-}" ] && [ "$RUN" = dl ]; then
		until_true 5 is_queued "$2" # an OFD lock's wait is not told
	elif [ "$RUN" = dl ]; then
		until_true 5 waits_told "$waiting" ||
			rig_die "$1: its wait is not told"
	elif [ "$ORACLE" ]; then
		until_true 5 waits_in_kernel "$waiting"
	fi
}

is_queued()
{
	[ "$(rr exists "{dlock:$MNT/$1%rec}%q")" = 1 ]
}

waits_in_kernel()
{
	[ "$(on A grep -c -e '->' /proc/locks)" -ge "$1" ]
}

# closes NAME SLOT START: the last edge; EDEADLK in time
closes()
{
	ask "$1" "range $2 F_WRLCK $3 1 WAIT" 3
	us=$(((END - START) / 1000))
	note "$RUN: $1 gets $RESULT after $us us"
	[ "$RESULT" = EDEADLK ] && within_us "$us" 100000
}

# goes_on NAME: a wait ends well
goes_on()
{
	hear "$1" && [ "$RESULT" = 0 ]
}

# --- cycles -----------------------------------------------------------------------

# cycle FUNCTION NAME@HOST...: 0 if one was refused and the others went on
cycle()
{
	local status=0

	waiting=0
	players "${@:2}"
	"$1" || status=1
	players_leave
	return "$status"
}

two_ranges()
{
	take p f 0
	take q f 1
	wants p f 1
	closes q f 0 || return 1
	give q f 1
	goes_on p
}

two_files()
{
	take p f 0
	take q g 0
	wants p g 0
	closes q f 0 || return 1
	give q g 0
	goes_on p
}

three()
{
	take p f 0
	take q f 1
	take s g 0
	wants p f 1
	wants q g 0
	closes s f 0 || return 1
	give s g 0
	goes_on q || return 1
	give q f 1
	goes_on p
}

two_readers()
{
	take p f 0 F_RDLCK
	take q f 0 F_RDLCK
	wants p f 0
	closes q f 0 || return 1
	give q f 0
	goes_on p
}

# A waits in the kernel for A, who waits at Redis for B: B closes it.
local_edge()
{
	take p f 0
	take q f 1
	take s g 0
	wants p f 1
	wants q g 0
	closes s f 0 || return 1
	give s g 0
	goes_on q || return 1
	give q f 1
	goes_on p
}

# What p held before an execve(2) it holds.
exec_first()
{
	take p f 0
	ask p exec
	take q f 1
	wants p f 1
	closes q f 0 || return 1
	give q f 1
	goes_on p
}

exec_last()
{
	take p f 0
	ask p exec
	take q f 1
	wants q f 0
	closes p f 1 || return 1
	give p f 0
	goes_on q
}

# Who has no lease of its own program's tells of its wait for as long as it lasts:
# longer than a thread that has nothing to do stays, and than a wait is believed.
exec_long_ago()
{
	take p f 0
	ask p exec
	take q f 1
	take s g 0
	wants s f 1
	wants p g 0
	[ "$RUN" != dl ] || sleep 4
	closes q f 0 || return 1
	give q f 1
	goes_on s || return 1
	give s g 0
	goes_on p
}

# The same, but closed by who would wait in the kernel.
local_edge_last()
{
	take p f 0
	take q f 1
	take s g 0
	wants q g 0
	wants s f 0
	closes p f 1 || return 1
	give p f 0
	goes_on s || return 1
	give s g 0
	goes_on q
}

# Both begin at once: one of them, and only one, is refused, within 100 ms of
# the later one's beginning.
at_once()
{
	local i ended ms began longest=0 status=0

	for ((i = 0; i < AT_ONCE; i++)); do
		take p f 0
		take q f 1
		say p 'range f F_WRLCK 1 1 WAIT'
		say q 'range f F_WRLCK 0 1 WAIT'
		until_true 20 either q p || return 1
		if [ "$RESULT" != EDEADLK ]; then
			diag "$WHO, in round $i: $RESULT"
			return 1
		fi
		began=$START ended=$END
		[ "$WHO" = p ] || give q f 1
		[ "$WHO" = q ] || give p f 0
		goes_on "$OTHER" || return 1
		[ "$START" -lt "$began" ] || began=$START
		ms=$(((ended - began) / 1000000))
		[ "$ms" -le "$longest" ] || longest=$ms
		if ! within_us $((ms * 1000)) 100000; then
			diag "in round $i after $ms ms, of 100 and $((TAP_MORE / 1000))"
			status=1
		fi
		ask p 'range f F_UNLCK 0 0'
		ask q 'range f F_UNLCK 0 0'
	done
	note "$RUN: $AT_ONCE times EDEADLK, the longest after $longest ms"
	return "$status"
}

# deadlock NAME FUNCTION NAME@HOST...
deadlock()
{
	local one_host=("${@:3}")

	RUN=on ORACLE=1
	ok "$1: one host, bare" cycle "$2" "${one_host[@]/@*/@A}"
	ORACLE=''
	three_ways "$1" cycle "$2" "${@:3}"
	[ "$TIMES" = 0 ] || ok "$1: $TIMES times" again cycle "$2" "${@:3}"
}

# again CYCLE...: $TIMES times, and how long it took to see it
again()
{
	local i all=()

	for ((i = 0; i < TIMES; i++)); do
		us=''
		"$@" >/dev/null || return 1
		all+=("$us")
	done
	mapfile -t all < <(printf '%s\n' "${all[@]}" | sort -n)
	note "$RUN: EDEADLK after ${all[TIMES / 2]} us, the longest" \
		"${all[TIMES - 1]} us"
}

# --- no deadlock ------------------------------------------------------------------

# p waits for q, and q for p, but p has OFD locks: both would, for ever.
ofd()
{
	ask p 'range f F_WRLCK 0 1 OFD'
	ask q "range f F_WRLCK 1 1 $1"
	wants p f 1 OFD
	ask q 'alarm 300'
	ask q "range f F_WRLCK 0 1 WAIT $1"
	[ "$RESULT" = EINTR ] || return 1
	ask q "range f F_UNLCK 1 1 $1"
	goes_on p
}

both_ofd()
{
	ofd OFD
}

# Of this the kernel says EDEADLK, if the POSIX lock is the last: it follows one
# edge of an OFD lock.  dlock follows none.
one_ofd()
{
	ofd ''
}

# Whose own OFD lock is in the way waits, too.
own_ofd()
{
	take p f 0
	ask p 'range f F_WRLCK 1 1 OFD'
	ask p 'alarm 300'
	ask p 'range f F_WRLCK 1 1 WAIT'
	[ "$RESULT" = EINTR ]
}

# One that was killed in its wait waits for nobody.
killed()
{
	take p f 0
	take q f 1
	ask p pid
	wants p f 1
	on A kill -KILL "$RESULT" || return 1
	ask q 'range f F_WRLCK 0 1 WAIT'
	note "$RUN: q gets $RESULT after $(((END - START) / 1000)) us"
	[ "$RESULT" = 0 ]
}

# leaves COMMAND SLOT START RESULT: p does, by a signal
leaves()
{
	local pid

	ask p pid
	pid=$RESULT
	ask p "$1"
	wants p "$2" "$3"
	on A kill -ALRM "$pid"
	hear p
	[ "$RESULT" = "$4" ]
}

# left COMMAND RESULT: p left its wait and has still what it held
left()
{
	take p f 0
	take q f 1
	leaves "$1" f 1 "$2" || return 1
	waits_for_p_only
}

waits_for_p_only()
{
	say q 'range f F_WRLCK 0 1 WAIT'
	if hear q 0.3; then
		note "$RUN: q gets $RESULT after $(((END - START) / 1000)) us"
		return 1
	fi
	give p f 0
	goes_on q
}

left_by_signal()
{
	left 'alarm 0' EINTR
}

left_by_jump()
{
	left 'jump 0' JUMPED
}

# The same in the kernel: p for q, while q waits for s at Redis.
left_the_kernel()
{
	take p f 0
	take q f 1
	take s g 0
	wants q g 0
	leaves 'jump 0' f 1 JUMPED || return 1
	say s 'range f F_WRLCK 0 1 WAIT'
	if hear s 0.3; then
		note "$RUN: s gets $RESULT after $(((END - START) / 1000)) us"
		return 1
	fi
	give p f 0
	goes_on s || return 1
	give s g 0
	goes_on q
}

# no_deadlock NAME FUNCTION NAME@HOST...: bare on one host, and under dlock
no_deadlock()
{
	local one_host=("${@:3}")

	RUN=on ORACLE=1
	ok "$1: one host, bare" cycle "$2" "${one_host[@]/@*/@A}"
	RUN=dl ORACLE=''
	ok "$1" cycle "$2" "${@:3}"
}

rig_start disks
host_new C disks
rig_config C
TIMES=${DEADLOCK_TIMES:-0}
AT_ONCE=${DEADLOCK_TIMES:-20}

deadlock 'two ranges of a file' two_ranges p@A q@B
deadlock 'a range of each of two files' two_files p@A q@B
deadlock 'three hosts' three p@A q@B s@C
deadlock 'one waits in the kernel' local_edge p@A q@A s@B
deadlock 'who would wait in the kernel is last' local_edge_last p@A q@A s@B
deadlock 'who waits has become another program' exec_first p@A q@B
deadlock 'who is last has become another program' exec_last p@A q@B
deadlock 'two readers who would write' two_readers p@A q@B
TIMES=0
deadlock 'who waits became another one long ago' exec_long_ago p@A s@A q@B
deadlock "both at once, $AT_ONCE times" at_once p@A q@B
no_deadlock 'OFD locks' both_ofd p@A q@B
RUN=dl
ok 'an OFD lock and a POSIX lock' cycle one_ofd p@A q@B
no_deadlock 'an OFD lock of its own' own_ofd p@A
no_deadlock 'a waiter was killed' killed p@A q@B
no_deadlock 'a signal ended the wait' left_by_signal p@A q@B
no_deadlock 'siglongjmp() left the wait' left_by_jump p@A q@B
no_deadlock 'siglongjmp() left the wait in the kernel' \
	left_the_kernel p@A q@A s@B
rig_end
