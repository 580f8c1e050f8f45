#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# unreachable = "local": where Redis cannot be reached within the rule's timeout
# a lock is the kernel's alone, on this host, and a line says so on each (L8).
# The programs of one host exclude each other, and those of two do not, which is
# what is promised.  When Redis is back new locks are leases; what was granted
# without it stays as it is until it is unlocked, and nobody is told of it.
# After one call has waited, a lock or a question, the next ones of its process ask
# once and do not wait, until Redis has answered.
#
# Control: with "fail", each of these calls fails with ENOLCK.
#
# The timeout is longer than a server may stand still that is there; and the ttl
# than all that is done without one by who has a lease.
. "${0%/*}/../../lib/rig.sh"

config()
{
	rig_configs timeout=3s ttl=20s \
		path_more="unreachable = \"$1\"" "${@:2}"
}

# does NAME RESULT COMMAND WHAT: a locker's answer
does()
{
	ask "$1" "$3"
	is "$RESULT" "$2" "$1: $4"
}

# said NAME PATTERN N WHAT
said()
{
	is "$(grep -c "$2" "$RIG/$1.err")" "$3" "$4"
}

# waits_at_redis NAME: of its key
waits_at_redis()
{
	[ "$(rr exists "{dlock:$MNT/$1}%q")" = 1 ]
}

waits_in_kernel()
{
	on A grep -q -e "-> POSIX .*:$(on A stat -c %i "$MNT/$1") " /proc/locks
}

lockers()
{
	locker a dl A
	locker c dl A
	locker b dl B
	for name in a c b; do
		ask "$name" 'open f f'
		ask "$name" 'open g g'
		ask "$name" "open h h.$name"
	done
}

# has_lease NAME FILE: what it has locked last of the file; for it has said of it that
# Redis answers again as often as that it does not
has_lease()
{
	[ "$(grep -c "/$2\".* ALONE" "$RIG/$1.err")" = \
		"$(grep -c "/$2\".*answers again" "$RIG/$1.err")" ]
}

# is_reached NAME: and so waits for Redis from now on.  (Who has waited in vain asks
# once for a while, and what is late then is no answer.)
is_reached()
{
	ask "$1" 'lock h EX NB'
	ask "$1" 'lock h UN'
	has_lease "$1" "h.$1"
}

# (Each has the inputs of those before it.)
end_lockers()
{
	peer_end b c a
}

rig_start disks

# --- control ------------------------------------------------------------------

config fail
redis_kill
lockers
does a ENOLCK 'lock f EX NB' 'fail: flock(2) fails (control)'
does a ENOLCK 'record f F_WRLCK' '... so do record locks (control)'
does a ENOLCK 'record f F_WRLCK OFD' '... by description (control)'
end_lockers

# --- alone --------------------------------------------------------------------

config local
lockers
does a 0 'lock f EX NB' 'flock(2) is granted without Redis'
like "$(cat "$RIG/a.err")" \
	"^dlock: flock \"$MNT/f\" .*127.0.0.1:$PORT.*refused.*on this host ALONE" \
	'a line names the path, the server, and the reason'
does c EAGAIN 'lock f EX NB' 'another program of the host is kept out'
does c EAGAIN 'lock f SH NB' '... a reader, too'
does b 0 'lock f EX NB' 'and one of another host is not: that is promised'
said b 'on this host ALONE' 1 '... and its log says so'
does a 0 'lock f SH NB' 'it is made a shared lock'
does c 0 'lock f SH NB' 'which another reader joins'
does a EAGAIN 'lock f EX NB' 'and no exclusive one beside him'
does c 0 'lock f UN' 'he unlocks'
does a 0 'lock f EX NB' 'now it can be had'
said a 'on this host ALONE' 1 'one line is said of a path'
say c 'lock f EX'
ok 'who waits, waits in the kernel' eval '! hear c 1'
does a 0 'lock f UN' 'it is unlocked'
hear c
is "$RESULT" 0 'c: has it then'
does c 0 'lock f UN' 'and unlocks'
does a 0 'range g F_WRLCK 0 10' 'record locks are granted without Redis'
does c EAGAIN 'range g F_WRLCK 9 1' '... and keep out who is of this host'
does c 0 'range g F_WRLCK 10 10' '... but not from other bytes'
does b 0 'range g F_WRLCK 0 10' '... nor who is not'
does b 0 'range g F_UNLCK 0 10' 'b: unlocks'
say c 'range g F_WRLCK 0 5 WAIT'
ok 'who waits for a record lock, waits in the kernel' \
	until_true 10 waits_in_kernel g
