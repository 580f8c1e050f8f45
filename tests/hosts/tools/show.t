#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# dlockctl show: of one file who holds it at Redis, who waits and in which order,
# and who has it in the kernel of this host, with dlock or without.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

# show FILE [ARG...]: on host A, for machines
show()
{
	ctl_on A --json show "$@"
}

# waiting N FILE: so many wait for it, by the server
waiting()
{
	show "$2"
	[ "$(json '.waiters | length')" = "$1" ]
}

rig_start disks
rig_configs ttl=30s connect_timeout=5s
on A touch f r g s

# --- nobody ---
show f
is "$STATUS $(json '[.locks, .waiters, .kernel, .kernel_seen, .waiters_cut]')" \
	'0 [[],[],[],true,false]' 'nobody has it, nobody waits: 0'
ctl_on A show f
like "$OUT" 'held at Redis by nobody' 'it says so'
like "$OUT" 'kernel by nobody that is seen from here' '... of the kernel, too'
show new/file
is "$STATUS $(json '[.locks, .kernel_seen]')" '0 [[],true]' \
	'a file that is not there'

# --- a holder, and who waits ---
locker holder dl A
locker second dl B
locker third dl B
for p in holder second third; do
	ask "$p" 'open f f'
done
ask holder 'lock f EX'
began=$(now)
say second 'lock f EX'
ok 'one waits' until_true 10 waiting 1 f
say third 'lock f SH'
ok 'two wait' until_true 10 waiting 2 f
waited=$((($(now) - began) / 1000000 + 1))
is "$(json '[.locks[] | .mode, .command, .held_ms >= 0, .waiters]')" \
	'["EX","locker",true,2]' 'the holder at Redis'
is "$(json '[.waiters[] | .family, .mode, .command, .since_ms, .away, .polls]')" \
	'["flock","EX","locker",null,false,false,"flock","SH","locker",null,false,false]' \
	'who waits, the first one first'
is "$(json "[.waiters[] | .heard_ms >= 0 and .heard_ms <= $waited]")" \
	'[true,true]' '... and when it was heard of'
is "$(json '.locks[0].pid == .kernel[0].pid')" true \
	'who has it in the kernel is the holder'
is "$(json '.kernel[0] | [.kind, .mode, .library, .waits, .shadow]')" \
	'["flock","EX","yes",false,false]' '... with the library'
ctl_on A show f
like "$OUT" $'MODE +HOST .*TOKEN\nEX .* [0-9a-f]{32}\n' 'the token stands there'
like "$OUT" $'PLACE .*\n1 +EX .*\n2 +SH ' 'and the places'
ctl_on B --json show f
is "$(json '[(.locks | length), (.kernel | length)]')" '[1,0]' \
	'the other host has it not in its kernel'
ask holder 'lock f UN'
hear second
ask second 'lock f UN'
hear third
ask third 'lock f UN'
show f
is "$(json '[.locks, .waiters, .kernel]')" '[[],[],[]]' 'all is over'

# --- programs without dlock, and ends ---
locker bare on A
ask bare 'open g g'
ask bare 'lock g SH'
show g
is "$(json '[.locks, (.kernel[] | .mode, .library)]')" '[[],"SH","no"]' \
	'a program without dlock'
ctl_on A show g
like "$OUT" 'local only: dlock is not loaded there' 'it says what that means'
ask bare 'lock g UN'
# flock(1) ends, and the shell has its description.
peer shell dl A /bin/bash -c \
	'exec 9>s; flock 9; echo $$ locked; read -r _'
hear shell
pid=$RESULT
show s
is "$(json '[(.locks | length), (.kernel[] | select(.waits | not) |
	.pid == '"$pid"', .command)]')" '[1,true,"bash"]' \
	'who took it has ended: who has it now is found'
ctl_on A show s
like "$OUT" 'who took it has ended, this one has it' 'and it says so'
say shell go

# --- record locks ---
ask holder 'open r r'
ask holder 'range r F_WRLCK 0 10'
ask holder 'range r F_RDLCK 100 10'
ask holder 'range r F_RDLCK 200 1 OFD'
ask second 'open r r'
ask second 'open q q'
ask second 'range q F_WRLCK 0 1'
say second 'range r F_WRLCK 5 1 WAIT'
known_since()
{
	show r
	[ "$(json '[.waiters[] | .since_ms]')" != '[]' ] &&
		[ "$(json '.waiters[0].since_ms >= 100')" = true ]
}
ok 'a wait that is told of: since when' until_true 10 known_since
is "$(json '[.waiters[] | .family, .mode, .start, .end]')" \
	'["record","WRITE",5,5]' 'what it waits for'
is "$(json '[.locks[] | [.mode, .start, .end]] | sort')" \
	'[["READ",100,109],["READ",200,200],["WRITE",0,9]]' 'ranges at Redis'
is "$(json '[.kernel[] | [.kind, .mode, .start, .end, .library]] | sort')" \
	'[["ofd","READ",200,200,"yes"],["posix","READ",100,109,"yes"],["posix","WRITE",0,9,"yes"]]' \
	'the same in the kernel; of an OFD lock the process is found'
ctl_on A show r
like "$OUT" $'\nWRITE 0-9 .*\nREAD 100-109 |\nREAD 100-109 .*\nWRITE 0-9 ' \
	'as text'
