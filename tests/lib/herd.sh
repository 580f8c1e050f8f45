# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: MIT
#
# Herds of waiters (tests/programs/herd.c) on the hosts, and what came of them.
#
#	herd NAME on|null|dl HOST	a peer that starts them
#	drive NAME N MODE HOLD_US ROUNDS HOW	their pids in PIDS; in ORDER each
#				is NAME.PID
#	told_to_end HOST PID...	what they are at is their last round
#	each_done N SECONDS		until N of them have done all their rounds
#	herd_report			OVERLAPS, GRANTS, WORST_MS, FEWEST, MOST,
#					ENDED, FDS and PAGES (the most), ORDER
#	queued			how many wait at $KEY
PIDS=()

herd()
{
	touch "$RIG/herd.out"
	peer "$1" "$2" "$3" "$BIN/herd" "$RIG/herd.out" "$1."
}

drive()
{
	local name=$1 n=$2

	shift 2
	ask "$name" "$n $MNT/f $*" 20 || rig_die "no herd: $name"
	read -ra PIDS <<<"${HEARD% 0}"
}

told_to_end()
{
	on "$1" kill -USR1 "${@:2}"
}

herd_new()
{
	: >"$RIG/herd.out"
}

done_by()
{
	[ "$(grep -c '^\.' "$RIG/herd.out")" -ge "$1" ]
}

each_done()
{
	until_true "$2" done_by "$1"
}

granted()
{
	[ "$(grep -c '^+' "$RIG/herd.out")" -ge "$1" ]
}

queued()
{
	local n

	n=$(rr hlen "{$KEY}%q")
	echo $((n > 2 ? n - 2 : 0))
}

queue_is()
{
	[ "$(queued)" = "$1" ]
}

herd_report()
{
	read -r GRANTS OVERLAPS WORST_MS FEWEST MOST ENDED FDS PAGES ORDER < <(
		/usr/bin/python3 "$TOP/tests/programs/herd.py" "$RIG/herd.out")
}
