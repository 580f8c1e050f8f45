#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Shared locks and conversions across two hosts with a disk each: readers of
# both at once and no writer beside one; each reader's lease lives as long as
# its lock (L4, L5); a conversion gives up the old lock first, at Redis as well
# (L1), so that two readers who both want to write do not wait for each other.
. "${0%/*}/../../lib/rig.sh"

TTL=5000			# ms
SLACK=250			# ms, the issue's
BACKOFF=250			# ms, a waiter's longest pause
KEY=dlock:				# completed by rig_start

# readers: how many tokens the hash at the key has; 0 without a key.
readers()
{
	local n

	[ "$(rr type "$KEY")" = hash ] || {
		echo 0
		return
	}
	n=$(rr hlen "$KEY")
	[ "$(rr hget "$KEY" dlock)" = 1 ] && n=$((n - 1))
	echo "$n"
}

# The token of the one reader there is.
token()
{
	rr hkeys "$KEY" | grep -v '^dlock$'
}

# The token is there, exclusively or not.
has_token()
{
	[ "$(rr get "$KEY")" = "$1" ] ||
		[ "$(rr hexists "$KEY" "$1")" = 1 ]
}

is_free()
{
	[ "$(rr exists "$KEY")" = 0 ]
}

# try LOCKER MODE WANT NAME: flock(MODE | LOCK_NB)
try()
{
	ask "$1" "lock x $2 NB"
	is "$RESULT" "$3" "$4"
}

# A locker on a host with the file open as slot x.
open_on()
{
	locker "$1" dl "$2"
	ask "$1" 'open x f'
	[ "$RESULT" = 0 ] || rig_die "open on $2: $RESULT"
}

# Everybody goes, and so does the key.
all_gone()
{
	peer_end "${!PEER_IN[@]}"
	rig_empty 2 "$1: no key is left"
}

# A waiter on B that was refused once, and so is surely waiting.
waiting_writer()
{
	open_on w B
	try w EX EAGAIN "$1: the remote writer is refused"
	say w 'lock x EX'
}

readers_together()
{
	local name='readers'

	open_on a A
	open_on b B
	open_on a2 A
	open_on w B
	open_on w2 A
	try a SH 0 "$name: A reads"
	try b SH 0 "$name: B reads at the same time"
	try a2 SH 0 "$name: A reads twice"
	is "$(readers)" 3 "$name: three leases in the hash"
	try w EX EAGAIN "$name: a writer of B is refused"
	try w2 EX EAGAIN "$name: a writer of A is refused"
	ask b 'lock x UN'
	try w EX EAGAIN "$name: and while A alone reads"
	ask a 'lock x UN'
	try w EX EAGAIN "$name: and while one is left"
	try b SH 0 "$name: a reader of B still comes in"
	ask a2 'close x'
	try w2 EX EAGAIN "$name: a writer of A is refused for B's reader"
	try w EX EAGAIN "$name: and one of B by its own kernel"
	ask b 'close x'
	ok "$name: the last one takes the key along" until_true 2 is_free
	try w EX 0 "$name: then B writes"
	ask a2 'open x f'
	try a2 SH EAGAIN "$name: no reader beside the writer"
	try b SH EBADF "$name: (that one is closed)"
	ask w 'lock x UN'
	try a2 SH 0 "$name: a reader after the writer"
	ask a2 'lock x UN'
	all_gone "$name"
}

writer_is_refused()
{
	ask "$1" 'lock x EX NB'
	[ "$RESULT" = EAGAIN ]
}

renewed()
{
	local name='renewal' before

	open_on a A
	open_on w B
	try a SH 0 "$name: A reads"
	before=$(token)
	ok "$name: each is refused" \
		throughout $((TTL * 3200 / 1000)) 50 writer_is_refused w
	is "$(token)" "$before" "$name: the token is the same"
	at_least "$(rr pttl "$KEY")" $((TTL / 5)) "$name: and so young"
	# A reader that comes and goes on B takes nothing of A's away.
	open_on b B
	try b SH 0 "$name: B reads as well"
	ask b 'lock x UN'
	is "$(readers)" 1 "$name: and A's stays"
	all_gone "$name"
}

