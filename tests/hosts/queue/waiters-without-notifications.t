#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Waiters that cannot be told that they are granted it: there are too many of
# one process, their user may use no channels, their connection is forgotten by
# the server.  They have their place as the others, and none waits longer for
# them than one claim.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

TTL=5000			# ms
CLAIM=2000
SLACK=400			# of a busy machine

# The holder h on B
hold()
{
	locker h dl B
	ask h 'open f f'
	ask h 'lock f EX'
	[ "$RESULT" = 0 ] || rig_die "no holder: $HEARD"
	herd_new
}

# A waiter w on A
wait_for_it()
{
	locker w dl A
	ask w 'open f f'
	say w 'lock f EX'
	until_true 5 queue_is 1 || rig_die 'w is not in the queue'
}

# granted_after MS NAME: h lets go, and w has it in time
granted_after()
{
	local begin

	begin=$(now)
	ask h 'lock f UN'
	hear w $((TTL * 2 / 1000))
	is "$RESULT" 0 "$2: the waiter has it"
	in_time $(((END - begin) / 1000000)) "$1" "$2: in time (ms)"
	ask w 'lock f UN'
	peer_end h w
	rig_empty 2 "$2: no key is left"
}

rig_start disks
KEY=dlock:$MNT/f
rig_configs ttl=${TTL}ms connect_timeout=300ms

# --- too many of one process --------------------------------------------------

# threads.py N OUT [FILE]: so many of one process want it at the same time, once
# each, and keep it for a moment; OUT as herd.c has it.  With FILE, one more
# wants that, when a line comes in.
cat >"$RIG/threads.py" <<'END'
import fcntl, os, sys, threading, time

out = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)

def once(n):
    f = os.open("f", os.O_RDWR | os.O_CREAT, 0o666)
    asked = time.monotonic_ns()
    fcntl.flock(f, fcntl.LOCK_EX)
    os.write(out, b"+ t.%d EX %d %d 0\n" % (n, asked, time.monotonic_ns()))
    time.sleep(0.001)
    os.write(out, b"- t.%d EX %d 0 0\n" % (n, time.monotonic_ns()))
    fcntl.flock(f, fcntl.LOCK_UN)

all = [threading.Thread(target=once, args=(n,))
       for n in range(int(sys.argv[1]))]
for t in all:
    t.start()
if len(sys.argv) > 3:
    sys.stdin.readline()
    fcntl.flock(open(sys.argv[3], "w"), fcntl.LOCK_EX)
for t in all:
    t.join()
os.write(out, b". t.all - 0 0 0\n")
print(0, flush=True)
END

# One process listens by 128 connections at most; and others come all the time,
# so that the queue is never empty.
hold
peer t dl A /usr/bin/python3 "$RIG/threads.py" 140 "$RIG/herd.out"
ok '140 threads of one process: all are in the queue' \
	until_true 30 queue_is 140
is "$(rr hvals "{$KEY}%q" | grep -c ' - EX ')" 12 '... 12 that nobody can tell'
herd two dl B
drive two 3 EX 1000 600s h
until_true 10 queue_is 143 || rig_die 'no others come'
begin=$(now)
ask h 'lock f UN'
hear t 20
is "$RESULT" 0 '... all have it'
took=$((($(now) - begin) / 1000000))
is "$(grep -c '^\. two' "$RIG/herd.out")" 0 '... while others come and come'
note "140 threads had it after $took ms"
told_to_end B "${PIDS[@]}"
ok '... who end as well' each_done 4 15
herd_report
is "$OVERLAPS" 0 '... one at a time'
rig_empty 2 '... no key is left'

# Who is deaf hears again when others of its process need to hear no more.
heard_by()
{
	[ "$(rr hvals "{dlock:$MNT/g}%q" | grep -c " $1 EX ")" = 1 ]
}

hold
ask h 'open g g'
ask h 'lock g EX'
peer t dl A /usr/bin/python3 "$RIG/threads.py" 128 "$RIG/herd.out" g
ok '128 threads wait' until_true 10 queue_is 128
say t go
ok 'one more is deaf' until_true 10 heard_by -
ask h 'lock f UN'
ok 'they had it, and it hears' until_true 10 heard_by '[0-9a-f]*\.[0-9]*'
ask h 'lock g UN'
hear t 5
is "$RESULT" 0 'and has it'
peer_end h t
rig_empty 2 '... no key is left'

# --- permissions --------------------------------------------------------------

# Redis 7 gives a new user no channels, unless it is told (acl-pubsub-default).
rr acl setuser deaf on '>x' '~*' '+@all' resetchannels >/dev/null
rr acl setuser full on '>x' '~*' '+@all' '&dlock%wake:*' >/dev/null

# users A B: who asks on which host
users()
{
	rig_config A url="redis://$1:x@127.0.0.1:$PORT/0" ttl=${TTL}ms \
		connect_timeout=300ms "${@:3}"
	rig_config B url="redis://$2:x@127.0.0.1:$PORT/0" ttl=${TTL}ms \
		connect_timeout=300ms "${@:3}"
}

