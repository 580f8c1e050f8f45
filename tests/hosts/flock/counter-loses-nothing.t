#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 420
#
# A counter on a share without locks: 2 hosts x 4 processes x 200 increments
# are 1600 increments; without dlock some are lost.  With flock(1), which starts
# three processes for each and so takes ten times as long, 60 in place of 200.
. "${0%/*}/../../lib/rig.sh"

WORKERS=4

# shellcheck disable=SC2016 # expanded by the workers
by_shell='i=0
while [ $i -lt $1 ]; do
	flock lock sh -c "n=\$(cat counter); echo \$((n + 1)) >counter" ||
		exit 1
	i=$((i + 1))
done'

# shellcheck disable=SC2016
by_perl='use Fcntl ":flock";
open(my $lock, "+>>", "lock") or die "lock: $!";
for (1 .. $ARGV[0]) {
	flock($lock, LOCK_EX) or die "flock: $!";
	open(my $c, "<", "counter") or die "counter: $!";
	my $n = <$c>;
	close($c);
	open($c, ">", "counter") or die "counter: $!";
	print $c ($n + 1), "\n";
	close($c) or die "counter: $!";
	flock($lock, LOCK_UN) or die "unlock: $!";
}'

by_python='import fcntl, sys
lock = open("lock", "a+")
for _ in range(int(sys.argv[1])):
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open("counter") as c:
        n = int(c.read() or 0)
    with open("counter", "w") as c:
        c.write("%d\n" % (n + 1))
    fcntl.flock(lock, fcntl.LOCK_UN)'

count()
{
	local host pids=() pid begin status=0 worker

	echo 0 >"$RIG/share/counter"
	begin=$(now)
	for host in A B; do
		for ((worker = 0; worker < WORKERS; worker++)); do
			"$RUN" "$host" timeout 1500 "$@" "$TURNS" \
				2>>"$RIG/counter.err" &
			pids+=($!)
		done
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=1
	done
	total=$(cat "$RIG/share/counter")
	note "$RUN: $total of $((2 * WORKERS * TURNS))" \
		"in $((($(now) - begin) / 1000000)) ms"
	# A reader that finds the file just emptied is the control's to meet.
	if [ "$RUN" = dl ] && [ "$status" != 0 ]; then
		diag "$(sort "$RIG/counter.err" | uniq -c | head)"
		return 1
	fi
	[ "$total" = $((2 * WORKERS * TURNS)) ]
}

rig_start share
rig_configs ttl=10s timeout=5s
TURNS=60
three_ways 'flock(1): every increment arrives' \
	count sh -c "$by_shell" sh
: >"$RIG/counter.err"
TURNS=200
three_ways 'perl: every increment arrives' \
	count /usr/bin/perl -e "$by_perl"
: >"$RIG/counter.err"
three_ways 'python3: every increment arrives' \
	count /usr/bin/python3 -c "$by_python"
rig_end