# killed NAME LIMIT(ms) [kept]: kill -9 of a reader of A.
killed()
{
	local name=$1 begin pid

	ok "$name: no keeper is left" until_true 10 no_keeper A
	open_on a A
	ask a 'lock x SH'
	ask a pid
	pid=$RESULT
	if [ -n "${3-}" ]; then
		ok "$name: it has a keeper" until_true 10 have_standbys A 1
	fi
	waiting_writer "$name"
	begin=$(now)
	on A kill -KILL "$pid"
	hear w 10
	is "$RESULT" 0 "$name: the writer owns the lock"
	in_time $(((END - begin) / 1000000)) "$2" "$name: in time (ms)"
	all_gone "$name"
}

# One reader of three dies; the others keep the writer out, and it goes.
one_of_three()
{
	local name='one of three dies' pid

	open_on a A
	open_on a2 A
	open_on b B
	ask a 'lock x SH'
	ask a2 'lock x SH'
	ask b 'lock x SH'
	ask a pid
	pid=$RESULT
	open_on w B
	on A kill -KILL "$pid"
	ask b 'lock x UN'
	try w EX EAGAIN "$name: the writer is refused"
	ask a2 'lock x UN'
	say w 'lock x EX'
	hear w 10
	is "$RESULT" 0 "$name: and gets it after the last"
	ask w 'lock x UN'
	all_gone "$name"
}

# renewed_since EXPIRY: of the reader $dead
renewed_since()
{
	[ "$(rr hget "$KEY" "$dead")" != "$1" ]
}

dead_host()
{
	local name='host death' begin dead asked left

	open_on a A
	ask a 'lock x SH'
	dead=$(token)
	open_on b B
	ask b 'lock x SH'
	open_on w B
	try w EX EAGAIN "$name: the writer is refused"
	# It is young, so that there is time to be refused by it.
	ok "$name: renewed just now" \
		until_true 10 renewed_since "$(rr hget "$KEY" "$dead")"
	begin=$(now)
	host_dead A
	until_true 2 host_is_gone A
	# No renewal comes after this.
	asked=$(now)
	left=$(($(rr hget "$KEY" "$dead") - ${EPOCHREALTIME/[.,]/} / 1000))
	ask b 'lock x UN'
	ask w 'lock x EX NB'
	# (Unless this was so slow that its ttl is over, as is shown below.)
	if [ "$RESULT" != 0 ]; then
		is "$RESULT" EAGAIN "$name: and still, for the dead host's lease"
		ask w 'lock x EX' 10
	fi
	is "$RESULT" 0 "$name: the writer owns the lock"
	at_least "$END" $((asked + (left - 1) * 1000000)) \
		"$name: no earlier than the ttl allows"
	in_time $(((END - begin) / 1000000)) $((TTL + SLACK + BACKOFF)) \
		"$name: in time (ms)" $((SLACK + BACKOFF))
	ask w 'lock x UN'
	all_gone "$name"
	host_new A disks
}

# Of a and b, the one that is granted it first.
one_has_it()
{
	hear a 0.05 && first=a second=b && return
	hear b 0.05 && first=b second=a
}

both_convert()
{
	local name='both convert' first second round

	open_on a A
	open_on b B
	for round in 1 2 3 4 5; do
		try a SH 0 "$name, $round: A reads"
		try b SH 0 "$name, $round: B reads"
		say a 'lock x EX'
		say b 'lock x EX'
		until_true 5 one_has_it
		is "$RESULT" 0 "$name, $round: one gets it"
		is "$(rr type "$KEY")" string "$name, $round: exclusively"
		if hear "$second" 0.05; then
			fail "$name, $round: the other waits"
		else
			pass "$name, $round: the other waits"
		fi
		ask "$first" 'lock x UN'
		is "$RESULT" 0 "$name, $round: it unlocks"
		hear "$second" 5
		is "$RESULT" 0 "$name, $round: the other gets it"
		ask "$second" 'lock x UN'
	done
	all_gone "$name"
}

