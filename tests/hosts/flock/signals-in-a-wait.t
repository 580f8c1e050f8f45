#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A wait in flock(2) ends when, and only when, the kernel's would (DESIGN L7):
# each case (tests/programs/waits.c) prints the same bare, where the holder is on
# this host, as under dlock, wherever it is.  What leaves a wait leaves nothing
# behind, here or at Redis (L1).
. "${0%/*}/../../lib/rig.sh"

ended=(setitimer alarm timer_create mixed mixed-often SIGCONT pthread_kill
	mask-added cancel-forbidden)
restarted=(SA_RESTART blocked ignored SIGSTOP ptrace other-thread
	cancel-deferred crowd mask-added-restart mask-removed)
left=(cancel-asynchronous pthread_exit siglongjmp siglongjmp-restart)

# hold HOW HOST: the holder h has the file.
hold()
{
	locker h "$1" "$2"
	ask h 'open f f'
	ask h 'lock f EX'
	[ "$RESULT" = 0 ] || rig_die "no holder: $HEARD"
}

# outcomes NAME HOW CASE...: of the cases on A, to $RIG/NAME; the holder does its
# part.
outcomes()
{
	local name=$1 how=$2

	shift 2
	peer w "$how" A "$BIN/waits" f "$@"
	: >"$RIG/$name"
	while hear w 20; do
		case $HEARD in
		release)
			ask h 'lock f UN'
			;;
		hold)
			ask h 'lock f EX'
			say w held
			;;
		end)
			break
			;;
		*)
			printf '%s\n' "$HEARD" >>"$RIG/$name"
			;;
		esac
	done
	peer_end w
}

# run NAME HOW CASE...: the same, and all of them were to their end.
run()
{
	outcomes "$@"
	is "$HEARD" end "$1: comes to its end"
	is "$(cat "$RIG/h.err")" '' "$1: the holder had it all the time"
	is "$(cat "$RIG/w.err")" '' "$1: nothing was logged"
}

# same NAME: as bare.
same()
{
	local case

	for case in "${cases[@]}"; do
		is "$(grep "^$case: " "$RIG/$1")" \
			"$(grep "^$case: " "$RIG/bare")" "$1: $case"
	done
}

# nothing_left NAME [SECONDS]: of a waiter that is gone, while the holder goes on
# and when it lets go.  Who is killed says nothing: its place in the queue ends
# with its life (two seconds), and nobody is kept waiting by it.
nothing_left()
{
	local name=$1 held

	[ -z "${2-}" ] || until_true "$2" no_keys_but 1

	held=$(rr get "$KEY")
	like "$held" ':B ' "$name: the holder's lease is there"
	is "$(rr dbsize)" 1 "$name: and no key of ours"
	ok "$name: no kernel lock" on A flock -n f true
	ask h 'lock f UN'
	ok "$name: a local flock -n is granted when the holder lets go" \
		dl A flock -n f true
	ask h 'lock f EX'
	is "$RESULT" 0 "$name: and then the holder again"
}

# A shell that waits by flock(1) on a descriptor of its own, for 0.3 s.
# shellcheck disable=SC2016 # expanded there
shell='exec 9>f; timeout 0.3 flock 9; echo $?; read x'

shell_waits()
{
	peer s "$1" A bash -c "$shell"
	hear s
	is "$HEARD" 124 "$2: it timed out"
}

# flock -w 1 on A: its status, after about a second.
flock_w()
{
	local begin took status=0

	begin=$(now)
	"$1" A flock -w 1 f true || status=$?
	took=$((($(now) - begin) / 1000000))
	is "$status" 1 "$2: its status"
	at_least "$took" 1000 "$2: no sooner than 1 s ($took ms)"
	in_time "$took" 1400 "$2: and not much later" 400
}