does a EDEADLK 'range g F_WRLCK 10 1 WAIT' 'whose EDEADLK it is'
does a 0 'range g F_UNLCK 0 5' 'a part of it is unlocked'
hear c
is "$RESULT" 0 'c: has it then'
does c 0 'range g F_UNLCK 0 100' 'and unlocks all'
ask c 'open o o'
ask a 'open o o'
does c 0 'record o F_WRLCK OFD' "a description's lock is granted"
does a EAGAIN 'record o F_RDLCK OFD' '... and keeps others out'
ask c 'close o'
does a 0 'record o F_RDLCK OFD' '... until it is closed'
ask a 'close o'

# --- with and without -----------------------------------------------------------

# (a has bytes 5 to 9 of g, b has f; both by the kernel alone.)
redis_up
for name in a b c; do
	ok "$name: Redis is back" until_true 10 is_reached "$name"
done
locker d dl B
ask d 'open g g'
ask d 'open f f'
does d 0 'range g F_WRLCK 20 10' 'Redis is back: another host has a lease'
does a EAGAIN 'range g F_WRLCK 0 25' 'which keeps out who has some without'
does c EAGAIN 'range g F_WRLCK 5 1' '... and keeps that (control: c is refused)'
does c 0 'range g F_WRLCK 0 5' '... and no more than that'
does c 0 'range g F_UNLCK 0 5' 'c: unlocks'
does a 0 'range g F_RDLCK 5 5' 'it is weakened'
does a EAGAIN 'range g F_WRLCK 5 20' 'what is refused then leaves it as it is'
does c 0 'range g F_RDLCK 5 1' '... for another reader'
does c 0 'range g F_UNLCK 5 1' 'c: unlocks'
does a 0 'range g F_WRLCK 40 1' 'more of the file is a lease'
said a '/g".*answers again' 1 'and a line says that it is'
does d EAGAIN 'range g F_WRLCK 40 1' 'd: which keeps it out'
does d 0 'range g F_WRLCK 5 1' '... but not from what has none'
does d 0 'range g F_UNLCK 0 100' 'd: unlocks'
does a 0 'range g F_UNLCK 0 100' 'a: unlocks'
does d EAGAIN 'lock f EX NB' 'd: b has f, by the kernel'
does a 0 'lock f EX NB' 'a: which is no lease'
ok 'a has one' test -n "$(token_of f)"
token=$(token_of f)
does b 0 'lock f EX NB' 'b keeps what it has, if it asks once more'
does b 0 'lock f SH NB' '... or makes it less'
is "$(token_of f)" "$token" '... and no lease of it'
does b EAGAIN 'lock f EX NB' 'more than that is another lock, and refused'
does a 0 'lock f UN' 'a: unlocks'
does b 0 'lock f EX NB' 'b: now it is a lease'
does a EAGAIN 'lock f EX NB' '... that keeps a out'
does b 0 'lock f UN' 'b: unlocks'
unlike "$(cat "$RIG"/[abcd].err)" 'LOST|killed|longer' 'nobody has lost anything'

# --- who has a lease, and loses contact -------------------------------------------

does a 0 'range g F_WRLCK 0 10' 'a has a lease'
redis_kill
does a 0 'range g F_WRLCK 20 10' 'and is granted more without Redis'
does a 0 'range g F_RDLCK 0 30' 'and makes it all weaker'
does c EAGAIN 'range g F_WRLCK 25 1' '... which keeps writers out'
does a 0 'range g F_UNLCK 0 30' 'and unlocks'
does c 0 'range g F_WRLCK 0 30' 'c: as the kernel has it'
does c 0 'range g F_UNLCK 0 30' 'c: unlocks'

# --- who only asks (F_GETLK) -------------------------------------------------------

# (In ms; of 3 s.)
took()
{
	echo $(((END - START) / 1000000))
}

# q_waits COMMAND WHAT, q_asks_once COMMAND WHAT
q_waits()
{
	ask q "$1"
	at_least "$(took)" 2000 "$2"
}

q_asks_once()
{
	ask q "$1"
	in_time "$(took)" 1500 "$2"
}

q_has_lease()
{
	ask q 'set a W 200 1'
	has_lease q g && return
	ask q 'set a U 200 1'
	return 1
}