refused_conversion()
{
	local name='refused conversion' before

	open_on a A
	open_on b B
	try a SH 0 "$name: A reads"
	before=$(token)
	try b SH 0 "$name: B reads"
	try a EX EAGAIN "$name: A may not write"
	is "$(rr hexists "$KEY" "$before")" 0 "$name: A's old lease is gone"
	is "$(readers)" 1 "$name: B's is there"
	try b EX 0 "$name: B may write, for A has lost its lock"
	try a SH EAGAIN "$name: A reads no more"
	ask b 'lock x UN'
	# Refused by the kernel, by a reader of the same host.
	open_on a2 A
	try a SH 0 "$name: A reads"
	try a2 SH 0 "$name: A reads twice"
	try a EX EAGAIN "$name: the kernel refuses"
	is "$(readers)" 1 "$name: one lease is left"
	try a2 EX 0 "$name: so the other one may write"
	all_gone "$name"
}

# As NFS refuses a writer who has the file open for reading only.
failed_conversion()
{
	local name='failed conversion' before

	GATE=$RIG/cp/gate SHIM="$SHIM $BIN/flock_gate.so" open_on a A
	open_on b B
	try a SH 0 "$name: A reads"
	before=$(token)
	echo 'fails EX' >"$RIG/cp/gate"
	try a EX EBADF "$name: A cannot write"
	ok "$name: A reads on, by its old lease" has_token "$before"
	sleep "$(awk "BEGIN { print 1.5 * $TTL / 1000 }")"
	try b EX EAGAIN "$name: ... for longer than a ttl"
	try a EX 0 "$name: A writes"
	ask a 'lock x UN'
	try b EX 0 "$name: B writes when A has unlocked"
	all_gone "$name"
}

downgrade()
{
	local name='downgrade'

	open_on a A
	open_on b B
	open_on a2 A
	try a EX 0 "$name: A writes"
	try b SH EAGAIN "$name: B may not read"
	try a SH 0 "$name: A reads on"
	is "$(readers)" 1 "$name: one shared lease"
	try b SH 0 "$name: at once B may read"
	try a2 SH 0 "$name: and A's others"
	try b EX EAGAIN "$name: but not write"
	ask a2 'lock x UN'
	try a EX 0 "$name: A writes again"
	is "$(rr type "$KEY")" string "$name: exclusively"
	ask a 'lock x SH'
	try b SH 0 "$name: LOCK_SH without LOCK_NB does the same"
	all_gone "$name"
}

stopped_redis()
{
	local name='Redis is stopped' before

	open_on a A
	open_on b B
	open_on a2 A
	try a EX 0 "$name: A writes"
	before=$(rr get "$KEY")
	kill -STOP "$REDIS_PID"
	ask a 'lock x SH'
	is "$RESULT" 0 "$name: a downgrade does not fail"
	in_time $(((END - START) / 1000000)) 600 "$name: and is prompt (ms)"
	kill -CONT "$REDIS_PID"
	until_true 2 redis_is_up
	# Redis may do what it was asked meanwhile, or not: it is there.
	ok "$name: the lease is there" has_token "$before"
	ok "$name: the other host is kept out, all the time" \
		throughout $((TTL * 1500 / 1000)) 1 writer_is_refused b
	try a2 SH 0 "$name: a reader of this host is let in"
	ask a2 'lock x UN'
	unlike "$(cat "$RIG/a.err")" LOST "$name: nothing was lost"
	like "$(cat "$RIG/a.err")" 'weaken' "$name: the log says so"
	ok "$name: the lease is renewed" has_token "$before"
	ask a 'lock x UN'
	is "$RESULT" 0 "$name: the unlock"
	ok "$name: frees it" until_true 2 is_free
	try b EX 0 "$name: and the other host writes"
	ask b 'lock x UN'

	# An upgrade must not be granted; it has lost the old lock.
	try a SH 0 "$name: A reads"
	kill -STOP "$REDIS_PID"
	ask a 'lock x EX NB'
	is "$RESULT" ENOLCK "$name: an upgrade fails"
	try a2 EX ENOLCK "$name: so does another's lock"
	kill -CONT "$REDIS_PID"
	ok "$name: nothing stays behind" until_true 2 is_free
	try b EX 0 "$name: the other host writes"
	ask b 'lock x UN'
	all_gone "$name"
}

