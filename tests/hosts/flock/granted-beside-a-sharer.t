#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Two processes, or threads, share a description (DESIGN L2).  What the one is
# granted after a wait stays locked in the kernel, though the other one was
# refused before it and unlocks what is both's: who is granted looks, and so
# does who unlocked.  (5 of 40 rounds were lost before.)
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/held.sh"

ROUNDS=40

rig_start disks
rig_configs ttl=5s connect_timeout=300ms
locker h dl B
ask h 'open f f'
for who in processes threads 'processes (hold_at_least)'; do
	[[ $who != *hold* ]] || rig_config A ttl=5s connect_timeout=300ms \
		path_more='hold_at_least = "30ms"'
	peer s dl A "$BIN/description_sharers" "${who%% *}" f
	granted=0 missed=0
	for ((i = 0; i < ROUNDS; i++)); do
		ask h 'lock f EX'
		[ "$RESULT" = 0 ] || rig_die "no holder: $HEARD"
		ask s round
		sleep 0.02
		ask h 'lock f UN'
		hear s
		granted=$((granted + (RESULT == 0)))
		missed=$((missed + END))
	done
	is "$granted" $ROUNDS "$who: who waits by a shared description is granted"
	is "$missed" 0 '... and the lock is there, each time it is looked for'
	peer_end s
done
peer_end h
rig_empty
rig_config A ttl=5s connect_timeout=300ms

# --- refused long before it hears of it ---------------------------------------

# The refused one hears of it 150 ms later: by then the other one is granted.
proxy late
say late 'delay 150'
hear late
sed "s|127.0.0.1:$PORT|127.0.0.1:$PROXY|" "$RIG/A.conf" >"$RIG/late.conf"

# One more than N has asked, or has ended already.
who_asked()
{
	[ "$(rr client list | grep -c 'cmd=evalsha')" -gt "$1" ] ||
		read -r -t 0 -u "${CP_FD[end]}"
}

waits()
{
	[ "$(rr hlen "{dlock:$MNT/g}%q")" -gt 0 ]
}

lists()
{
	on A grep -q FLOCK "/proc/$waiter/fdinfo/9"
}

# Both ask for g, which B has; B unlocks it while the other one's answer is on its
# way.  False: that one has heard before it was seen, for the machine was slow.
race()
{
	locker h dl B
	ask h 'open g g'
	ask h 'lock g EX'
	# shellcheck disable=SC2016 # expanded by that shell
	peer w dl A bash -c 'exec 9>>"$1/g"; echo $BASHPID
		{ read -r _ <"$2/cp/try"
			DLOCK_CONFIG=$2/late.conf flock -n 9
			echo $? >"$2/cp/end"; } &
		read -r _; flock 9; echo "granted $?"; read -r _' \
		_ "$MNT" "$RIG"
	hear w
	waiter=$HEARD
	say w go
	until_true 5 waits || rig_die 'nobody waits'
	asked=$(rr client list | grep -c 'cmd=evalsha')
	echo go >"$RIG/cp/try"
	until_true 5 who_asked "$asked" || rig_die 'nobody asks'
	ask h 'lock g UN'
	hear w
	granted=$HEARD
	cp_wait end 0.01
	[ -z "$CP" ]
}

cp_new try end
races=1
while ! race && [ "$races" -lt 40 ]; do
	like "$CP $granted" '^[01] granted 0$' 'the one is granted it, however late'
	say w end
	peer_end w h
	ok 'and nothing is left of that' until_true 5 lease_is_gone g
	races=$((races + 1))
done
is "$CP" '' "the one is granted it before the other one hears ($races)"
is "$granted" 'granted 0' 'the one is granted it'
cp_wait end 5
is "$CP" 0 'the other one has it, too'
ok 'and the lock is there' lists
is "$(dl B flock -n g echo got)" '' 'as for the other host'
say late pass
hear late
say w end
peer_end w h

# --- a lock that is there already ---------------------------------------------

# What a child locks once more is not free: the waiter at Redis waits on.
# shellcheck disable=SC2016 # expanded by that shell
peer w dl A bash -c 'exec 9>>"$1/i"; flock 9; echo $?
	read -r _; flock -n 9; echo $?
	read -r _; flock -u 9; echo $?; read -r _' _ "$MNT"
hear w
locker h dl B
ask h 'open i i'
say h 'lock i EX'
i_waits()
{
	[ "$(rr hlen "{dlock:$MNT/i}%q")" -gt 0 ]
}
ok 'another host waits' until_true 5 i_waits
ask w go
is "$HEARD" 0 'a child locks what its parent has locked'
# (Its place ends, and comes back, where it has no core for two seconds.)
ok '... and the other host waits on' until_true 5 i_waits
ask w go
hear h
is "$RESULT" 0 '... until it is unlocked'
say w end
peer_end w h

# Nor does it end with that child, though it is killed the moment it has it.
# shellcheck disable=SC2016 # expanded by that shell
peer k dl A bash -c 'exec 9>>"$1/k"; flock 9; echo $?; read -r _
	/usr/bin/perl -e "open F, q(>>&=), 9; flock F, 2 and kill KILL, \$\$"
	echo $?; read -r _' _ "$MNT"
hear k
token[k]=$(token_of k)
ask k go
is "$HEARD" 137 'a child locks what its parent has locked, and is killed'
is_by_another()
{
	[ "$(token_of k)" != "${token[k]}" ]
}
ok '... having taken over its lease' is_by_another
held k
held_for 7500
say k end
peer_end k
ok '... and is gone with its parent' until_true 5 lease_is_gone k
rig_end
