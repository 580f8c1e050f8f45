#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# dlockctl lock: a command runs while a lease is held, and no longer; it excludes
# other such commands and programs that lock the file under dlock, on every host.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

# An answer may come a second late.
TIMES=(ttl=6s connect_timeout=1s)

rig_start disks
rig_configs "${TIMES[@]}"
on A touch f
on B touch f

# lock HOST ARG...: there; $STATUS, $OUT, $ERR
lock()
{
	local h=$1

	shift
	ctl_on "$h" lock "$@"
}

# lock_in_time ARG...: the same on B, for which a minute is too long
lock_in_time()
{
	STATUS=0
	OUT=$(on B timeout 60 env DLOCK_CONFIG="$RIG/B.conf" "$CTL" lock "$@" \
		"$MNT/f" -- echo ran 2>"$RIG/err") || STATUS=$?
}

# A command that says when it runs, and ends when it is told.
cat >"$RIG/job" <<-'END'
	#!/bin/sh
	echo runs $$
	read -r status
	exit "$status"
END
chmod 755 "$RIG/job"

# job NAME HOST ARG...: a peer: the job, under a lock
job()
{
	local name=$1 h=$2

	shift 2
	peer "$name" on "$h" env DLOCK_CONFIG="$RIG/$h.conf" "$CTL" lock "$@" \
		"$RIG/job"
}

# job_ended NAME: its status
job_ended()
{
	STATUS=0
	wait_for "${PEER_PID[$1]}" || STATUS=timeout
	peer_end "$1"
}
wait_for()
{
	until_true 10 pid_is_gone "$1"
}

# --- one at a time ---
job one A "$MNT/f" --
hear one
is "$RESULT" runs 'it runs'
like "$(token_of f)" '^dlock1 [0-9a-f]{32} [0-9a-f]{32}:A lock:[0-9a-f]{16}:- ' \
	'... with a token at the key of the file'
ctl_on A --json list
is "$(jq -c '.locks[] | [.mode, .command, .note]' <<<"$OUT")" \
	'["EX","job",null]' 'it is listed'
lock B -n "$MNT/f" -- echo ran
is "$STATUS $OUT" '1 ' '-n: refused on another host'
like "$ERR" ': it is locked by host .*, process [0-9]+ \(job\)$' '... by whom'
lock A -n "$MNT/f" -- echo ran
is "$STATUS" 1 '... and on this one'
ok 'a program without dlock is not excluded (control)' on B flock -n f true
ok 'under dlock it is' test "$(dl B flock -n f echo ran || echo $?)" = 1
ok '... on this host, too' test "$(dl A flock -n f echo ran || echo $?)" = 1
lock B -w 300ms "$MNT/f" -- echo ran
is "$STATUS $OUT" '1 ' '-w: for so long'
lock_in_time -w 0s
is "$STATUS $OUT" '1 ' '-w 0s: not at all'
is "$(rr hlen "{dlock:$MNT/f}%q")" 0 '... and its place is given up'
say one 0
ok 'it ends' job_ended one
ok 'and has released' lease_is_gone f
lock B -n "$MNT/f" -- sh -c 'echo ran; exit 7'
is "$STATUS $OUT $ERR" '7 ran ' 'the next one runs: its output, its status'
lock A "$MNT/f" -- /no/such/command
is "$STATUS" 127 'no such command: 127'
lock A "$MNT/f" -- "$MNT/f"
is "$STATUS" 126 'none that can be run: 126'
# shellcheck disable=SC2016 # the inner shell's
lock A "$MNT/f" -- sh -c 'kill -TERM $$'
is "$STATUS" 143 'ended by a signal: as a shell tells it'
ok 'each has released' lease_is_gone f

# --- in turn ---
locker holder dl A
ask holder 'open f f'
ask holder 'lock f EX'
job two B "$MNT/f" --
queued()
{
	[ "$(rr hlen "{dlock:$MNT/f}%q")" -gt "$1" ]
}
ok 'it waits for a program under dlock' until_true 5 queued 0
ask holder 'lock f UN'
ok '... and has its turn' hear two
is "$RESULT" runs '... runs'
say holder 'lock f EX'
ok 'a program under dlock waits for it' until_true 5 queued 0
say two 0
ok '... and has its turn' hear holder
ask holder 'lock f UN'
job_ended two
peer_end holder
job one A --shared "$MNT/f" --
hear one
job two B --shared "$MNT/f" --
hear two
is "$RESULT" runs '--shared: two at a time'
lock A -n "$MNT/f" -- true
is "$STATUS" 1 '... and an exclusive one is refused'
say one 0
say two 0
job_ended one
job_ended two
ok 'both have released' until_true 3 lease_is_gone f

