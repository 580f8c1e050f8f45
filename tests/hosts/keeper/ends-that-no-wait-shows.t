#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 200
#
# The end of a lock that no wait in the kernel tells of (DESIGN L4): a reader's
# while others read, that of a file which cannot be opened; and never before
# it.  Each on a host with the first pid namespace, whose /proc/locks shows the
# locks of the dead as well, and on one with a namespace of its own (a
# container), where it does not.  Then: keepers that are killed, or replaced.
# shellcheck disable=SC2016 # perl's and the jobs' shells expand these
. "${0%/*}/../../lib/rig.sh"

# What is PROMPT none owes to the tick at a third; and what is to stay is renewed in
# time on a busy machine as well.
TTL=4000			# ms
PROMPT=500			# ms, the end of a lease; about 20 are usual
LOG=''

dlock()
{
	local h=$1

	shift
	on "$h" env LD_PRELOAD="$BUILD/libdlock-preload.so" \
		DLOCK_CONFIG="$RIG/$h.conf" DLOCK_LOG="debug:$LOG" "$@"
}

tokens()
{
	if [ "$(rr type "dlock:$MNT/$1")" = hash ]; then
		rr hkeys "dlock:$MNT/$1" | grep '^dlock1 '
	else
		rr get "dlock:$MNT/$1"
	fi
}

IS_THERE="local k, t = KEYS[1], ARGV[1]
	local ok = redis.call('TYPE', k).ok
	return ok == 'string' and redis.call('GET', k) == t and 1
	       or ok == 'hash' and redis.call('HEXISTS', k, t) or 0"

# has FILE TOKEN
has()
{
	[ "$(rr eval "$IS_THERE" 1 "dlock:$MNT/$1" "$2")" = 1 ]
}

has_not()
{
	! has "$@"
}

# Until it is gone: one client that asks every 5 ms, for a client each time
# would take longer than what is measured.
seen_to_go()
{
	rr -r 2000 -i 0.005 eval "$IS_THERE" 1 "dlock:$MNT/$1" "$2" |
		grep -q -m 1 -x 0
}

# new_token FILE OLD: the one that came after OLD (a text of lines)
new_token()
{
	tokens "$1" | grep -vxF -e "$2" | head -n 1
}

# ends NAME FILE TOKEN BEGIN LIMIT(ms): from BEGIN (ns) on
ends()
{
	local took

	ok "$1: the lease ends" seen_to_go "$2" "$3"
	took=$((($(now) - $4) / 1000000))
	in_time "$took" "$5" "$1: after $took ms"
}

# stays NAME FILE TOKEN [COMMAND]: for 1.5 x ttl, COMMAND meanwhile; a token
# that went does not come again.
stays()
{
	throughout $((TTL * 3 / 2)) 1 "${4-true}"
	ok "$1: the lease stays for 1.5 x ttl" has "$2" "$3"
}

# Its keeper has had the time to take the lease over and to look once.
carried()
{
	grep -q "carried on: dlock1 $1 " "$LOG"
}

# A reader of FILE on HOST, in TOKEN.
reads()
{
	local before

	before=$(tokens "$3")
	locker "$1" dlock "$2"
	ask "$1" "open x $3"
	ask "$1" 'lock x SH'
	[ "$RESULT" = 0 ] || rig_die "$1 cannot read $3: $RESULT"
	TOKEN=$(new_token "$3" "${before:-none}")
	ask "$1" pid
	PID=$RESULT
	ok "reader $1: its keeper carries the lease" \
		until_true 5 carried "${TOKEN:7:32}"
}

# locker2 NAME HOST FILE: a reader that dlock does not know
reads_bare()
{
	locker "$1" on "$2"
	ask "$1" "open x $3"
	ask "$1" 'lock x SH'
	[ "$RESULT" = 0 ] || rig_die "$1 cannot read $3: $RESULT"
}

free()
{
	[ "$(rr exists "dlock:$MNT/$1")" = 0 ]
}