is_type()
{
	[ "$(rr type "$KEY")" = "$1" ]
}

# What Redis never heard is sent again, until it answers (L1).
unanswered_downgrade()
{
	local name='an unanswered downgrade' before

	proxy p
	rig_config A ttl=20s connect_timeout=150ms \
		url="redis://127.0.0.1:$PROXY/0"
	open_on a A
	open_on b B
	try a EX 0 "$name: A writes"
	before=$(rr get "$KEY")
	ask p hang
	ask a 'lock x SH'
	is "$RESULT" 0 "$name: does not fail"
	ok "$name: the lease is exclusive yet" is_type string
	try b SH EAGAIN "$name: and refuses a reader"
	ask p pass
	ok "$name: then it is shared" until_true 2 is_type hash
	is "$(token)" "$before" "$name: with the same token"
	try b SH 0 "$name: and B reads"
	try b EX EAGAIN "$name: but may not write"
	try b SH 0 "$name: and reads again"
	try a EX EAGAIN "$name: nor may A write"
	all_gone "$name"
	rig_config A "${settings[@]}"
}

# Perl: COUNT times LOCK_SH | LOCK_NB, and after each the same without a lock: three
# looks at the kernel's list at least, 0.1 ms apart, until 1 ms is over; how many were
# refused, the least time that a refusal took, and the median times of all and of the
# looks (us).
# shellcheck disable=SC2016 # perl's
reader='use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);
	open F, "<", "f" or die; my (@took, @looked, @refused);
	sub us { int(1e6 * (clock_gettime(CLOCK_MONOTONIC) - shift)) }
	for (1 .. shift) {
		my $t = clock_gettime(CLOCK_MONOTONIC);
		my $got = flock F, 5;
		my $us = us $t;
		push @took, $us;
		$got ? flock F, 8 : push @refused, $us;
		$t = clock_gettime(CLOCK_MONOTONIC);
		for (my $n = 0; $n < 3 || us($t) < 1000; $n++) {
			sleep 0.0001 if $n;
			open my $list, "<", "/proc/locks"; my @all = <$list>;
		}
		push @looked, us $t;
	}
	@$_ = sort { $a <=> $b } @$_ for \(@took, @looked, @refused);
	print scalar @refused, " ", $refused[0] // 0, " ",
		$took[@took / 2], " ", $looked[@looked / 2], "\n"'

# read_often HOW COUNT: sets REFUSED, LEAST, MEDIAN and LOOKED.
read_often()
{
	read -r REFUSED LEAST MEDIAN LOOKED \
		< <("$1" A /usr/bin/perl -e "$reader" "$2")
	note "$1: $REFUSED of $2 refused, the first after $LEAST us;" \
		"median $MEDIAN us, and $LOOKED of looks for 1 ms"
}

# read_bare COUNT LEAST: until so many were refused, which may take a few tries: the
# asker is to begin, and has to have a core then.
read_bare()
{
	for _ in 1 2 3 4 5; do
		read_often on "$1"
		[ "$REFUSED" -lt "$2" ] || return
	done
}

# asker PAUSE: w tries to write, PAUSE seconds apart, until it may.
asker()
{
	# shellcheck disable=SC2016 # perl's
	peer w dl A /usr/bin/perl -e 'use Time::HiRes "sleep"; $| = 1;
		open F, ">", "f" or die; print "asks\n";
		while (!flock F, 6) { sleep $ARGV[0] }
		print "granted\n"; <STDIN>' "$1"
	hear w
}