# --- for as long as it runs ---
job one A "$MNT/f" --
hear one
ok 'it is renewed: refused for longer than the ttl' refused_for 7000 f
say one 0
job_ended one

# --- what it starts does not outlive the lease ---
# Two that cannot be told: one in a session of its own, whose parent is gone.
cat >"$RIG/deaf" <<-'END'
	#!/bin/sh
	trap 'echo told' TERM
	(setsid sh -c 'trap "" TERM; echo $$ >pid; exec sleep 1000' &)
	until [ -s pid ]; do sleep 0.01; done
	echo runs
	while :; do sleep 0.05; done
END
chmod 755 "$RIG/deaf"
deaf()
{
	on A rm -f pid
	peer deaf on A env DLOCK_CONFIG="$1" "$CTL" lock "$MNT/f" -- "$RIG/deaf"
	hear deaf
	DEAF=$(on A cat pid)
}
deaf "$RIG/A.conf"
ok 'it has started another (control)' on A kill -0 "$DEAF"
ctl_on A break --yes "$MNT/f"
is "$STATUS" 0 'the lease is broken'
ok '... it is killed' wait_for "${PEER_PID[deaf]}"
# (Process 1 reaps it.)
ok '... and what it started' until_true 5 pid_is_gone_on A "$DEAF"
like "$(cat "$RIG/deaf.err")" 'f: the lease is LOST: SIGKILL' '... and it says so'
peer_end deaf
cat >"$RIG/threads" <<-'END'
	#!/usr/bin/python3
	import ctypes, os, threading, time
	threading.Thread(target=time.sleep, args=(1000,)).start()
	print("runs", os.getpid(), flush=True)
	ctypes.CDLL(None).pthread_exit(None)
END
chmod 755 "$RIG/threads"
peer threads on A env DLOCK_CONFIG="$RIG/A.conf" "$CTL" lock "$MNT/f" -- \
	"$RIG/threads"
