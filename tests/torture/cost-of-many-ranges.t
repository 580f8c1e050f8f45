#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 300
#
# What one more record lock costs a program that has many, with the kernel's
# own share, which grows with their number: 10,000 ranges of one process, and
# 1,000 descriptions with an OFD lock each.  What dlock adds for a range grows
# as the logarithm at most, fourfold from 10 to 10,000; for a description, with
# their number, as the list does that the kernel shows of their locks.
. "${0%/*}/../lib/rig.sh"

# cost FIRST LAST UNLOCK of a kind, ns, medians
cost()
{
	first=0 last=999999999 unlock=0
	read -r first last unlock < <("$RUN" A timeout 100 \
		"$BIN/many_ranges" "$MNT/$RUN.$1" "$1" "$2")
	note "$RUN, $2 $1: the first $first ns, the last $last ns," \
		"an unlock $unlock ns"
}

# added KIND N: by dlock, of the first and of the last
added()
{
	local bare_first bare_last

	RUN=on
	cost "$1" "$2"
	bare_first=$first bare_last=$last
	RUN=dl
	cost "$1" "$2"
	first=$((first - bare_first))
	last=$((last - bare_last))
	note "dlock adds $((first / 1000)) us to the first," \
		"$((last / 1000)) us to the last"
}

rig_start disks
rig_configs ttl=30s
added ranges 10000
at_most "$last" $((4 * first)) '10,000 ranges of a process'
added owners 1000
rig_end