# The waiter on A, stopped: it has no lock in hand.
stopped_outside()
{
	on A kill -STOP "$1"
	on A grep -q '^lock:' "/proc/$1/fdinfo/9" || return 0
	on A kill -CONT "$1"
	return 1
}

clients()
{
	rr client list | grep -c 'name=dlock-'
}

no_keys_but()
{
	[ "$(rr dbsize)" -le "$1" ]
}

no_clients_but()
{
	[ "$(clients)" -le "$1" ]
}

rig_start disks
KEY=dlock:$MNT/f
rig_configs ttl=5s connect_timeout=300ms
cases=("${ended[@]}" "${left[@]}" "${restarted[@]}")
hold on A
run bare on "${cases[@]}"
cases_seen=$(cut -d: -f1 "$RIG/bare" | sort -u | grep -c .)
is "$cases_seen" "${#cases[@]}" 'bare: each case has an outcome'

# The control: a shim that grants everything.  (No case is a wait then, and a
# timer that comes after its end may end the program, too.)
outcomes null null setitimer SA_RESTART siglongjmp
unlike "$(cat "$RIG/null")" EINTR 'under the null shim: other outcomes'

# --- flock(1) -----------------------------------------------------------------

shell_waits on 'bare: a shell'
ok 'bare: nothing of it is left' test -z "$(on A cat /proc/locks |
	grep -- '-> FLOCK')"
ask h 'lock f UN'
ok 'bare: a local flock -n is granted then' on A flock -n f true
peer_end s
ask h 'lock f EX'
flock_w on 'bare: flock -w 1'

hold dl A
run 'local holder' dl "${cases[@]}"
same 'local holder'

hold dl B
run 'remote holder' dl "${cases[@]}"
same 'remote holder'
run 'remote holder, confined' dl confined "${cases[@]}"
same 'remote holder, confined'

flock_w dl 'flock -w 1'
shell_waits dl 'a shell'
nothing_left 'a shell' 5
peer_end s

# It is killed while it sleeps; for the length of a round trip it has the
# kernel's lock, which then would stay with the shell.
# shellcheck disable=SC2016 # expanded there
peer s dl A bash -c 'exec 9>f; flock 9 & echo $!; wait; echo $?; read x'
hear s
pid=$RESULT
ok 'SIGKILL: it waits, and sleeps' until_true 5 stopped_outside "$pid"
on A kill -KILL "$pid"
hear s
nothing_left 'SIGKILL' 5
peer_end s

# --- what never comes back ------------------------------------------------------

for case in "${left[@]}"; do
	peer w dl A "$BIN/waits" f "$case"
	hear w
	hear w
	is "$HEARD" end "$case: and lives on"
	nothing_left "$case"
	peer_end w
done

# (Who has unlocked beside a renewal of his own has one connection more.)
peer_end h
hold dl B
peer w dl A "$BIN/waits" f jumps
hear w 200
jumped=$HEARD
like "$jumped" '10000 jumps, 0 pages, 0 descriptors, 0 threads more' \
	'10,000 jumps leak no memory, descriptor or thread'
like "$jumped" '0 locks, 0 blocked, cancellation on, handled ALRM' \
	'nor a lock, and leave no signal blocked, nor cancellation off'
hear w
nothing_left 'jumps'
peer_end w
ok 'the connections end with the process' until_true 2 no_clients_but 3

# The same in the wait for a server that does not answer.
proxy p
rig_config A ttl=5s connect_timeout=300ms timeout=60s \
	url="redis://127.0.0.1:$PROXY/0"
ask p hang
peer w dl A "$BIN/waits" f few-jumps
hear w 20
# (A thread is there to void what may have been granted.)
like "$HEARD" '8 jumps, 0 pages, 0 descriptors, [01] threads more' \
	'no answer: jumps leak nothing'
like "$HEARD" '0 locks, 0 blocked, cancellation on, handled ALRM' \
	'no answer: nor a lock, or a blocked signal'
peer_end w
ask h 'lock f UN'
rig_end
