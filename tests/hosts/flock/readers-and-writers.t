#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Six readers and two writers over two hosts, on a share without locks: no
# writer is ever inside with anybody else.  Each records its critical sections
# (reader_writer.c), and an interval checker looks at them all afterwards.
# RW_SECONDS is how long it runs under dlock (10).
. "${0%/*}/../../lib/rig.sh"

seconds=${RW_SECONDS:-10}

# Lines 'SH|EX START END NAME'.  By start: a section that begins before the
# last end of a writer's, or a writer's before the last end of any, overlaps.
# shellcheck disable=SC2016 # perl's
check='my ($any, $writer, $met, %n) = (0, 0, 0);
for (sort { $a->[1] <=> $b->[1] } map { [split] } <STDIN>) {
	my ($mode, $start, $end) = @$_;
	$n{$mode}++;
	my $before = $mode eq "EX" ? $any : $writer;
	$met++ if $start < $before;
	$any = $end if $end > $any;
	$writer = $end if $mode eq "EX" && $end > $writer;
}
printf "%d %d %d\n", $met, $n{SH} // 0, $n{EX} // 0;'

check()
{
	/usr/bin/perl -e "$check"
}

# run MS: true if no writer met anybody; sets $READ and $WRITTEN.
run()
{
	local host who pids=() pid met status=0

	rm -f "$RIG"/rw.*
	for host in A B; do
		for who in SH1 SH2 SH3 EX1; do
			"$RUN" "$host" "$BIN/reader_writer" "${who%?}" f "$1" \
				"$host$who" >"$RIG/rw.$host$who" \
				2>>"$RIG/rw-errors.$RUN" &
			pids+=($!)
		done
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=1
	done
	read -r met READ WRITTEN < <(cat "$RIG"/rw.* | check)
	note "$RUN, $1 ms: $READ sections of readers, $WRITTEN of writers," \
		"$met overlaps"
	[ "$status" = 0 ] || diag "$(cat "$RIG/rw-errors.$RUN")"
	[ "$status" = 0 ] && [ "$met" = 0 ]
}

# Long under dlock, short where it need only be seen to fail.
excluded()
{
	if [ "$RUN" = dl ]; then
		run $((seconds * 1000))
	else
		run 1500
	fi
}

# The checker itself.
is "$(check <<<$'SH 1 5\nSH 2 9\nEX 9 10\nEX 10 12\nSH 12 13')" '0 3 2' \
	'the checker: readers may overlap, and ends may touch'
is "$(check <<<$'EX 5 7\nSH 1 6')" '1 1 1' \
	'the checker: a writer in a reader'
is "$(check <<<$'SH 6 8\nEX 5 7')" '1 1 1' \
	'the checker: a reader in a writer'
is "$(check <<<$'EX 1 9\nSH 2 3\nSH 4 5\nEX 8 10')" '3 2 2' \
	'the checker: all that a long one meets'
is "$(check <<<$'SH 1 9\nSH 2 3\nEX 8 10')" '1 2 1' \
	'the checker: the longest reader counts, not the last'

rig_start share
rig_configs ttl=5s timeout=5s
three_ways 'no writer meets anybody' excluded
ms=$((seconds * 1000))
often "$READ" $((seconds * 100)) 'there were readers' $ms
often "$WRITTEN" $((seconds * 2)) 'there were writers' $ms
for host in A B; do
	often "$(grep -c . "$RIG/rw.${host}EX1")" "$seconds" \
		"the writer of $host had its share" $ms
	for who in 1 2 3; do
		often "$(grep -c . "$RIG/rw.${host}SH$who")" \
			$((seconds * 10)) "reader $who of $host had its share" $ms
	done
done
is "$(cat "$RIG/rw-errors.dl")" '' 'nothing was logged'
rig_end