ask holder 'range r F_UNLCK 0 0'
hear second
is "$RESULT" 0 'who waits has it next'
ask holder 'range r F_UNLCK 200 1 OFD'
ask second 'range r F_UNLCK 0 0'
ask second 'range q F_UNLCK 0 0'
rig_empty 5

# --- a shadow ---
for h in A B; do
	rig_config "$h" ttl=30s connect_timeout=5s \
		path_more='local = "shadow"'
	echo "state_dir = \"$RIG/state.$h\"" >>"$RIG/$h.conf"
done
locker holder dl A
ask holder 'open f f'
ask holder 'lock f EX'
show f
is "$(json '[.kernel[] | select(.waits | not) | .mode, .shadow]')" \
	'["EX",true]' 'the lock of a file that stands for it'
ask holder 'lock f UN'
rig_empty 5
# A user without a place in state_dir has that of the login.
sed -i 's,^state_dir = .*,state_dir = "/run/none",' "$RIG/A.conf"
chmod 755 "$RIG" "$MNT"
chmod 644 "$RIG/A.conf"
on A chmod 666 f
on A mount -t tmpfs run /run
on A install -d -m 700 -o 65534 /run/user/65534
peer holder dl A setpriv --reuid 65534 --regid 65534 --clear-groups "$BIN/locker"
ask holder 'open f f'
ask holder 'lock f EX'
show f
is "$(json '[.kernel[] | select(.waits | not) | .mode, .shadow]')" \
	'["EX",true]' "... in a user's own directory"
ask holder 'lock f UN'
rig_empty 5
rig_configs ttl=30s connect_timeout=5s

# --- hostile names, and what is no queue ---
name=$'n\n\x1b[31m"\xff'
on A touch "$name"
key="dlock:$MNT/n%0A%1B[31m\""$'\xff'
rr set "$key" "$(made_token A 5 "$(printf 'w\033')")" px 600000 >/dev/null
# waits TICKET WHAT CLAIM [CHANNEL]: for another ten minutes
waits()
{
	rr hset "{$key}%q" head 1 tail 9 "$1" "$(printf '%015d 600000 %s %s %s' \
		$((($(date +%s) + 600) * 1000)) "${4:--}" "$2" "$3")" >/dev/null
}
waits 7 EX "$(made_token elsewhere 0 "$(printf 'v\033')")"
waits 12 away "$(made_token elsewhere 0 w)" "$(printf %032d 0).1"
ctl_on A show "$name"
is "$STATUS" 0 'a hostile name'
like "$OUT" 'path +.*/n\\x0a\\x1b\[31m"\\xff'$'\n' 'it is shown'
unlike "$OUT" $'\x1b' 'and does nothing'
like "$OUT" $'\n1 +EX +v\\\\x1b .*looks by itself\n2 +\\? .*away' \
	'nor do those that wait'
rr hset "{$key}%q" x y 8 z 9 "$(printf '%015d 5 - EX x' 99999999999999)" \
	>/dev/null
show "$name"
is "$STATUS $(json '[(.waiters | length), .waiters_cut]')" '0 [2,true]' \
	'entries that are none'
head -c 3000000 /dev/zero | tr '\0' x |
	redis-cli -s "$RIG/redis.sock" -X FIELD hset "{$key}%q" FIELD 1 >/dev/null
show "$name"
is "$STATUS $(json '.waiters_cut')" '0 true' 'a huge one'
rr set "{$key}%q" x >/dev/null
show "$name"
is "$STATUS $(json '[.waiters, .waiters_cut]')" '0 [[],false]' \
	'a queue of another type'
rr del "$key" >/dev/null
rr rpush "$key" 1 >/dev/null
show "$name"
is "$STATUS $(json '[.locks[] | .mode, .note]')" \
	'0 ["?","not a lock (type list)"]' 'a key of another type'
rr flushall >/dev/null

# --- what cannot be looked at ---
show /etc/hostname
is "$STATUS $(json '[.status, has("locks")]')" '1 [1,false]' 'no rule: 1'
like "$ERR" '/etc/hostname: no rule manages it' 'it says so'
ctl_on A show
is "$STATUS" 64 'no path: 64'
rr acl setuser deaf on '>x' '~mine:*' '&*' +@all >/dev/null
sed "s,redis://,&deaf:x@," "$RIG/A.conf" >"$RIG/deaf.conf"
ctl_on A -c "$RIG/deaf.conf" --json show f
is "$STATUS $(json '[has("locks"), .kernel_seen]')" '77 [false,true]' \
	'not allowed: 77, and the kernel is asked all the same'
like "$ERR" 'not allowed: NOPERM' 'it says so'
# By its keys, so it needs no SCAN.
rr acl setuser blind on '>x' '~*' '&*' +@all -scan >/dev/null
sed "s,redis://,&blind:x@," "$RIG/A.conf" >"$RIG/blind.conf"
ctl_on A -c "$RIG/blind.conf" show f
is "$STATUS" 0 'who may not SCAN may see one file'
redis_kill
ctl_on A show f
is "$STATUS" 69 'Redis is gone: 69'
like "$OUT" 'held at Redis: not known' 'what is not known is not said to be free'
done_testing
