#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# What ends a wait ends it whenever it comes: EDEADLK though another wait came
# and went beside the cycle, or though one of its processes was stopped for a
# while, and not for what was given back while its release was lost.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/players.sh"

# --- cycles -----------------------------------------------------------------------

# wants NAME START LENGTH: the N-th wait that is told of
wants()
{
	say "$1" "range f F_WRLCK $2 $3 WAIT"
	waiting=$((waiting + 1))
	[ "$RUN" != dl ] || until_true 5 waits_told "$waiting" ||
		rig_die "$1: its wait is not told"
}

# send NAME SIGNAL: to the locker itself
send()
{
	on "${HOST_OF[$1]}" kill "-$2" "${PID_OF[$1]}"
}

know()
{
	ask "$1" pid
	PID_OF[$1]=$RESULT
	HOST_OF[$1]=$2
}

# falls NAME: its wait ends with EDEADLK (deadlock.t tells how soon)
falls()
{
	hear "$1" 10
	note "$RUN: $1 gets $RESULT after $(((END - since) / 1000)) us"
	[ "$RESULT" = EDEADLK ]
}

#	m -> a -> b -> m	and for a while		m -> y -> b
#
# m's wait began last, so it is m who gives up.  b is stopped, so that m goes on
# suspecting while y's wait, which is younger, comes and goes; b's is believed
# meanwhile, however long that takes.
younger_beside()
{
	local came=0 key

	waiting=0
	know b B
	want m 'range f F_WRLCK 30 1' 0 && want a 'range f F_WRLCK 10 1' 0 &&
		want y 'range f F_WRLCK 11 1' 0 &&
		want b 'range f F_WRLCK 20 1' 0 || return 1
	wants a 20 1
	wants b 30 1
	send b STOP
	for key in $(rr keys 'dlock%wait:*'); do
		rr pexpire "$key" 60000 >"$RIG/pexpire"
	done
	wants m 10 2
	want y 'alarm 150' 0
	want y 'range f F_WRLCK 20 1 WAIT' EINTR || came=1
	since=$(now)
	send b CONT
	[ "$came" = 0 ] && falls m || return 1
	want m 'range f F_UNLCK 30 1' 0
	hear b && [ "$RESULT" = 0 ]
}

each_has_a_byte()
{
	want p 'range f F_WRLCK 0 1' 0 && want q 'range f F_WRLCK 1 1' 0 &&
		want s 'range f F_WRLCK 2 1' 0
}

# p waits in the kernel, and is stopped for longer than a wait is believed.
stopped_for_long()
{
	waiting=0
	know p A
	each_has_a_byte || return 1
	wants p 1 1
	wants q 2 1
	send p STOP
	[ "$RUN" != dl ] || until_true 10 waits_are 1 || return 1
	send p CONT
	[ "$RUN" != dl ] || until_true 10 waits_told 2 || return 1
	since=$(now)
	say s 'range f F_WRLCK 0 1 WAIT'
	falls s || return 1
	want s 'range f F_UNLCK 2 1' 0
	hear q && [ "$RESULT" = 0 ]
}

# s waits for Redis, and is stopped for so long that p does not see its wait and
# waits in the kernel, where nobody searches: it is s who finds the cycle then.
stopped_as_it_closes()
{
	local came=0

	waiting=0
	know p A
	know s B
	each_has_a_byte || return 1
	wants q 2 1
	wants s 0 1
	send s STOP
	[ "$RUN" != dl ] || until_true 10 waits_are 1 || return 1
	say p 'range f F_WRLCK 1 1 WAIT'
	until_true 5 waits_in_kernel p && came=1
	since=$(now)
	send s CONT
	[ "$came" = 1 ] && falls s || return 1
	want s 'range f F_UNLCK 2 1' 0
	hear q && [ "$RESULT" = 0 ] || return 1
	want q 'range f F_UNLCK 1 1' 0
	hear p && [ "$RESULT" = 0 ]
}

# waits_in_kernel NAME: in fcntl(2) by F_SETLKW, which is 7
waits_in_kernel()
{
	on "${HOST_OF[$1]}" grep -q '^[0-9]* 0x[0-9a-f]* 0x7 ' \
		"/proc/${PID_OF[$1]}/syscall"
}

# --- releases ---------------------------------------------------------------------

# A release is lost on its way to Redis, with its connection, and sent again a
# while later.  What has been given back closes no cycle meanwhile.
WHOLE=00000000000000000009223372036854775807

lose_release()
{
	if [ "$RUN" = dl ]; then
		ask slow "take $WHOLE"
	fi
	want p 'range f F_UNLCK 0 0' 0
}

# p: in its own way, beside q.
lost_own()
{
	ask p "open g $MNT/g"
	want p 'range g F_WRLCK 0 1' 0 || return 1
	want p 'range f F_WRLCK 10 10' 0 || return 1
	want q 'range f F_WRLCK 0 5' 0 || return 1
	lose_release || return 1
	say p 'range f F_WRLCK 0 100 WAIT'
	falls_not p || return 1
	want q 'range f F_UNLCK 0 0' 0
	hear p && [ "$RESULT" = 0 ]
}

# q waits for what p gives back, and p for q.
lost_other()
{
	ask p "open g $MNT/g"
	want p 'range g F_WRLCK 0 1' 0 || return 1
	want p 'range f F_WRLCK 10 10' 0 || return 1
	want q 'range f F_WRLCK 0 5' 0 || return 1
	say q 'range f F_WRLCK 10 10 WAIT'
	[ "$RUN" != dl ] || until_true 2 waits_told 1 || return 1
	lose_release || return 1
	say p 'range f F_WRLCK 0 5 WAIT'
	falls_not p || return 1
	hear q && [ "$RESULT" = 0 ] || return 1
	want q 'range f F_UNLCK 0 0' 0
	hear p && [ "$RESULT" = 0 ]
}

# It waits on.
falls_not()
{
	! hear "$1" 0.3 && return 0
	note "$RUN: $1 gets $RESULT"
	return 1
}

waits_are()
{
	waits_told "$1" && ! waits_told $(($1 + 1))
}

declare -A PID_OF HOST_OF
rig_start disks
rig_configs ttl=60s # longer than anybody is stopped, whatever else is at work
three_ways 'a younger wait beside the cycle' scene younger_beside \
	m@A a@A y@A b@B
three_ways 'one was stopped for a while' scene stopped_for_long \
	p@A q@A s@B
three_ways 'one was stopped while it was closed' scene stopped_as_it_closes \
	p@A q@A s@B

proxy slow
rig_config A url="redis://127.0.0.1:$PROXY/0" connect_timeout=800ms
rig_config B connect_timeout=800ms
for scene in lost_own lost_other; do
	RUN=on
	ok "one host, bare: $scene" scene "$scene" p@A q@A
	RUN=dl
	ok "a release is lost: $scene" scene "$scene" p@A q@B
done
rig_end
