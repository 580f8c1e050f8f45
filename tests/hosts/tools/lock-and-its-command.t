#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# dlockctl lock and what is below it: of whom it cannot end it says so, whom it has
# not started it spares, and the guard keeps nothing.  What a terminal says before
# there is a command is not lost; nor is a place in the queue that the server did not
# answer about.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

# An answer may come late.
TIMES=(ttl=60s connect_timeout=10s)
NOBODY=65534

rig_start disks
rig_configs "${TIMES[@]}"
chmod 755 "$RIG"
chmod 644 "$RIG/A.conf"
on A touch f
on A chmod 666 f
on A install -m 4755 "$BIN/becomes_root" .
cat >"$RIG/job" <<-'END'
	#!/bin/sh
	echo runs $$
	read -r status
	exit "$status"
END
chmod 755 "$RIG/job"

# below NAME COMMAND...: a peer, dlockctl of nobody's on A; it says how that ended
below()
{
	local name=$1

	shift
	# shellcheck disable=SC2016 # the inner shell's
	peer "$name" on A env DLOCK_CONFIG="$RIG/A.conf" setpriv \
		--reuid $NOBODY --regid $NOBODY --clear-groups \
		sh -c '"$@"; echo "ended $?"' sh "$CTL" lock "$MNT/f" -- "$@"
}
# says NAME REGEX: it has, by now
says()
{
	grep -qE "$2" "$RIG/$1.err"
}
wait_for()
{
	until_true 10 pid_is_gone "$1"
}

# --- a key of no rule ---
rig_config A ttl=90s connect_timeout=15s path_more='key = "jobs"'
ctl_on A lock other -- redis-cli -s "$RIG/redis.sock" pttl other
like "$STATUS $OUT" '^0 (89|90)[0-9]{3}$' \
	'the ttl of a key of no rule outlasts connect_timeout'
rig_end
