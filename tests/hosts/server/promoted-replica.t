#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Delayed restart (L5): a replica that was promoted is old, but what its master
# granted last may be missing in its memory.  For one whole delay it grants
# nothing, whoever asks; holders put theirs back.  SCRIPT FLUSH costs nothing.
. "${0%/*}/../../lib/rig.sh"

DELAY=9				# s: A's lease outlives the promotion

# other NAME COMMAND...: of the server that listens at $RIG/NAME.sock
other()
{
	local name=$1

	shift
	redis-cli -s "$RIG/$name.sock" --raw "$@" 2>/dev/null
}

other_is_up()
{
	[ "$(other "$1" ping)" = PONG ]
}

declare -A OTHER OTHER_PORT
# other_up NAME OPTION...
other_up()
{
	local name=$1 port

	shift
	free_port
	port=$FREE
	nice -n -20 setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$port" \
		--unixsocket "$RIG/$name.sock" --dir "$RIG" --save '' \
		--appendonly no --daemonize no "$@" >"$RIG/$name.log" 2>&1 &
	OTHER[$name]=$!
	OTHER_PORT[$name]=$port
	disown $!
	until_true 5 other_is_up "$name" || rig_die "no $name"
}

others_end()
{
	kill -KILL "${OTHER[@]}" 2>/dev/null
	rig_cleanup
}

info_has()
{
	other "$1" info | tr -d '\r' | grep -q "^$2\$"
}

is_old()
{
	[ "$(other "$1" info | tr -d '\r' |
		sed -n 's/^uptime_in_seconds://p')" -gt $((DELAY + 1)) ]
}

has()
{
	[ "$(other "$1" exists "$2")" = 1 ]
}

rig_start disks
trap others_end EXIT
other_up replica --replicaof 127.0.0.1 "$PORT" --repl-diskless-sync-delay 0
other_up alone
ln -sf "$RIG/redis.sock" "$RIG/master.sock"
proxy p
rig_configs url="redis://127.0.0.1:$PROXY/0" ttl=${DELAY}s timeout=5s \
	restart_delay=${DELAY}s
ok 'a replica' until_true 5 info_has replica 'master_link_status:up'
for server in master replica alone; do
	until_true $((DELAY + 4)) is_old "$server"
done
locker b dl B
ask b 'open a f'
ask b 'lock a EX'
is "$RESULT" 0 'B has a lock'
ask b 'lock a UN'

# What A is granted now does not reach the replica any more.
other replica replicaof 127.0.0.1 1 >/dev/null
locker a dl A
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'A has it, by the master'
redis_kill
KEY=dlock:$MNT/f
is "$(other replica exists "$KEY")" 0 'the last lease is not there'
ask p "target 127.0.0.1:${OTHER_PORT[replica]}"
ask b 'lock a EX NB'
is "$RESULT" ENOLCK 'of a replica nobody gets anything'
like "$(cat "$RIG/b.err")" "replica of 127.0.0.1:1:" '... and is told so'
born=$(now)
is "$(other replica replicaof no one)" OK 'it is promoted'
# One who knows nothing of what was before.
dl B flock -n f true 2>"$RIG/new.err"
ok 'a new process gets nothing: the lock is held' test "$?" != 0
dl B flock -n free true 2>"$RIG/new.err"
ok '... nor what nobody holds, though the server is old' test "$?" != 0
note "$(cat "$RIG/new.err")"
like "$(cat "$RIG/new.err")" 'grants nothing' '... and is told why'
ok 'A puts its lease back' until_true 2 has replica "$KEY"
dl B flock free true 2>"$RIG/new.err"
is "$?" 0 'who waits has its lock in the end'
took=$((($(now) - born) / 1000000))
at_least "$took" $((DELAY * 1000)) '... after one whole delay (ms)'
in_time "$took" $((DELAY * 1000 + 3000)) '... and not long after it (ms)' 3000
ask b 'lock a EX NB'
is "$RESULT" EAGAIN 'A holds its lock as before'

other replica script flush >/dev/null
dl B flock -n free true
is "$?" 0 'SCRIPT FLUSH: a new process goes on'
ask b 'lock a EX NB'
is "$RESULT" EAGAIN '... and one that was there'
ask a 'lock a UN'

# Another server, old and no replica: who knew the one before waits, and so do
# all others from then on.
ask a 'lock a EX'
is "$RESULT" 0 'A has a lock again'
ask p "target 127.0.0.1:${OTHER_PORT[alone]}"
ok 'another server: A puts its lease there' until_true 3 has alone "$KEY"
dl B flock -n f true 2>"$RIG/new.err"
ok '... and a new process does not get it' test "$?" != 0
dl B flock -n free true 2>"$RIG/new.err"
ok '... nor anything, for one delay' test "$?" != 0
ask a 'lock a UN'
is "$RESULT" 0 'A unlocks'
nothing_left()
{
	[ "$(other alone --scan | grep -vc '^dlock%run:')" = 0 ]
}
ok 'nothing is left but the mark of the change' until_true 3 nothing_left
done_testing
