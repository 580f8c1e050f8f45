#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlockctl doctor where a file server hangs that no rule is about: that of a program,
# of the configuration that one names, of a path that another host manages.  It
# ends, says what it could not see, and what it had found before.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

rig_start disks
redis_kill
LD_PRELOAD=$BIN/old_server.so redis_up
rig_configs ttl=20s connect_timeout=3s restart_delay=20s
mkdir "$RIG/share/sub"
cp "$RIG/A.conf" "$RIG/share"
cp -L "$(command -v bash)" "$RIG/share/job"
share_at A "$RIG/slow" -o attr_timeout=0,entry_timeout=0,negative_timeout=0
server=$(pids_of A -f "bindfs.*$RIG/slow")

# doctor: of host A; $FOUND, "CHECK=SEVERITY ..." of the three checks
doctor()
{
	local pid

	on A env DLOCK_CONFIG="$RIG/A.conf" "$CTL" --json doctor >"$RIG/out" \
		2>"$RIG/err" </dev/null &
	pid=$!
	ok "$1: it ends" until_true 60 pid_is_gone "$pid"
	kill -CONT "$server"
	wait "$pid"
	OUT=$(cat "$RIG/out")
	FOUND=$(jq -r '.findings[] | select(.check | IN("programs", "older", "fleet")) |
		"\(.check)=\(.severity)"' <<<"$OUT" | sort -u | paste -sd ' ')
}

# what CHECK: what it found, a line each
what()
{
	jq -r --arg check "$1" '.findings[] | select(.check == $check) | .what' \
		<<<"$OUT"
}

peer first on A sh -c 'exec 9>one; echo ready; read -r _'
hear first
peer bare on A "$RIG/slow/job" -c 'exec 9>two; flock 9; echo ready; read -r _'
hear bare
peer old on A env LD_PRELOAD="$SHIM" DLOCK_CONFIG="$RIG/slow/A.conf" "$BIN/locker"
ask old pid
rr hset dlock%fleet "ffffffffffffffffffffffffffffffff:B other" \
	"1 $(date +%s%3N) 5000000000
$RIG/slow/sub/ dlock:%25p 20000 0 -" >/dev/null

doctor 'all is well with the share (control)'
is "$FOUND" 'fleet=WARNING programs=CRITICAL programs=WARNING' '... and all is seen'
like "$(what programs)" "\\(job\\) has locked $MNT/two without dlock" '... the program'
like "$(what fleet)" "host other manages $RIG/slow/sub/, which is here" '... the path'

kill -STOP "$server"
doctor 'its server hangs'
is "$FOUND" 'fleet=UNKNOWN older=UNKNOWN programs=UNKNOWN programs=WARNING' \
	'... what is not known is said'
like "$(what programs)" "process [0-9]+ \\(sh\\) has open $MNT/one without dlock" \
	'... and what was found before'
like "$(what programs)" \
	"no answer within 5 s: why process [0-9]+ \\(job\\) has locked $MNT/two without" \
	'... of which program'
like "$(what older)" \
	"no answer .*: whether process [0-9]+ \\(locker\\) .* of $RIG/slow/A.conf" \
	'... of whose configuration'
like "$(what fleet)" "no answer .*: whether $RIG/slow/sub/, which host other manages" \
	'... of which path'
peer_end first bare old

# --- a rule that takes the root of the share for a file ---
rig_also A share "$RIG/slow"
doctor 'such a rule (control)'
like "$(what rules)" "path \"$RIG/slow\" covers nothing that exists" '... is found'
kill -STOP "$server"
doctor 'its server hangs'
is "$(what rules)" "no answer within 5 s: whether $RIG/slow is a directory" \
	'... and it is said of which rule'
rr del dlock%fleet >/dev/null
rig_end