hear threads
pid=${HEARD#runs }
first_has_ended()
{
	[ "$(on A cut -d' ' -f3 "/proc/$pid/stat")" = Z ]
}
ok 'one whose first thread has ended' until_true 5 first_has_ended
ctl_on A break --yes "$MNT/f"
ok '... is killed, too' wait_for "${PEER_PID[threads]}"
on A kill -KILL "$pid" 2>/dev/null
peer_end threads
# A child that was there before is none that the command has started.
# shellcheck disable=SC2016 # the inner shell's
peer one on A env DLOCK_CONFIG="$RIG/A.conf" sh -c \
	'sleep 1000 & echo $!; exec "$@"' sh "$CTL" lock "$MNT/f" -- "$RIG/job"
hear one
other=$HEARD
hear one
is "${HEARD% *}" runs 'one that has a child already runs'
ctl_on A break --yes "$MNT/f"
ok '... its command is killed' wait_for "${PEER_PID[one]}"
ok '... and that is not' on A kill -KILL "$other"
peer_end one
proxy between
# An answer may be waited for as long as a sixth of the ttl, and is not beyond it.
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=6s connect_timeout=1s
deaf "$RIG/A.conf"
ask between hang
ends=$(rr pexpiretime "dlock:$MNT/f")
begun=$(($(date +%s%N) / 1000000))
ok 'no server: it is told' hear deaf 15
is "$RESULT" told '... by SIGTERM'
ok '... then what it started is killed' until_true 15 pid_is_gone_on A "$DEAF"
in_time $(($(date +%s%N) / 1000000 - begun)) $((ends - begun)) \
	'... before its lease ends'
ok '... and it ends' wait_for "${PEER_PID[deaf]}"
like "$(cat "$RIG/deaf.err")" 'SIGTERM to .*LOST: SIGKILL to ' \
	'... and it says both'
peer_end deaf
# Two outages, and it is told of each.  (Of the ttl three seconds are left between
# the first SIGTERM and its end.)
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=18s connect_timeout=1s
ask between pass
ok 'its lease ends' until_true 10 lease_is_gone f
deaf "$RIG/A.conf"
ask between hang
ends=$(rr pexpiretime "dlock:$MNT/f")
hear deaf 30
told=$RESULT
ask between pass
is "$told" told 'an outage: it is told'
renewed()
{
	[ "$(rr pexpiretime "dlock:$MNT/f")" -gt "$ends" ]
}
ok '... and renewed when that is over' until_true 5 renewed
ask between hang
hear deaf 30
is "$RESULT" told 'another outage: it is told again'
ask between pass
ctl_on A break --yes "$MNT/f"
ok '... and ends' wait_for "${PEER_PID[deaf]}"
is "$(grep -c 'SIGTERM to ' "$RIG/deaf.err")" 2 '... and both are said'
peer_end deaf
# The command ends while no server answers.
for timeout in 3s 1h; do
	ask between pass
	rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=1h connect_timeout=1s \
		timeout=$timeout
	# shellcheck disable=SC2016 # the inner shell's
	peer one on A env DLOCK_CONFIG="$RIG/A.conf" sh -c \
		'"$@"; echo "ended $?"' sh "$CTL" lock "$MNT/f" -- "$RIG/job"
	hear one
	job=$(on A pgrep -x job)
	ask between hang
	say one 7
	ok "no server for $timeout: its command ends" \
		until_true 10 pid_is_gone_on A "$job"
	[ "$timeout" = 3s ] || on A pkill -INT -x dlockctl
	hear one 30
	is "$HEARD" 'ended 7' '... and it ends'
	like "$(cat "$RIG/one.err")" 'f: not released at redis "main" \(127.* ttl' \
		'... and says that the lease is left'
	peer_end one
	rr del "dlock:$MNT/f" >/dev/null
done
peer_end between
rig_configs "${TIMES[@]}"
ok 'the lease ends' until_true 10 lease_is_gone f
# Whoever is killed of those two that see to it.
no_deaf()
{
	! on A pgrep -f "sh $RIG/deaf" >/dev/null
}
deaf "$RIG/A.conf"
# (It has started the command before it says its name.)
has_guard()
{
	guard=$(on A pgrep -x dlock-guard)
}
ok 'there is a guard' until_true 5 has_guard
for signal in TERM INT HUP QUIT USR1 TSTP; do
	on A kill -$signal "$guard"
done
is "$(hear deaf 0.3 || echo silent)" silent 'a signal to the guard is none'
pid=$(rr get "dlock:$MNT/f" | cut -d' ' -f 6)
ends=$(rr pexpiretime "dlock:$MNT/f")
begun=$(($(date +%s%N) / 1000000))
on A kill -KILL "$pid"
ok 'dlockctl itself is killed: its command is, too' until_true 5 no_deaf
ok '... and what it started' until_true 5 pid_is_gone_on A "$DEAF"
in_time $(($(date +%s%N) / 1000000 - begun)) $((ends - begun)) \
	'... before its lease ends'
ok '... and nobody is left' until_true 5 pid_is_gone_on A "$guard"
like "$(cat "$RIG/deaf.err")" \
	"/f: process $pid, .* SIGKILL to $RIG/deaf and all .* ends by its ttl" \
	'... and it says so'
peer_end deaf
on A kill -KILL "$DEAF" 2>/dev/null
ok 'and the lease ends by its ttl' until_true 10 lease_is_gone f
deaf "$RIG/A.conf"
until_true 5 has_guard
on A kill -KILL "$guard"
ok 'the guard is killed: dlockctl ends' wait_for "${PEER_PID[deaf]}"
ok '... its command has, too' no_deaf
# (Process 1 reaps it.)
ok '... and what it started' until_true 5 pid_is_gone_on A "$DEAF"
ok '... and has released' lease_is_gone f
like "$(cat "$RIG/deaf.err")" "/f: .*dlock-guard.*: SIGKILL to $RIG/deaf and all" \
	'... and it says so'
peer_end deaf

# Nobody reads what it says.
mkfifo "$RIG/full"
exec {full}<>"$RIG/full"
dd if=/dev/zero of="/proc/self/fd/$full" bs=65536 count=1 oflag=nonblock 2>/dev/null
# shellcheck disable=SC2016 # the inner shell's
peer mute on A env DLOCK_CONFIG="$RIG/A.conf" sh -c \
	'exec "$1" lock "$2" -- sh -c "echo runs; exec sleep 1000" 2>"$3"' sh \
	"$CTL" "$MNT/f" "$RIG/full"
hear mute
is "$RESULT" runs 'one whose messages nobody reads'
ctl_on A break --yes "$MNT/f"
ok '... is killed all the same' wait_for "${PEER_PID[mute]}"
peer_end mute
exec {full}>&-

# --- signals ---
peer one on A env DLOCK_CONFIG="$RIG/A.conf" nohup "$CTL" lock "$MNT/f" -- \
	"$RIG/job"
hear one
is "$RESULT" runs 'under nohup it runs'
pid=$(rr get "dlock:$MNT/f" | cut -d' ' -f 6)
on A kill -HUP "$pid"
ctl_on A lock -n "$MNT/f" -- true
is "$STATUS" 1 '... and SIGHUP is nothing to it'
ok '... nor to its command' on A kill -0 "$pid"
say one 0
ok '... which ends' job_ended one
job one A "$MNT/f" --
hear one
pid=$(rr get "dlock:$MNT/f" | cut -d' ' -f 6)
on A kill -TERM "$pid"
job_ended one
ok 'SIGTERM is the command'\''s' lease_is_gone f
cat >"$RIG/lines" <<-'END'
	read -r line
	echo "one $line"
	read -r line
	echo "two $line"
	read -r line
END
# as_a_job COMMAND...: what a shell sees
as_a_job()
{
	timeout 60 /usr/bin/python3 "$TOP/tests/programs/job_control.py" "$@" \
		sh "$RIG/lines"
}
bare=$(as_a_job env)
is "$(tr '\n' '.' <<<"$bare")" \
	'stopped by 21.one 1.stopped by 20.two 2.ended 130.' \
	'a job of a shell, without a lock (control)'
is "$(as_a_job "$CTL" -c "$RIG/A.conf" lock job:shell --)" "$bare" \
	'... is the same with one'
locker holder dl A
ask holder 'open f f'
ask holder 'lock f EX'
job two B "$MNT/f" --
ok 'one waits' until_true 5 queued 0
on B pkill -INT -x dlockctl
job_ended two
ok 'SIGINT ends it' test ! -s "$RIG/two.err"
ok '... and its place is given up' test "$(rr hlen "{dlock:$MNT/f}%q")" = 0
cp_new child
# shellcheck disable=SC2016 # the inner shell's
peer two on B env DLOCK_CONFIG="$RIG/B.conf" CHILD="$RIG/cp/child" sh -c \
	'read -r line <"$CHILD" & exec "$@"' sh "$CTL" lock "$MNT/f" "$RIG/job"
ok 'one that has a child already waits' until_true 5 queued 0
cp_reach child
child_is_dead()
{
	on B pgrep -r Z -P "$(on B pgrep -x dlockctl)" >/dev/null 2>&1
}
ok '... and goes on when that has ended' until_true 5 child_is_dead
ask holder 'lock f UN'
hear two
is "$RESULT" runs '... until it has its turn'
say two 0
job_ended two
peer_end holder

# --- keys ---
lock A "job:nightly" -- redis-cli -s "$RIG/redis.sock" exists job:nightly
is "$STATUS $OUT" '0 1' 'a key of its own'
STATUS=0
on A "$CTL" --redis "redis://127.0.0.1:$PORT/2" lock -w 100ms plain -- echo ran \
	>"$RIG/out" 2>&1 || STATUS=$?
like "$STATUS $(cat "$RIG/out")" '^(0 ran|69 .*was restarted, and grants nothing)' \
	'--redis: a key there, unless the server is young'
for template in jobs 'job[1]:%%:%i' 'd:%r'; do
	rig_config A ttl=9s path_more="key = \"$template\""
	key=${template//%%/%}
	key=${key/%[ir]/17}
	lock A "$key" -- redis-cli -s "$RIG/redis.sock" pttl "$key"
	like "$STATUS $OUT" '^0 [1-9][0-9]{0,3}$' "a key of the rule's $template: its ttl"
	lock A "x$key" -- redis-cli -s "$RIG/redis.sock" pttl "x$key"
	like "$STATUS $OUT" '^0 [1-9][0-9]{4}$' '... and one that is not (control)'
done
# The rule of the longer prefix comes first, and its template fits any text.
rig_config A ttl=9s path_more='key = "dlock:%i"'
rig_also A other /q/ ttl=60s url="redis://127.0.0.1:$PORT/3"
lock A dlock:/q/x -- redis-cli -s "$RIG/redis.sock" -n 3 exists dlock:/q/x
is "$STATUS $OUT" '0 1' 'a key that tells a path is of the rule of that path'
lock A dlock:17 -- redis-cli -s "$RIG/redis.sock" exists dlock:17
is "$STATUS $OUT" '0 1' '... and one that tells an inode is not (control)'
rig_config A "${TIMES[@]}"
for key in '{x}' 'x%rec' 'dlock%run:1' ''; do
	lock A "$key" -- echo ran
	is "$STATUS $OUT" '64 ' "no key for a lock: '$key'"
done
lock A /etc/hostname -- echo ran
is "$STATUS $OUT" '78 ' 'a path of no rule: not 1, for nobody has it'
lock A f -- echo ran
is "$STATUS $OUT" '64 ' 'a word that is a file here, of a rule, is no key'
like "$ERR" "f: a key, and .* say $MNT/f for the file" '... it says what to write'
on A mkdir -p dir
for path in ./f dir/../f ../mnt/f; do
	lock A "$path" -- redis-cli -s "$RIG/redis.sock" exists "dlock:$MNT/f"
	case $path in
	.*) is "$STATUS $OUT" '0 1' "$path is a path" ;;
	*) is "$STATUS $OUT" '64 ' "$path might be one" ;;
	esac
