#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Record locks of a quorum: excluded by a majority, and a master that was away
# while ranges came and went has what their owner has after its next renewal:
# neither less, nor what was given back meanwhile.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"


# Whose ranges there are, where nobody has been away; of him alone.  (A late copy
# of a question may be granted to another one by who was away, for a ttl, and
# what is left of that is in nobody's way.)
bounds_at()
{
	local owner

	owner=$(m 1 zrangebylex "{dlock:$MNT/f%rec}%r" '[O' '(P' |
		cut -c2-33 | sort -u)
	m "$1" zrangebylex "{dlock:$MNT/f%rec}%r" "[O$owner" "(O$owner:" |
		cut -c34- | sort
}

alike()
{
	[ -n "$(bounds_at 1)" ] && [ "$(bounds_at 1)" = "$(bounds_at "$1")" ]
}

rig_start disks
: >"$RIG/log"
export DLOCK_LOG=warning:$RIG/log
rig_configs ttl=9s timeout=5s connect_timeout=1500ms restart_delay=0s
locker a dl A
locker b dl B
ask a 'open a f'
ask b 'open b f'
ask a 'range a F_WRLCK 0 10'
is "$RESULT" 0 'a range'
ask a 'range a F_WRLCK 100 10'
is "$RESULT" 0 'another'
ok 'all have both' until_true 5 alike 3
ask b 'range b F_WRLCK 5 1'
is "$RESULT" EAGAIN 'refused to another host'
ask b 'range b F_WRLCK 50 10'
is "$RESULT" 0 '... which has one beside it'
ask b 'range b F_UNLCK 50 10'

for how in stop kill; do
	"master_$how" 3
	ask a 'range a F_UNLCK 100 10'
	is "$RESULT" 0 "$how: one is away: a range is given back"
	ask a 'range a F_WRLCK 200 10'
	is "$RESULT" 0 "$how: ... another is granted"
	ask b 'range b F_WRLCK 205 1'
	is "$RESULT" EAGAIN "$how: ... and excludes"
	ask b 'range b F_WRLCK 100 10'
	is "$RESULT" 0 "$how: ... what was given back is free"
	ask b 'range b F_UNLCK 100 10'
	if [ "$how" = stop ]; then master_cont 3; else master_up 3; fi
	ok "$how: it is back, and has what the others have" \
		until_true 20 alike 3
	note "$(bounds_at 3 | tr '\n' ' ')"
	ask b 'range b F_WRLCK 100 10'
	is "$RESULT" 0 "$how: ... by it nothing is refused that is free"
	ask b 'range b F_UNLCK 100 10'
	ask a 'range a F_UNLCK 200 10'
	ask a 'range a F_WRLCK 100 10'
	is "$RESULT" 0 "$how: ... and that is free, too"
	until_true 20 alike 3
done
unlike "$(cat "$RIG/log")" LOST 'nothing is lost'

# A wait of who holds something: said once.
say b 'range b F_WRLCK 0 10 WAIT'
ask a 'range a F_UNLCK 0 0'
hear b 10
is "$RESULT" 0 'who waits has it when it is free'
ask b 'range b F_UNLCK 0 0'
rig_end