# Who asks Redis has the kernel's lock meanwhile; a reader with LOCK_NB looks
# again for the length of a round trip (L4).
past_an_asker()
{
	local name='past an asker' bare

	open_on b B
	try b SH 0 "$name: B reads"
	asker 0.002
	read_bare 1000 10
	bare=$REFUSED
	at_least "$bare" 10 "$name: bare, a reader meets it ($bare of 1,000)"
	read_often dl 1000
	at_most $((REFUSED * 4)) "$bare" "$name: it passes"
	[ "$REFUSED" = 0 ] || at_least "$LEAST" 1000 \
		"$name: refused only after 1 ms ($LEAST us)"
	ask b 'lock x UN'
	hear w
	is "$HEARD" granted "$name: the asker gets it in the end"
	peer_end w
	all_gone "$name"
}

# One whose server is slow has the kernel's lock for all of 20 ms, time and
# again; the reader's own question finds that it has no lease.
past_a_slow_asker()
{
	local name='past a slow asker'

	proxy p
	rig_config A "${settings[@]}" url="redis://127.0.0.1:$PROXY/0"
	ask p 'delay 20'
	open_on b B
	try b SH 0 "$name: B reads"
	asker 0.005
	rig_config A "${settings[@]}"
	read_bare 200 100
	at_least "$REFUSED" 100 "$name: bare, a reader meets it ($REFUSED of 200)"
	read_often dl 100
	at_most $((REFUSED * 4)) 100 "$name: it passes"
	# (DLK_SLOW_TENTATIVE_MS, which one without a core may take.)
	[ "$REFUSED" = 0 ] || at_least "$LEAST" 300000 \
		"$name: refused only after 300 ms ($LEAST us)"
	ask b 'lock x UN'
	hear w
	is "$HEARD" granted "$name: the asker gets it in the end"
	peer_end w
	all_gone "$name"
}

# A plain refusal is not slow for it.
plainly_refused()
{
	local name='plainly refused'

	locker a on A
	ask a 'open x f'
	ask a 'lock x EX'
	read_often dl 100
	is "$REFUSED" 100 "$name: by a lock without a keeper"
	at_most "$MEDIAN" $((LOOKED * 5 / 3)) "$name: in about 1 ms"
	peer_end a
	open_on a A
	ask a 'lock x EX'
	ok "$name: it has a keeper" until_true 5 keeper_waits
	read_often dl 100
	is "$REFUSED" 100 "$name: by a lock with a keeper"
	at_most "$MEDIAN" $((LOOKED * 5 / 6)) "$name: at once"
	all_gone "$name"
}

keeper_waits()
{
	on A grep -q -- '-> FLOCK' /proc/locks
}

# The description's lock is converted by one who has not taken it.
# shellcheck disable=SC2016 # perl's
child_while_stopped()
{
	local name='a child, Redis is stopped'

	peer p dl A /usr/bin/perl -e '$| = 1; open F, ">", "f" or die;
		flock F, 2 or die; print "locked\n"; <STDIN>;
		if (!fork) { print flock(F, 1) ? "shared\n" : "$!\n"; exit }
		wait; print "still\n"; <STDIN>'
	hear p
	ok "$name: the parent has a lease" has_token "$(rr get "$KEY")"
	kill -STOP "$REDIS_PID"
	say p go
	hear p
	is "$HEARD" shared "$name: its downgrade does not fail"
	kill -CONT "$REDIS_PID"
	hear p
	open_on a A
	open_on b B
	try a EX EAGAIN "$name: the kernel's lock is there"
	try b EX EAGAIN "$name: and the lease"
	say p end
	ok "$name: until the parent ends" until_true 2 is_free
	try b EX 0 "$name: then the other host writes"
	all_gone "$name"
}

renamed()
{
	local name='renamed'

	open_on a A
	ask a 'lock x EX'
	on A mv f g
	try a SH 0 "$name: a downgrade"
	is "$(readers)" 1 "$name: keeps the key"
	try a EX 0 "$name: an upgrade"
	is "$(rr type "$KEY")" string "$name: too"
	is "$(rr dbsize)" 1 "$name: and there is no other"
	ask a 'lock x UN'
	on A rm g
	all_gone "$name"
}