done
lock A dir -- redis-cli -s "$RIG/redis.sock" exists dir
is "$STATUS $OUT" '0 1' 'a directory of that name is in no way of a key'
lock A -n -w 1s "$MNT/f" -- echo ran
is "$STATUS $OUT" '64 ' '-n and -w'
lock A "$MNT/f"
is "$STATUS" 64 'no command'
lock A --shared "$MNT/f" -w 10s printf '%s.' --version --shared -n -c x --no -- y
is "$STATUS $OUT" '0 --version.--shared.-n.-c.x.--no.--.y.' \
	'without --, the options of the command are its own'
lock A "$MNT/f" -w 10s -- echo -n --version
is "$STATUS $OUT" '0 --version' '... and with it'
lock A -- "$MNT/f" echo --json
is "$STATUS $OUT" '0 --json' '... which may stand before the key'
ctl_on A --json lock "$MNT/f" -- echo ran
is "$STATUS $(jq -c '[.verb, .status]' <<<"$OUT")" '64 ["lock",64]' \
	'no JSON: the output is the command'\''s'
rr rpush "dlock:$MNT/f" x >/dev/null
lock A "$MNT/f" -- echo ran
is "$STATUS $OUT" '69 ' 'a key that is no lock'
like "$ERR" 'its key is no lock \(type list\)' '... it says so'
rr flushall >/dev/null
rig_config A ttl=60s connect_timeout=300ms timeout=1s redis_more='replicas = 1'
lock A -n "$MNT/f" -- echo ran
is "$STATUS $OUT" '69 ' 'granted, but no replica has it: no lease'
like "$ERR" 'f: no lease at redis "main" ' '... and it says so'
ok '... which is given back' until_true 5 lease_is_gone f
rig_config A "${TIMES[@]}" path_more='hold_at_least = "10s"'
lock A -n "$MNT/f" -- true
is "$STATUS" 0 'hold_at_least: the first one'
lock B -n "$MNT/f" -- true
is "$STATUS" 1 '... keeps the next one out, though it has ended'
like "$ERR" ': it is released, and kept for its hold_at_least; .*\(true\)$' \
	'... and is told why'
