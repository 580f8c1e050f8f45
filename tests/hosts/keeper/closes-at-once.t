#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Threads that close at once what a child has, too, each wait for the keeper's word,
# and none of them sleeps past it, for another one has read it.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=20s
bare=$(on A "$BIN/closers" together 20 8 bare)
note "bare: the slowest of 160 closes takes $bare ms (control)"
alone=$(dl A "$BIN/closers" alone 20 8 "$MNT/f")
like "$alone" '^[0-9]+$' "one after the other: $alone ms (control)"
slowest=$(dl A "$BIN/closers" together 20 8 "$MNT/f")
in_time "$slowest" $((500 + 8 * alone)) \
	"eight at once: the slowest of 160 takes $slowest ms"
rig_end