# Readers of one host and file are many: none replaces another.
lost_reader()
{
	local name='a lost lease' before

	open_on a A
	open_on a2 A
	ask a 'lock x SH'
	before=$(token)
	ask a2 'lock x SH'
	rr hdel "$KEY" "$before" >/dev/null
	ok "$name: is said to be lost, whatever readers are left" \
		until_true 5 grep -q LOST "$RIG/a.err"
	is "$(cat "$RIG/a2.err")" '' "$name: the other reader's is not"
	all_gone "$name"
}

foreign_hash()
{
	local name='foreign hash' before op lines

	rr hset "$KEY" field value other 7 >/dev/null
	before=$(rr hgetall "$KEY")
	open_on a A
	for op in 'SH NB' 'EX NB' SH; do
		lines=$(grep -c . "$RIG/a.err")
		ask a "lock x $op"
		is "$RESULT" ENOLCK "$name: LOCK_$op"
		like "$(sed -n "$((lines + 1)),\$p" "$RIG/a.err")" \
			"^dlock: .*f\" \(key.* no lock but a hash" \
			"$name: LOCK_$op: a line in the log"
	done
	is "$(rr hgetall "$KEY")" "$before" "$name: it is untouched"
	is "$(rr pttl "$KEY")" -1 "$name: and has no ttl"
	rr del "$KEY" >/dev/null
	try a SH 0 "$name: without it, A reads"
	all_gone "$name"
}

# The idioms of flock(1); $0 and $1 are the fifos.
# shellcheck disable=SC2016 # expanded there
idioms()
{
	local name='flock(1)' file

	cp_new s.in s.go d.in d.go
	dl A flock -s f sh -c 'echo >$0; read x <$1' \
		"$RIG/cp/s.in" "$RIG/cp/s.go" &
	ok "$name -s CMD: reads" cp_wait s.in
	dl A bash -c 'exec 9>g; flock -s 9; echo >$0; read x <$1; flock -x -n 9
		echo >$0; read x <$1; flock -u 9; echo >$0; read x <$1' \
		"$RIG/cp/d.in" "$RIG/cp/d.go" &
	ok "$name -s 9: reads" cp_wait d.in
	for file in f g; do
		ok "$name -s -n $file: B reads" dl B flock -s -n "$file" true
		is "$(dl B flock -x -n "$file" true; echo $?)" 1 \
			"$name -x -n $file: B may not write"
	done
	cp_reach d.go
	ok "$name -x -n 9 after -s" cp_wait d.in
	is "$(dl B flock -s -n g true; echo $?)" 1 \
		"$name -s -n: B may not read beside the converted lock"
	is "$(dl A flock -s -n g true; echo $?)" 1 "$name -s -n: nor may A"
	cp_reach d.go
	ok "$name -u 9" cp_wait d.in
	KEY=dlock:$MNT/g
	ok "$name -u 9 frees it" until_true 2 is_free
	KEY=dlock:$MNT/f
	ok "$name -x -n: B writes" dl B flock -x -n g true
	cp_reach s.go
	cp_reach d.go
	wait
	ok "$name -x -w: B writes at the end" dl B flock -x -w 20 f true
	all_gone "$name"
}

rig_start disks
settings=("ttl=${TTL}ms" connect_timeout=300ms timeout=4s)
rig_configs "${settings[@]}"
KEY=dlock:$MNT/f
readers_together
renewed
killed 'kill -9' $((TTL + SLACK))
# Its keeper sees it at once; the waiter looks every 250 ms or sooner.
killed 'kill -9, with a keeper' 500 kept
one_of_three
dead_host
both_convert
refused_conversion
failed_conversion
downgrade
stopped_redis
unanswered_downgrade
child_while_stopped
# (Who is bare meets no shadow.)
if [ -z "${RIG_LOCAL-}" ]; then
	past_an_asker
	past_a_slow_asker
	plainly_refused
fi
renamed
lost_reader
foreign_hash
idioms
rig_end