ok '... until then' until_true 15 lease_is_gone f

# --- rights, and no server ---
manual_user
STATUS=0
on A env DLOCK_CONFIG="$RIG/dlock.conf" "$CTL" lock "$MNT/f" -- true \
	>"$RIG/out" 2>&1 </dev/null || STATUS=$?
is "$STATUS" 0 'the user of dlock.conf(5) may'
rr acl setuser deaf on '>x' '~mine:*' '&*' +@all >/dev/null
sed "s,redis://,&deaf:x@," "$RIG/B.conf" >"$RIG/deaf.conf"
STATUS=0
on B env DLOCK_CONFIG="$RIG/deaf.conf" "$CTL" lock "$MNT/f" -- echo ran \
	>"$RIG/out" 2>"$RIG/err" </dev/null || STATUS=$?
is "$STATUS $(cat "$RIG/out")" '69 ' 'one who may not does not run it'
like "$(cat "$RIG/err")" 'NOPERM' '... and is told'
redis_kill
rig_config B "${TIMES[@]}" timeout=1s
lock B "$MNT/f" -- echo ran
is "$STATUS $OUT" '69 ' 'no server: it does not run'
like "$ERR" "f: no lease at redis \"main\" \\(127.*:$PORT.* so echo was not run" \
	'... and says of which one, and what'
rig_config B "${TIMES[@]}" timeout=1h
lock_in_time -w 300ms
is "$STATUS $OUT" '69 ' '... and is waited for no longer than the lock'
done_testing
