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

# --- who is another user's ---
below root ./becomes_root
hear root
pid=${HEARD#runs }
is "$RESULT" runs 'a program that becomes root runs'
is "$(on A setpriv --reuid $NOBODY --regid $NOBODY --clear-groups \
	kill -0 "$pid" 2>&1 | grep -c 'not permitted')" 1 \
	'... and may not be sent a signal by who has started it (control)'
ctl_on A break --yes "$MNT/f"
# (By its next renewal, a third of the ttl later at the most.)
ok 'its lease is lost: it is said' until_true 30 says root LOST
like "$(cat "$RIG/root.err")" \
	"/f: the lease is LOST: SIGKILL is not permitted .* 1 of \./becomes_root and .*, which RUN ON without the lease: end them as root, kill $pid" \
	'... that it runs on, and what to do'
unlike "$(cat "$RIG/root.err")" 'SIGKILL to' '... and not that it was killed'
ok '... which it was not' on A kill -0 "$pid"
say root 7
hear root
is "$HEARD" 'ended 7' '... and dlockctl ends as it does'
peer_end root
below root ./becomes_root
hear root
pid=${HEARD#runs }
on A kill -KILL "$(on A pgrep -x dlock-guard)"
ok 'the guard is killed: it is said' until_true 10 says root dlock-guard
like "$(cat "$RIG/root.err")" "SIGKILL is not permitted .*, which RUN ON.*$pid" \
	'... that it runs on'
ctl_on B lock -n "$MNT/f" -- true
is "$STATUS" 1 '... under the lease'
say root 0
hear root
is "$HEARD" 'ended 0' '... which ends with it'
ok '... and is released' lease_is_gone f
peer_end root

# --- who was there before ---
# shellcheck disable=SC2016 # the inner shell's
peer one on A env DLOCK_CONFIG="$RIG/A.conf" sh -c \
	'sh -c "sleep 1000 & wait" & echo $!; exec "$@"' sh \
	"$CTL" lock "$MNT/f" -- "$RIG/job"
hear one
other=$HEARD
hear one
pid=${HEARD#runs }
below_other=$(on A pgrep -P "$other")
like "$RESULT $below_other" '^runs [0-9]+$' \
	'one that has a child already, and that one, runs'
on A kill -KILL "$(on A pgrep -x dlock-guard)"
ok 'the guard is killed: dlockctl ends' wait_for "${PEER_PID[one]}"
ok '... its command has' pid_is_gone_on A "$pid"
ok '... and not who was there before' on A kill -0 "$other" "$below_other"
on A kill -KILL "$other" "$below_other"
peer_end one

# --- the guard keeps nothing ---
for call in none close_range; do
	refused=()
	[ $call = none ] || refused=("$BIN/refused" "$call")
	# shellcheck disable=SC2016 # the inner shell's
	peer one on A env DLOCK_CONFIG="$RIG/A.conf" sh -c \
		'exec 8<"$0" 9<"$0"; exec "$@"' "$RIG/job" "${refused[@]}" \
		"$CTL" lock "$MNT/f" -- "$RIG/job"
	hear one
	guard=$(pids_of A -x dlock-guard)
	is "$RESULT $(find "/proc/$guard/fd" -mindepth 1 -printf '%f\n' |
		sort -n | paste -sd' ')" 'runs 0 1 2' \
		"the guard keeps 0, 1 and 2 ($call is refused)"
	is "$(readlink "/proc/$(pids_of A -x job)/fd/9")" "$RIG/job" \
		'... and the command all'
	say one 0
	peer_end one
done

# --- before there is a command ---
# signal_is FIELD: dlockctl has SIGINT in that mask of proc(5)
signal_is()
{
	local mask

	mask=$(sed -n "s/^$1:[[:space:]]*//p" \
		"/proc/$(pids_of A -x dlockctl)/status" 2>/dev/null)
	[ -n "$mask" ] && [ $((0x$mask & 2)) != 0 ]
}
at_terminal()
{
	peer "$1" on A env DLOCK_CONFIG="$RIG/A.conf" /usr/bin/python3 \
		"$TOP/tests/programs/at_terminal.py" "${@:2}"
}
kill -STOP "$REDIS_PID"
at_terminal typed "$CTL" lock "$MNT/f" -- sh -c 'echo began; sleep 1000'
ok 'the server is asked, and does not answer' until_true 10 signal_is SigBlk
say typed '^C'
ok '... ^C is typed meanwhile' until_true 10 signal_is ShdPnd
kill -CONT "$REDIS_PID"
typed=
while hear typed 20 && [ "$RESULT" != ended ]; do
	typed+=$HEARD.
done
is "$HEARD" 'ended 130' '... which ends it when it answers'
unlike "$typed" began '... and the command has not begun'
peer_end typed
ok '... and nothing is left' until_true 5 lease_is_gone f

# --- a message that would stop it ---
proxy between
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=6s connect_timeout=1s
cat >"$RIG/deaf" <<-'END'
	#!/bin/sh
	exec >"$0.told" 2>/dev/null
	trap 'echo told' TERM
	echo $$ >"$0.pid"
	while :; do sleep 0.05; done
END
chmod 755 "$RIG/deaf"
# shellcheck disable=SC2016 # the inner shell's
at_terminal back bash -c 'stty tostop; set -m; "$@" & exec sleep 1000' bash \
	"$CTL" lock "$MNT/f" -- "$RIG/deaf"
ok 'in the background of a terminal it runs' until_true 10 test -s "$RIG/deaf.pid"
ask between hang
ok 'no server answers: it is told, and that is said' \
	until_true 15 test -s "$RIG/deaf.told"
ok '... and it is killed' until_true 15 pid_is_gone_on A "$(cat "$RIG/deaf.pid")"
peer_end back
ask between pass
ok '... and its lease ends' until_true 10 lease_is_gone f

# --- a place that it did not answer about ---
# ports: of the connections to the proxy
ports()
{
	awk -v at="0100007F:$(printf %04X "$PROXY")" \
		'$3 == at && $4 == "01" { print $2 }' /proc/net/tcp
}
# another: and one of them was not there the last time
another()
{
	local port

	for port in $(ports); do
		[[ " $seen " == *" $port "* ]] || { seen+=" $port"; return 0; }
	done
	return 1
}
queued()
{
	[ "$(rr hlen "{dlock:$MNT/f}%q")" -gt 0 ]
}
claims()
{
	rr hvals "{dlock:$MNT/f}%q" | grep -o 'dlock1 [0-9a-f]*' | cut -d' ' -f2
}
rig_config A ttl=20s connect_timeout=300ms
rig_config B url="redis://127.0.0.1:$PROXY/0" ttl=20s connect_timeout=300ms \
	timeout=100s
locker holder dl A
ask holder 'open f f'
ask holder 'lock f EX'
peer two on B env DLOCK_CONFIG="$RIG/B.conf" "$CTL" lock "$MNT/f" -- "$RIG/job"
ok 'one waits' until_true 10 queued
claim=$(claims)
seen=$(ports | paste -sd' ')
ask between hang
for _ in 1 2 3; do
	ok '... and is not answered' until_true 10 another
done
ask between pass
ask holder 'lock f UN'
hear two
is "$RESULT $(token_of f | cut -d' ' -f2)" "runs $claim" \
	'it has its turn by the place that it had'
say two 0
peer_end two holder
peer_end between

# --- a key of no rule ---
rig_config A ttl=90s connect_timeout=15s path_more='key = "jobs"'
ctl_on A lock other -- redis-cli -s "$RIG/redis.sock" pttl other
like "$STATUS $OUT" '^0 (89|90)[0-9]{3}$' \
	'the ttl of a key of no rule outlasts connect_timeout'
rig_end