all_gone()
{
	peer_end "${!PEER_IN[@]}"
	ok "$1: no lease is left" until_true 5 free f
}

# --- a reader ends while others read --------------------------------------

reader_ends()
{
	local h=$1 name="$1, a reader is killed" a pid b begin

	reads a "$h" f
	a=$TOKEN pid=$PID
	reads b "$h" f
	b=$TOKEN
	reads_bare c "$h" f
	begin=$(now)
	on "$h" kill -KILL "$pid"
	ends "$name" f "$a" "$begin" $PROMPT
	ok "$name: the other's stays" has f "$b"

	name="$h, a reader closes"
	begin=$(now)
	ask b 'close x'
	ends "$name, only a stranger reads on" f "$b" "$begin" $PROMPT
	all_gone "$name"
}

# The lock's taker is dead, so only the first namespace shows it.
shell_ends()
{
	local h=$1 name="$1, exec 9<f; flock -s 9" before a begin

	on "$h" touch f
	reads_bare c "$h" f
	cp_new "$h.in" "$h.go"
	dlock "$h" bash -c 'exec 9<f; flock -s 9; echo >$0; read x <$1' \
		"$RIG/cp/$h.in" "$RIG/cp/$h.go" &
	ok "$name: locks" cp_wait "$h.in"
	a=$(tokens f)
	stays "$name" f "$a"
	begin=$(now)
	cp_reach "$h.go"
	wait $!
	if [ "$h" = P ]; then
		ends "$name" f "$a" "$begin" $PROMPT
	else
		stays "$name, ended; nobody can tell" f "$a"
		begin=$(now)
		ask c 'lock x UN'
		ends "$name, and nobody reads" f "$a" "$begin" $PROMPT
	fi
	all_gone "$name"
}

# Others come and go, on this file and on a hundred: the list is never still.
others_stir()
{
	for _ in {1..20}; do
		ask b 'lock x SH'
		ask b 'lock x UN'
		ask b 'close x'
		ask b 'open x f'
		ask m unlock
		ask m lock
	done
}

# The reader is dead, but not its lock: a child has it.
child_reads_on()
{
	local h=$1 name="$1, a reader's child reads on" a pid begin

	peer m on "$h" "$BIN/many_files" 150 SH
	ask m open
	ask m lock
	locker b on "$h"
	ask b 'open x f'
	reads a "$h" f
	a=$TOKEN pid=$PID
	ask a fork
	is "$(tokens f)" "$a" "$name: one lease"
	begin=$RESULT
	on "$h" kill -KILL "$pid"
	pid=$begin
	stays "$name" f "$a" others_stir
	ask b 'lock x SH'
	begin=$(now)
	on "$h" kill -KILL "$pid"
	if [ "$h" = P ]; then
		ends "$name, and is killed" f "$a" "$begin" $PROMPT
	fi
	all_gone "$name"
}

# A child that dlock does not know unlocks, while the parent lives.
stranger_unlocks()
{
	local h=$1 name="$1, a stranger unlocks" a begin

	reads_bare c "$h" f
	peer p dlock "$h" /usr/bin/perl -e '$| = 1; $^F = 99;
		open F, "<", "f" or die;
		flock F, 1 or die; print "locked\n"; <STDIN>;
		$ENV{LD_PRELOAD} = "";
		if (!fork) { exec "perl", "-e",
			"open F, q(<&=), " . fileno(F) . "; flock F, 8" }
		wait; print "unlocked\n"; <STDIN>'
	hear p
	a=$(tokens f)
	say p go
	hear p
	begin=$(now)
	is "$HEARD" unlocked "$name: is done"
	ends "$name, the others read on" f "$a" "$begin" $((TTL / 3 + PROMPT))
	all_gone "$name"
}

# Two locks of one process look alike; it says which one it has left.
one_of_two()
{
	local h=$1 name="$1, one of two is closed" a b begin

	reads a "$h" f
	a=$TOKEN
	ask a 'open y f'
	ask a 'lock y SH'
	b=$(new_token f "$a")
	ok "$name: the keeper carries both" until_true 5 carried "${b:7:32}"
	begin=$(now)
	ask a 'close y'
	ends "$name" f "$b" "$begin" $PROMPT
	ok "$name, the other one's stays" has f "$a"
	all_gone "$name"
}