peer q dl A "$BIN/records" tell
ask q 'open a g'
q_waits 'get a W 200 1' 'q: a question waits for Redis'
is "$RESULT" U '... and is answered by the kernel'
q_asks_once 'get a W 200 1' 'the next one does not wait'
q_asks_once 'set a W 200 1' '... nor does a lock'
q_asks_once 'get a W 200 1' '... nor a question that comes after it'
ask q 'set a U 200 1'
peer_end q
peer q dl A "$BIN/records" tell
ask q 'open a g'
q_waits 'get a W 200 1' 'q: another process waits'
redis_up
ok 'q: it asks each time, until it is answered' until_true 10 q_has_lease
does d EAGAIN 'range g F_WRLCK 200 1' 'q has a lease, when Redis is back'
ask q 'set a U 200 1'
redis_kill
q_waits 'get a W 200 1' '... and waits again, when it is gone'
peer_end q

# --- who has some without, and waits for more -------------------------------------

does a 0 'range g F_WRLCK 5 5' 'a has some without Redis'
redis_up
ok 'a: Redis is back' until_true 10 is_reached a
does d 0 'range g F_WRLCK 20 10' 'another host has a lease'
does c 0 'range g F_WRLCK 15 1' 'and a program of the host another one'
say a 'range g F_WRLCK 0 25 WAIT'
ok 'a waits for more in the kernel' until_true 10 waits_in_kernel g
does c 0 'range g F_UNLCK 15 1' 'c: unlocks'
ok '... and then at Redis' until_true 10 waits_at_redis g%rec
does c EAGAIN 'range g F_WRLCK 7 1' '... and what it has without stays its own'
does d 0 'range g F_UNLCK 0 100' 'd: unlocks'
hear a
is "$RESULT" 0 'a has it all'
does a 0 'range g F_UNLCK 0 100' 'a: unlocks'
does b 0 'lock f EX NB' 'b has a lease'
say a 'lock f EX'
ok 'for which a waits at Redis' until_true 10 waits_at_redis f
redis_kill
hear a
is "$RESULT" 0 'a has it by the kernel, when that cannot be reached'
ok 'and b is killed for what it cannot renew (on_lost)' \
	until_true 30 pid_is_gone "${PEER_PID[b]}"
ok 'but a is not' kill -0 "${PEER_PID[a]}"
does a 0 'lock f UN' 'a: unlocks'
redis_up
until_true 10 db_is_empty
peer_end d
end_lockers

# --- what is an answer ------------------------------------------------------------

config local
locker a dl A
ask a 'open f f'
r config set requirepass secret >/dev/null
does a ENOLCK 'lock f EX NB' 'a server that wants a password is there: not alone'
unlike "$(cat "$RIG/a.err")" 'ALONE' 'and nothing like that is said'
export REDISCLI_AUTH=secret
r config set requirepass '' >/dev/null
unset REDISCLI_AUTH
peer_end a
config local redis_more='replicas = 1'
locker a dl A
ask a 'open f f'
does a ENOLCK 'lock f EX NB' 'nor is one without replicas not there'
unlike "$(cat "$RIG/a.err")" 'ALONE' '... and nothing like that is said'
peer_end a
peer fake nice -n -20 /usr/bin/python3 "$TOP/tests/programs/fakeredis.py"
hear fake
config local url="redis://127.0.0.1:$RESULT/0"
ask fake '-LOADING Redis is loading the dataset in memory\r\n'
locker a dl A
ask a 'open f f'
does a ENOLCK 'lock f EX NB' 'nor is one that reads its data in'
peer_end a

# --- exec, fork, dup, close -------------------------------------------------------

redis_kill
config local
# shellcheck disable=SC2016
is "$(dl A sh -c 'exec 9>f; flock 9; flock -n f true; echo $?
	(exec 9>&-; flock -n f true); echo $?; exec 9>&-; flock -n f echo free' \
	2>/dev/null)" '1
1
free' 'a shell has it until its descriptor is closed'
locker a dl A
locker c dl A
ask a 'open g g'
ask c 'open g g'
does a 0 'range g F_WRLCK 0 10' 'a process has a record lock'
redis_up
locker b dl B
ask b 'open g g'
does b 0 'range g F_WRLCK 0 10' 'another host has its lease'
ask a 'exec'
does c EAGAIN 'range g F_WRLCK 0 10' 'it has it after an execve(2)'
does a EAGAIN 'range g F_WRLCK 5 10' 'and is refused more'
does c EAGAIN 'range g F_WRLCK 0 1' 'it has it still'
ok 'and is not killed for it' kill -0 "${PEER_PID[a]}"
does a 0 'range g F_UNLCK 0 100' 'it unlocks'
end_lockers
rig_end
