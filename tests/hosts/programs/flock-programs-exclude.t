#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# A counter on a share without locks, under each program's own way to lock it:
# hosts A and B add 1 TURNS times each.  Without dlock, and under the null
# shim, some are lost; counter-loses-nothing.t has flock(1), perl and python3.
. "${0%/*}/../../lib/rig.sh"

TURNS=50

# A slow increment: both hosts are in it at once unless a lock keeps them out.
# shellcheck disable=SC2016 # expanded by the workers
add='n=$(cat counter); sleep 0.001; echo $((n + 1)) >counter'

# shellcheck disable=SC2016
by_loop='i=0
while [ $i -lt "$1" ]; do
	LOCKED sh -c "$2" || exit 1
	i=$((i + 1))
done'

# shellcheck disable=SC2016
by_descriptor='i=0
while [ $i -lt "$1" ]; do
	exec 9>lock
	flock 9 || exit 1
	eval "$2"
	exec 9>&-
	i=$((i + 1))
done'

# shellcheck disable=SC2016
by_ruby='$turns = ARGV[0].to_i
File.open("lock", "a+") do |lock|
  $turns.times do
    lock.flock(File::LOCK_EX)
    n = File.read("counter").to_i
    sleep 0.001
    File.write("counter", "#{n + 1}\n")
    lock.flock(File::LOCK_UN)
  end
end'

# shellcheck disable=SC2016
by_php='$lock = fopen("lock", "c");
for ($i = 0; $i < (int) $argv[1]; $i++) {
	flock($lock, LOCK_EX) or exit(1);
	$n = (int) file_get_contents("counter");
	usleep(1000);
	file_put_contents("counter", $n + 1 . "\n");
	flock($lock, LOCK_UN);
}'

# Its own lock on the counter itself; what it has counted is told before that ends.
# shellcheck disable=SC2016
by_php_session='session_save_path("."); session_id("a");
ini_set("session.use_cookies", 0); session_cache_limiter("");
for ($i = 0; $i < (int) $argv[1]; $i++) {
	session_start() or exit(1);
	usleep(1000);
	$_SESSION["n"] = ($_SESSION["n"] ?? 0) + 1;
	file_put_contents("counter", $_SESSION["n"] . "\n");
	session_write_close();
}'

by_pstore='require "pstore"
ARGV[0].to_i.times do
  s = PStore.new("store")
  s.transaction do
    s[:n] = (s[:n] || 0) + 1
    sleep 0.001
    File.write("counter", "#{s[:n]}\n")
  end
end'

# shellcheck disable=SC2016
by_storable='use Fcntl ":flock"; use Storable qw(fd_retrieve store_fd);
open(my $f, "+>>", "store") or die;
for (1 .. $ARGV[0]) {
	flock($f, LOCK_EX) or die "flock: $!";
	seek($f, 0, 0);
	my $n = -s $f ? fd_retrieve($f) : [0];
	select(undef, undef, undef, 0.001);
	truncate($f, 0);
	store_fd([$n->[0] + 1], $f) or die;
	$f->flush;
	open(my $c, ">", "counter") or die; print $c $n->[0] + 1, "\n"; close($c);
	flock($f, LOCK_UN);
}'

both()
{
	local host pids=() pid status=0 turns=$((TURNS * ${TRIES:-1}))

	on A sh -c 'rm -f lock sess_a store; echo 0 >counter'
	: >"$RIG/counter.err"
	for host in A B; do
		"$RUN" "$host" timeout 600 "$@" "$turns" "$add" \
			>>"$RIG/counter.err" 2>&1 &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=1
	done
	total=$(cat "$RIG/share/counter")
	note "$RUN: $total of $((2 * turns))"
	# A reader that finds the file just emptied is the control's to meet.
	if [ "$RUN" = dl ] && [ "$status" != 0 ]; then
		diag "$(sort "$RIG/counter.err" | uniq -c | head)"
		return 1
	fi
	[ "$total" = $((2 * turns)) ] && return
	[ "$RUN" != dl ] || diag "$total of $((2 * turns))"
	return 1
}

# wrapper NAME COMMAND...: COMMAND holds the lock while it runs what follows
wrapper()
{
	local name=$1

	shift
	three_ways "$name" both sh -c "${by_loop/LOCKED/$*}" sh
}

rig_start share
rig_configs ttl=10s timeout=5s
wrapper 'chpst -l (runit)' chpst -l lock
wrapper 'setlock (daemontools)' setlock lock
wrapper 'flock -o' flock -o lock
wrapper 'flock under busybox' busybox env flock lock
for shell in dash bash 'busybox sh'; do
	# shellcheck disable=SC2086 # two words
	three_ways "$shell: exec 9>lock; flock 9" both $shell -c \
		"$by_descriptor" sh
done
three_ways 'ruby: File#flock' both ruby -e "$by_ruby" --
three_ways 'ruby: PStore' both ruby -e "$by_pstore" --
three_ways 'php: flock' both php -r "$by_php" --
three_ways 'php: sessions' both php -r "$by_php_session" --
three_ways 'perl: flock and Storable' both /usr/bin/perl -e "$by_storable"

# --- those that try, and give up ----------------------------------------------

# tries COMMAND...: held by host A, COMMAND is refused on host B.
tries()
{
	local status=0

	cp_drain held
	# shellcheck disable=SC2016 # expanded on the host
	"$RUN" A "$@" sh -c 'echo >"$0/held"; read x <"$0/go"' "$RIG/cp" \
		2>>"$RIG/counter.err" &
	cp_wait held || status=1
	if [ "$status" = 0 ] && "$RUN" B "$@" true 2>>"$RIG/counter.err"; then
		status=1
	fi
	cp_reach go
	wait "$!" || status=1
	return "$status"
}
cp_new held go
three_ways 'chpst -L gives up' tries chpst -L lock
three_ways 'setlock -n gives up' tries setlock -n lock
three_ways 'flock -n gives up' tries flock -n lock
three_ways 'flock -w gives up' tries flock -w 0.2 lock
rig_end
