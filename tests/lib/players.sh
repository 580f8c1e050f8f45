# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT
#
# Lockers that play a scene:	. tests/lib/players.sh, after
# rig.sh.  RUN is on, null or dl.
PLAYERS=()
FILES=(f)

# players NAME@HOST...: each with file f as slot f, or with those in FILES
players()
{
	local p f

	PLAYERS=()
	for p; do
		PLAYERS+=("${p%@*}")
		locker "${p%@*}" "$RUN" "${p#*@}"
		for f in "${FILES[@]}"; do
			ask "${p%@*}" "open $f $MNT/$f"
		done
	done
}

players_leave()
{
	peer_end "${PLAYERS[@]}"
	on A pkill -KILL locker
	on B pkill -KILL locker
	until_true 20 db_is_empty
}

# What they have said of it: who was killed, and why.
players_said()
{
	local who

	for who; do
		diag "$who: $(cat "$RIG/${who%@*}.err")"
	done
}

# scene FUNCTION NAME@HOST...
scene()
{
	local status=0

	players "${@:2}"
	"$1" || status=1
	[ "$status" = 0 ] || [ "$RUN" != dl ] || players_said "${@:2}"
	players_leave
	return "$status"
}

# want NAME COMMAND RESULT
want()
{
	ask "$1" "$2" && [ "$RESULT" = "$3" ] && return 0
	note "$RUN: $1: $2: $RESULT instead of $3"
	return 1
}

# either NAME NAME: whose answer is there is $WHO, and the other one $OTHER
either()
{
	WHO=$1 OTHER=$2
	hear "$WHO" 0.05 && return
	WHO=$2 OTHER=$1
	hear "$WHO" 0.05
}

# Are so many waits told of at Redis?
waits_told()
{
	local key n=0

	for key in $(rr keys 'dlock%wait:*'); do
		n=$((n + $(rr hlen "$key")))
	done
	[ "$n" -ge "$1" ]
}
