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

is_alike_all()
{
	alike 2 && alike 3
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

# A master that has missed one request has the next one: by their numbers it is like the
# others, and what it still has is not for them.
ask a 'range a F_WRLCK 300 10'
until_true 20 alike 3
for n in 1 2 3; do
	master_stop 3
	for byte in 400 401; do # it does not answer, and is away
		ask a "range a F_WRLCK $byte 1"
		ask a "range a F_UNLCK $byte 1"
		on A sleep 0.25
	done
	ask a 'range a F_UNLCK 300 10'
	master_cont 3
	on A sleep 1.2
	ask a "range a F_WRLCK $((500 + n)) 1"
	is "$RESULT" 0 "$n: it missed an unlock, and has what was asked for then"
	ok "$n: ... until all have the same" until_true 20 is_alike_all
	ask b 'range b F_WRLCK 300 10'
	is "$RESULT" 0 "$n: ... and what was given back is free"
	ask b 'range b F_UNLCK 300 10'
	ask a 'range a F_WRLCK 300 10'
	until_true 20 is_alike_all
done

# A grant is no renewal: who is always granted something has one that came back, too.
is_alike_amidst()
{
	ask a 'range a F_WRLCK 700 1'
	ask a 'range a F_UNLCK 700 1'
	alike 3
}
master_kill 3
master_up 3
ok 'one comes back, empty, to who always asks: it has what the others have' \
	until_true 20 is_alike_amidst

# A wait of who holds something: said once.
say b 'range b F_WRLCK 0 10 WAIT'
ask a 'range a F_UNLCK 0 0'
hear b 10
is "$RESULT" 0 'who waits has it when it is free'
ask b 'range b F_UNLCK 0 0'
rig_end