# --- what cannot be opened ------------------------------------------------

# nobody's, with a lock on root's file; a child keeps the lock.
unreadable()
{
	local h=$1 name="$1, a file of mode 000" a begin child pid

	peer p dlock "$h" /usr/bin/perl -MPOSIX -e '$| = 1;
		open F, ">", "f" or die; chmod 0, "f";
		POSIX::setgid(65534); POSIX::setuid(65534);
		flock F, 2 or die "$!\n"; 
		defined($pid = fork) or die;
		if (!$pid) { sleep 1 while 1 }
		print "$$ $pid\n"; <STDIN>'
	hear p
	pid=$RESULT child=$START
	a=$(tokens f)
	like "$a" '^dlock1 ' "$name: nobody has a lease"
	ok "$name: a keeper carries it" until_true 5 carried "${a:7:32}"
	on "$h" kill -KILL "$pid"
	if [ "$h" = P ]; then
		stays "$name, the child has it" f "$a"
		begin=$(now)
		on "$h" kill -KILL "$child"
		ends "$name, the child is killed" f "$a" "$begin" $PROMPT
	else
		ends "$name, nobody can tell" f "$a" "$(now)" $((TTL + PROMPT))
		ok "$name: and the log says so" \
			grep -q 'not carried on any more' "$LOG"
		on "$h" kill -KILL "$child"
	fi
	on "$h" rm f
	all_gone "$name"
}

# Nobody at the far end may see a keeper.
fifo()
{
	local h=$1 name="$1, a FIFO" a begin keeper limit=$PROMPT

	ok "$name: no keeper is left of before" until_true 5 no_keeper_of "$h"
	on "$h" rm -f f
	on "$h" mkfifo f
	peer p dlock "$h" /usr/bin/perl -MFcntl -e '$| = 1;
		sysopen F, "f", O_RDWR or die; flock F, 2 or die "$!\n";
		print "$$\n"; <STDIN>'
	hear p
	a=$(tokens f)
	ok "$name: a keeper carries the lease" \
		until_true 5 carried "${a:7:32}"
	keeper=$(keepers_of "$h" | head -n 1)
	is "$(on "$h" find "/proc/$keeper/fd" -lname "$MNT/f" | grep -c .)" 0 \
		"$name: and has not opened it"
	stays "$name" f "$a"
	begin=$(now)
	peer_end p
	# In a container nobody can tell: it lapses.
	[ "$h" = P ] || limit=$((limit + TTL))
	ends "$name" f "$a" "$begin" "$limit"
	on "$h" rm f
	all_gone "$name"
}

unlinked()
{
	local h=$1 name="$1, an unlinked file" a begin

	peer p dlock "$h" /usr/bin/perl -e '$| = 1; open F, ">", "f" or die;
		flock F, 2 or die; unlink "f"; print "$$\n"; <STDIN>'
	hear p
	a=$(tokens f)
	ok "$name: a keeper carries the lease" \
		until_true 5 carried "${a:7:32}"
	begin=$(now)
	on "$h" kill -KILL "$RESULT"
	ends "$name" f "$a" "$begin" $PROMPT
	all_gone "$name"
}

# --- keepers -----------------------------------------------------------------

# The host's keepers.  Never those of the whole machine, which a host without a
# pid namespace shows.  (What one has forked just now has its name for a moment.)
keepers_of()
{
	if [ "$1" = P ]; then
		on P pgrep --ns "${INIT[P]}" --nslist mnt -x dlock-keeper
	else
		keepers "$1"
	fi
}

no_keeper_of()
{
	[ -z "$(keepers_of "$1")" ]
}

another_keeper()
{
	keepers_of "$1" | grep -qvx "$2"
}

pid_ends()
{
	! on "$1" kill -0 "$2" 2>/dev/null
}

