#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# dlockctl and Sentinels: explain says which Sentinel names which master, list,
# show and doctor follow it, dlock run starts what it is to; also while a Sentinel
# is dead.  With a password for the Sentinels and another one for the master, by
# a user who may do what the manual lists.
RIG_MODE=sentinel
SENTINEL_MORE="requirepass tell
sentinel sentinel-pass tell
user dlock on >say $(sed -n '/^At each Sentinel/,/^\.Ed/p' \
	"${0%/*}/../../../config/dlock.conf.5" |
	sed -n 's/.*PASSWORD //p; /^  -@all/p' | tr -s ' \n' ' ')"
. "${0%/*}/../../lib/rig.sh"

ctl()
{
	on A env DLOCK_CONFIG="$RIG/A.conf" "$BUILD/dlockctl" "$@" \
		2>"$RIG/ctl.err"
}

logins()
{
	rig_configs ttl=30s timeout=5s connect_timeout=5s restart_delay=0s \
		redis_more="${user-username = \"dlock\"
    password_file = \"$RIG/master.pass\"}
    $*"
}

export REDISCLI_AUTH=tell
rig_start disks
unset REDISCLI_AUTH
SAY="sentinel_username = \"dlock\"
    sentinel_password_file = \"$RIG/sentinel.pass\""
for i in 1 2; do
	# shellcheck disable=SC2046 # words
	m "$i" $(manual_acl | sed 's/>PASSWORD/>lock/') >/dev/null
done
(umask 077; echo lock >"$RIG/master.pass"; echo say >"$RIG/sentinel.pass")
logins
dl A flock -n f true 2>"$RIG/err"
ok 'without a password for the Sentinels nothing is found' test "$?" != 0
like "$(cat "$RIG/err")" 'it wants a password: sentinel_password_file' \
	'... and it is said why'
logins "$SAY"
locker a dl A
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'with it, a lock is held'

listens()
{
	local i

	for i in 1 2 3; do
		REDISCLI_AUTH=tell s "$i" client list type pubsub |
			grep -q "user=dlock" && return
	done
	return 1
}
ok 'A listens to a Sentinel' until_true 10 listens
like "$(ctl show "$MNT/f")" 'EX' 'show has it'
user='' logins "$SAY"
like "$(ctl list)" "$MNT/f" '... and list, by a user who may SCAN'
logins "$SAY"
ctl explain "$MNT/f" >"$RIG/out"
for i in 1 2 3; do
	like "$(cat "$RIG/out")" \
		"127.0.0.1:${SENTINEL_PORT[$i]} +\(the master is 127.0.0.1:$PORT\)" \
		"explain: what Sentinel $i says"
done
doctor()
{
	ctl doctor >"$RIG/out" || :
	tr -s ' \n' ' ' <"$RIG/out"
}
like "$(doctor)" 'replicas = 0, and min-replicas-to-write is not set' \
	'doctor: the master is not bound to its replica'
m 1 config set min-replicas-to-write 1 >/dev/null
unlike "$(doctor)" 'min-replicas-to-write is not set' '... now it is'
unlike "$(cat "$RIG/out")" 'does not name the master' '... and all name it'
m 1 config set min-replicas-to-write 0 >/dev/null

# without_getent: what doctor finds of that
without_getent()
{
	# shellcheck disable=SC2016 # sh's
	on A env DLOCK_CONFIG="$RIG/A.conf" unshare -m sh -c \
		'mount --bind /dev/null /usr/bin/getent && exec "$@"' sh \
		"$BUILD/dlockctl" --json doctor 2>>"$RIG/ctl.err" |
		jq -r '.findings[] | select(.check == "getent") | .what'
}
is "$(without_getent)" '' 'doctor: the name of a master is looked up by nobody'
sed -i 's/127\.0\.0\.1/localhost/' "$RIG/A.conf"
is "$(without_getent)" '/usr/bin/getent cannot be run, and "localhost" is a name' \
	'... that of a Sentinel is'
logins "$SAY"

kill -KILL "${SENTINEL_PID[1]}"
like "$(doctor)" "Sentinel 127.0.0.1:${SENTINEL_PORT[1]} does not name" \
	'doctor: one is dead'
ctl explain "$MNT/f" >"$RIG/out"
like "$(cat "$RIG/out")" "${SENTINEL_PORT[1]} +\(names none" 'explain says so'
is "$(dl B flock -n f true 2>&1; echo $?)" 1 '... and the others are asked'
on B "$BUILD/dlock" run -c "$RIG/B.conf" -- true 2>"$RIG/err"
is "$?" 0 'dlock run begins by the others, too'

logins "$SAY replicas = 2"
like "$(doctor)" 'replicas = 2, and 1 follow it' 'doctor: too few replicas'
dl B flock -n free true 2>"$RIG/err"
ok '... and nothing is granted' test "$?" != 0
ask a 'lock a UN'
is "$RESULT" 0 'A unlocks'
rig_end
