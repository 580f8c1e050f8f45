#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Who unlocks, and tells a program on another host, has unlocked: that one's
# attempt without a wait is granted, and its F_GETLK finds nothing.  (Bare there
# is nothing to be refused for, on two hosts: so that one's are the control.)
. "${0%/*}/../../lib/rig.sh"

ROUNDS=${ROUNDS:-200}

# run KIND: the figures in $GRANTS, $REFUSED, $TOLD, $WRONG, $P50
run()
{
	peer serve "$RUN" A "$BIN/tell_then_try" serve "$RIG/relay" relay "$1"
	hear serve || return 1
	read -r GRANTS REFUSED TOLD WRONG P50 <<<"$("$RUN" "$2" timeout 600 \
		"$BIN/tell_then_try" play "$RIG/relay" relay "$1" "$ROUNDS")"
	peer_end serve
	rm -f "$RIG/relay"
	[ "$GRANTS" = "$ROUNDS" ]
}

rig_start disks
for kind in flock posix ofd part weaken-flock weaken-posix; do
	RUN=on
	run "$kind" A
	is "$REFUSED $TOLD $WRONG" '0 0 0' "$kind: bare, on one host (control)"
	p50=$P50
	run "$kind" B
	is "$WRONG" "$ROUNDS" "$kind: bare, two hosts exclude nothing (control)"
	RUN=dl
	ok "$kind: by dlock" run "$kind" B
	note "refused rightly: $P50 us (bare, on one host: $p50)"
	is "$WRONG" 0 "$kind: ... nobody has what the other one has"
	is "$REFUSED" 0 "$kind: ... what was given back is granted"
	is "$TOLD" 0 "$kind: ... and nobody is said to have it"
done
rig_end