killed_keeper()
{
	local h=$1 name="$1, a keeper is killed" a pid old child begin

	ok "$name: no keeper is left of before" until_true 5 no_keeper_of "$h"
	reads a "$h" f
	a=$TOKEN pid=$PID
	old=$(keepers_of "$h" | head -n 1)
	ask a fork
	child=$RESULT
	begin=$(now)
	on "$h" kill -KILL "$old"
	ok "$name: there is another" \
		until_true 5 another_keeper "$h" "$old"
	in_time $((($(now) - begin) / 1000000)) $((TTL / 3 + PROMPT)) \
		"$name: within a tick (ms)" "$PROMPT"
	stays "$name" f "$a"
	on "$h" kill -KILL "$pid"
	stays "$name, then the process, a child has the lock" f "$a"
	begin=$(now)
	on "$h" kill -KILL "$child"
	ends "$name, then the child" f "$a" "$begin" $PROMPT
	all_gone "$name"
}

# A killed keeper is found out when it is needed, not only at the tick.
killed_at_the_end()
{
	local h=$1 name="$1, a keeper is killed just before the end" a old

	ok "$name: no keeper is left of before" until_true 5 no_keeper_of "$h"
	peer p dlock "$h" /usr/bin/perl -e '$| = 1; open F, ">", "f" or die;
		flock F, 2 or die; if (!($c = fork)) { sleep 1 while 1 }
		print "$$ $c\n"; <STDIN>'
	hear p
	a=$(tokens f)
	old=$(keepers_of "$h" | head -n 1)
	on "$h" kill -KILL "$old"
	ok "$name: it is dead" until_true 5 pid_ends "$h" "$old"
	say p end
	ok "$name: the process ends" until_true 5 pid_ends "$h" "$RESULT"
	stays "$name" f "$a"
	on "$h" kill -KILL "$START"
	ok "$name: it ends" until_true 5 has_not f "$a"
	all_gone "$name"
}

has_stopped()
{
	# shellcheck disable=SC2016 # the host's shell expands it
	! on "$1" sh -c 'cat /proc/$1/task/*/status' sh "$2" |
		grep '^State:' | grep -qv '(stopped)'
}

replaced()
{
	local h=$1 name="$1, replaced by proof of death" a old pid

	ok "$name: no keeper is left of before" until_true 5 no_keeper_of "$h"
	: >"$LOG"
	locker a dlock "$h"
	ask a 'open x f'
	ask a 'lock x EX'
	a=$(tokens f)
	ok "$name: a keeper carries it" until_true 5 carried "${a:7:32}"
	ask a pid
	pid=$RESULT
	old=$(keepers_of "$h" | head -n 1)
	on "$h" kill -STOP "$old"
	# Else a thread of it may have the lock, for the instant of a look.
	ok "$name: that keeper stands still" until_true 5 has_stopped "$h" "$old"
	on "$h" kill -KILL "$pid"
	locker b dlock "$h"
	ask b 'open x f'
	ask b 'lock x EX' 5
	is "$RESULT" 0 "$name: the next one has it"
	on "$h" kill -CONT "$old"
	a=$(tokens f)
	ok "$name: the old keeper ends" until_true 5 pid_ends "$h" "$old"
	stays "$name, the new one's" f "$a"
	unlike "$(cat "$LOG")" LOST "$name: quietly"
	all_gone "$name"
}

rig_start disks
LOG=$RIG/log
: >"$LOG"
chmod 666 "$LOG"
chmod 711 "$RIG"
host_plain P
for h in A P; do
	rig_config $h ttl="${TTL}ms"
done
hosts=A
if [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ]; then
	hosts='P A'
else
	note 'this machine has no first pid namespace: the half of it'
fi
for h in $hosts; do
	for t in ${TESTS:-reader_ends shell_ends child_reads_on \
		stranger_unlocks one_of_two unreadable fifo killed_keeper}; do
		"$t" "$h"
	done
done
for t in ${TESTS:-unlinked killed_at_the_end replaced}; do
	"$t" A
done
rig_end
