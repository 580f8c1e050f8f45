#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 300
#
# Steps of two programs by turns: record locks, OFD locks and flock, without
# waiting, each step told to the other as soon as it is done.  Two hosts, by
# dlock, answer each as the kernel does on one host.
. "${0%/*}/../lib/rig.sh"

RUNS=${RUNS:-60}
STEPS=${STEPS:-200}

# run OUT BHOST SEED
run()
{
	rm -f "$RIG/steps"
	peer serve "$RUN" "$2" "$BIN/random_steps" serve "$RIG/steps" "s$3"
	hear serve || return 1
	"$RUN" A timeout 60 "$BIN/random_steps" play "$RIG/steps" "s$3" "$STEPS" "$3" \
		>"$RIG/$1"
	peer_end serve
}

same=0 other=0
rig_start disks
for ((seed = 1; seed <= RUNS; seed++)); do
	RUN=on
	run kernel A "$seed"
	run nothing B "$seed"
	RUN=dl
	run dlock B "$seed"
	cmp -s "$RIG/kernel" "$RIG/nothing" || other=$((other + 1))
	if [ "$(wc -l <"$RIG/kernel")" = "$STEPS" ] &&
	   cmp -s "$RIG/kernel" "$RIG/dlock"; then
		same=$((same + 1))
	else
		diag "seed $seed: $(diff "$RIG/kernel" "$RIG/dlock" | head -4)"
	fi
done
is "$other" "$RUNS" 'bare, two hosts answer otherwise (control)'
is "$same" "$RUNS" 'dlock, two hosts: all runs are as the kernel has them'
rig_end