users full deaf
hold
wait_for_it
granted_after $((CLAIM / 4 + SLACK)) 'who holds it may not tell'

users deaf full
hold
wait_for_it
granted_after $SLACK 'who waits may not listen'
is "$(grep -c . "$RIG/w.err")" 1 '... which is said once'
like "$(cat "$RIG/w.err")" 'NOPERM.*&dlock%wake:\*' '... with what it lacks'

users deaf deaf
hold
wait_for_it
granted_after $SLACK 'neither may'

users deaf deaf 'path_more=interop = true'
hold
wait_for_it
granted_after $SLACK 'neither may, with interop'

# Ten, in order; each sees its claim soon.
users deaf deaf
hold
herd one dl A
LINE=()
for i in 1 2 3 4 5 6 7 8 9 10; do
	drive one 1 EX 1000 1 h
	LINE+=("one.${PIDS[0]}")
	until_true 5 queue_is "$i" || rig_die "no $i in the queue"
done
ask h 'lock f UN'
ok 'ten that may not listen: all have it' each_done 10 10
herd_report
is "$ORDER" "$(IFS=,; echo "${LINE[*]}")" '... in the order of coming'
is "$OVERLAPS" 0 '... one at a time'
rig_empty 2 '... no key is left'

# The scripts called, and the server's clock (us).
scripts_and_time()
{
	rr info everything | tr -d '\r' | awk -F'[:=,]' '
		$1 == "cmdstat_evalsha" { n += $3 }
		$1 == "server_time_usec" { at = $2 }
		END { print n, at }'
}

# looks [OPTION]: of thirty that wait, in a second
looks()
{
	local before began n at

	users deaf deaf "$@"
	hold
	herd more dl A
	drive more 30 EX 0 1 h
	until_true 10 queue_is 30 || rig_die 'not 30 in the queue'
	read -r before began < <(scripts_and_time)
	sleep 1
	read -r n at < <(scripts_and_time)
	LOOKS=$(((n - before) * 1000000 / (at - began)))
	ask h 'lock f UN'
	each_done 30 15 || rig_die 'they do not end'
	peer_end h more
}
looks
seldom=$LOOKS
looks 'path_more=interop = true'
note "thirty that may not listen ask $seldom times, with interop $LOOKS times"
at_most $((LOOKS * 100 / seldom)) 250 \
	'with interop the first one looks often, not each (per cent)'
users deaf deaf

# Killed while it is granted what nobody told it.
hold
drive one 2 EX 1000 1 h
until_true 5 queue_is 2 || rig_die 'not two in the queue'
on A kill -STOP "${PIDS[0]}"
begin=$(now)
ask h 'lock f UN'
on A kill -KILL "${PIDS[0]}"
ok 'one that may not listen is killed: the other has it' each_done 1 5
in_time $((($(now) - begin) / 1000000)) $((CLAIM + SLACK)) \
	'... within a claim (ms)' "$SLACK"
rig_empty 3 '... no key is left'

# Signals end its wait as any other's.
hold
wait_for_it
locker s dl A
ask s 'open f f'
ask s 'alarm 200'
ask s 'lock f EX'
is "$RESULT" EINTR 'one that may not listen is interrupted'
peer_end s
ok '... and leaves the queue' until_true 1 queue_is 1
granted_after $SLACK '... before the other'

herd_new
drive one 2 EX 500 10 he
drive one 2 EX 500 10 hr
drive one 2 EX 500 10 hj
ok 'six that may not listen, with signals: all have it' each_done 6 30
herd_report
is "$OVERLAPS" 0 '... one at a time'
rig_empty 3 '... no key is left'

# --- a connection that is forgotten ---------------------------------------------

# The server has closed what w listens by, and w does not hear of that.
proxy p
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=${TTL}ms \
	connect_timeout=300ms
rig_config B ttl=${TTL}ms connect_timeout=300ms
nobody_listens()
{
	[ "$(rr client list type pubsub | grep -c .)" = 0 ]
}
# The one who waits can be told.
hears()
{
	rr hvals "{$KEY}%q" | grep -q '\.[0-9]* EX '
}
hold
wait_for_it
ask p forget
ok 'the server has forgotten who listens' until_true 2 nobody_listens ||
	diag "$(rr client list type pubsub)"
granted_after $((CLAIM / 4 + SLACK)) 'forgotten by the server'

# And each time anew.
hold
wait_for_it
for i in 1 2 3 4; do
	ask p forget
	until_true 2 nobody_listens
	rr del "{$KEY}%q" >/dev/null
	until_true 5 queue_is 1 || rig_die 'w does not come back'
done
ask p forget
granted_after $((CLAIM / 4 + SLACK)) 'forgotten again and again'

# Told that it is closed, it listens anew, however often the queue is lost too.
hold
wait_for_it
for i in 1 2 3 4; do
	printf '%s\n' multi "del {$KEY}%q" 'client kill type pubsub' exec |
		rr >/dev/null
	until_true 5 queue_is 1 || rig_die 'w does not come back'
done
ok 'closed again and again, it can be told' until_true 1 hears
granted_after $SLACK 'closed again and again'
rig_end
