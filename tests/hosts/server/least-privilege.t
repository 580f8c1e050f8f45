#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Least privilege (DESIGN section 5): the user of dlock.conf(5) suffices, for
# whatever is done with locks; the server has refused it nothing.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

# nothing_refused WHAT
nothing_refused()
{
	is "$(rr acl log | grep -A1 -E '^(reason|object)$' | tr '\n' ' ')" '' \
		"$1: nothing was refused"
	rr acl log reset >/dev/null
	is "$(cat "$RIG"/*.err | grep -c NOPERM)" 0 '... nor said to be'
}

rig_start disks
KEY=dlock:$MNT/f
read -ra words <<<"$(manual_acl)"
note "${words[*]}"
is "$(rr "${words[@]}")" OK 'the user of dlock.conf(5)'
rr acl setuser dlock '>x' >/dev/null

# The delay is asked for (INFO), and over before anything is locked.
rig_configs url="redis://dlock:x@127.0.0.1:$PORT/1" ttl=2s \
	connect_timeout=300ms restart_delay=1s
until_true 5 redis_is_old 3
rr acl log reset >/dev/null

for mode in EX SH; do
	herd_new
	herd one dl A
	herd two dl B
	drive one 3 "$mode" 1000 20 h
	drive two 3 EX 1000 20 h
	drive one 2 EX 1000 10 hu
	drive two 2 EX 1000 10 he
	ok "flock, $mode and EX: all have it" each_done 10 20
	herd_report
	is "$OVERLAPS" 0 '... one at a time'
	nothing_refused "flock, $mode and EX"
done

# Ranges, split and shared; a wait, and a cycle of waits.
locker a dl A
locker b dl B
for p in a b; do
	ask "$p" 'open f f'
	ask "$p" 'open g g'
done
ask a 'range f F_WRLCK 0 10'
ask a 'range f F_RDLCK 2 4'
ask b 'range g F_WRLCK 0 10'
say a 'range g F_WRLCK 5 1 WAIT'
wait_told()
{
	[ -n "$(rr -n 1 keys 'dlock%wait:*')" ]
}
ok 'ranges: one waits' until_true 5 wait_told
ask b 'range f F_WRLCK 0 1 WAIT'
is "$RESULT" EDEADLK 'ranges: the other one closes a cycle'
ask b 'range g F_UNLCK 0 10'
hear a
is "$RESULT" 0 'ranges: the first one has it'
ask b 'range f F_RDLCK 100 10 OFD'
is "$RESULT" 0 'ranges: another owner'
ask b 'range f F_UNLCK 100 10 OFD'
nothing_refused 'ranges'

# The server forgets the scripts while one of each is held: a release by EVAL,
# a renewal, an ask.
locker c dl B
ask c 'open h h'
ask c 'lock h EX'
rr script flush >/dev/null
ask c 'lock h UN'
ask a 'range f F_UNLCK 0 10'
ask c 'lock h SH'
is "$RESULT" 0 'the scripts are forgotten: they are taught again'
sleep 1
is "$(rr -n 1 hlen "dlock:$MNT/h")" 2 '... the lease is renewed'
ask c 'lock h UN'
nothing_refused 'renewals'
for p in a b c; do
	peer_end "$p"
done
nothing_left()
{
	[ "$(rr -n 1 --scan | grep -vc '^dlock%run:')" = 0 ]
}
ok 'no key is left in db 1' until_true 3 nothing_left
rig_end
