#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# What preloaded programs lose stands in dlockctl history, when the server can be
# reached again: of one that was stopped for it, of one that goes on, and of one
# whose lease was another's.  What ends in order leaves nothing there, and nothing
# is written by a lock and its unlock.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

# What is not to be lost outlives a server that stands still for seconds.
TIMES=(ttl=6s connect_timeout=1s)

rig_start disks
rig_configs "${TIMES[@]}"
on A touch f g r

# told FILE: "WHAT PID WHO LONG" of each entry
told()
{
	ctl --json history "$MNT/$1"
	jq -r '.entries[] | [.what, .pid, .who, .lasted_ms >= 1000] | join(" ")' \
		<<<"$OUT"
}

is_told()
{
	[ "$(told "$1")" = "$2" ]
}

# loser NAME FILE [COMMAND...]: holds it, and says so
loser()
{
	local name=$1 file=$2

	peer "$name" dl A env DLOCK_LOG="warning:$RIG/log" flock -n "$file" \
		sh -c 'echo runs; read -r _'
	hear "$name"
	# (What will be a keeper has its name for a moment.)
	HOLDER=$(on A pgrep -ox flock)
	until_true 10 is_carried
}

# A keeper has it: what is lost before that is in the log only.
is_carried()
{
	all_keepers A >/dev/null
}

# --- nothing to tell ------------------------------------------------------
rr config resetstat >/dev/null
loser job f
say job go
peer_end job
rig_empty 5 'what ends in order leaves nothing'
is "$(stat_of commandstats cmdstat_xadd)" '' '... and writes nothing (control)'

# --- stopped, for the server is away --------------------------------------
loser job f
redis_kill
ok 'a holder that is cut off is stopped' until_true 10 pid_is_gone_on A "$HOLDER"
redis_up
ok 'when the server is back, its loss is told' until_true 15 \
	is_told f "lost $HOLDER flock true"
ok '... and its keepers end' until_true 10 no_keeper A
ctl history "$MNT/f"
like "$OUT" "lost +[^ ]+ +$HOLDER +flock +[0-9.]+s +flock +[0-9a-f]{32}" 'in words'
peer_end job

# --- one that goes on -----------------------------------------------------
rig_config A "${TIMES[@]}" path_more='on_lost = "report"'
loser job g
redis_kill
is_lost()
{
	grep -q "$MNT/g.*is LOST" "$RIG/log"
}
ok 'its lease has run out' until_true 10 is_lost
redis_up
ok 'of one that goes on' until_true 15 is_told g "lost $HOLDER flock true"
ok '... which lives' on A kill -0 "$HOLDER"
say job go
peer_end job

# --- another's ------------------------------------------------------------
rig_config A "${TIMES[@]}"
loser job r
rr set "dlock:$MNT/r" "$(made_token B 1 web1)" px 60000 >/dev/null
ok 'one whose lease is taken is stopped' until_true 10 pid_is_gone_on A "$HOLDER"
lost_r()
{
	[[ $(told r) == "lost $HOLDER flock "* ]]
}
ok '... and its loss is told' until_true 15 lost_r
rr del "dlock:$MNT/r" >/dev/null
peer_end job

# --- one server is away, and another is not --------------------------------
# Both are lost by one process, the one that cannot be told first.
proxy p
rig_config A "${TIMES[@]}" url="redis://127.0.0.1:$PROXY/0" \
	path_more='on_lost = "report"'
rig_also A there "$MNT/there" "${TIMES[@]}" \
	path_more='on_lost = "report"'
: >"$RIG/log"
peer both dl A env DLOCK_LOG="debug:$RIG/log" /usr/bin/python3 -c '
import fcntl, sys
held = [open(name, "w") for name in ("away", "there")]
for f in held:
    fcntl.flock(f, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()'
hear both
ok 'a keeper has both' until_true 10 are_carried 2
ask p hang
lost_of()
{
	grep -q "$MNT/$1.*is LOST while its lock is held" "$RIG/log"
}
ok 'one is lost, and its server away' until_true 10 lost_of away
rr set "dlock:$MNT/there" "$(made_token B 1 web1)" px 60000 >/dev/null
ok 'the other one is lost after that' until_true 10 lost_of there
lost_there()
{
	[[ $(told there) == "lost "* ]]
}
ok '... and its loss is told meanwhile' until_true 10 lost_there
ask p pass
lost_away()
{
	[[ $(told away) == "lost "* ]]
}
ok '... and that of the first one when its server is back' \
	until_true 10 lost_away
rr del "dlock:$MNT/there" >/dev/null
peer_end both

# --- who may not ----------------------------------------------------------
rr flushall >/dev/null
rig_config A "${TIMES[@]}"
rr acl setuser mute on '>x' '~*' '&*' +@all -xadd >/dev/null
sed -i "s,redis://,&mute:x@," "$RIG/A.conf"
: >"$RIG/log"
loser job f
rr set "dlock:$MNT/f" "$(made_token B 1 web1)" px 60000 >/dev/null
ok 'whoever may not write it is stopped all the same' until_true 10 \
	pid_is_gone_on A "$HOLDER"
said()
{
	grep -q 'the loss of .* is not in its history at .*NOPERM' "$RIG/log"
}
ok '... and the log says that it is not told' until_true 10 said
rr flushall >/dev/null
done_testing
