#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 3600
#
# The harness of survival.t can see: each of the bugs that can be built in
# (shim/model/seeded.h) is found by it, within so many seconds of faults, three
# times at most.  The control is the same without one.
#
# SEEDED_BUGS: these only.  SURVIVAL_SEED as in survival.t.
. "${0%/*}/../lib/rig.sh"
# shellcheck source=tests/lib/survival.sh
. "$TOP/tests/lib/survival.sh"

SEED=${SURVIVAL_SEED:-$RANDOM}
TRIES=3

# BUG SECONDS FAULTS KINDS [NAME=VALUE]: what each shows itself by
table='1 8 none ex,range
2 4 none mixed
3 4 none ex
4 8 redis_restart,net_short ex
5 4 none range
6 12 redis_restart ex,mixed
7 12 redis_empty ex,mixed
8 20 redis_forgets ex hold=12000 at_once=1
9 20 orphan fork hold=12000 at_once=1
10 4 none ex
11 6 none range
12 20 orphan fork hold=12000 at_once=1
13 20 redis_forgets range hold=12000 at_once=1
14 12 net_reset,net_short,kill_survivor ex'

# built N: into build-bugN
built()
{
	make -s -C "$TOP" -j2 B="build-bug$1" SEED_BUG="$1" \
		"build-bug$1/libdlock-preload.so" "build-bug$1/dlock-keeper" \
		>"$RIG/make" 2>&1 || rig_die "bug $1: $(tail -n 5 "$RIG/make")"
}

rig_start disks
host_new C disks
note "SURVIVAL_SEED=$SEED"
is "$(sed -n 's/.*DLK_SEEDED_BUGS = \([0-9]*\).*/\1/p' \
	"$TOP/shim/model/seeded.h")" "$(wc -l <<<"$table")" 'each bug is here'
while read -r bug seconds faults kinds more; do
	[[ " ${SEEDED_BUGS:-$bug} " == *" $bug "* ]] || continue
	built "$bug"
	# shellcheck disable=SC2086 # words
	ok "bug $bug is found within $TRIES x $seconds s of $faults" \
		sees "$TRIES" survives "$TOP/build-bug$bug/libdlock-preload.so" \
		"$seconds" faults="$faults" kinds="$kinds" $more
	rm -rf "$TOP/build-bug$bug"
done <<<"$table"
survives "$BUILD/libdlock-preload.so" 12 faults=calm
is "$overlaps $broken $lost" '0 0 0' 'control: without a bug nothing is found'
done_testing
