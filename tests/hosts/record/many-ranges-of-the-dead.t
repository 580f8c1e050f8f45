#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# The server sweeps what the dead had a thousand ranges a question.  What is left
# of more than that is nobody's all the same: a call without a wait gets it, and
# F_GETLK names nobody.  So of who was killed on this host, and of one of another
# host whose lease is over.
. "${0%/*}/../../lib/rig.sh"

N=1500

# ranges NAME: how many the server has of that file
ranges()
{
	local n

	n=$(rr zcard "{dlock:$MNT/$1%rec}%r")
	echo $((n / 3))
}

ALL='many_|dlock-' # (of 15 characters at most: pgrep(1))

are_stopped()
{
	on A pkill -STOP "$ALL"
	! on A pgrep -r R,S,D "$ALL" >/dev/null
}

# killed NAME: of host A, with N bytes of $MNT/NAME, no two adjacent, and his keepers
# with him, as all of a container's are: so the lease is there for a ttl.  (All are
# stopped before that, so that none sees another's end.)
killed()
{
	peer dead dl A "$BIN/many_ranges" "$MNT/$1" hold "$N"
	hear dead 30
	is "$HEARD" "$N" "$1: one has $N ranges"
	until_true 10 are_stopped
	on A pkill -KILL "$ALL"
	peer_end dead
	is "$(ranges "$1")" "$N" '... and is killed, and the server has all of them'
}

teller()
{
	peer "$1" dl "$2" "$BIN/records" tell
	ask "$1" "open a $MNT/$3"
}

# over NAME: its lease is, of all who have one there, and is not swept yet
over()
{
	# shellcheck disable=SC2016 # the script's
	rr eval 'for _, id in ipairs(redis.call("HKEYS", KEYS[1])) do
		local head = redis.call("HGET", KEYS[1], id)
		if #head > 57 then
			redis.call("HSET", KEYS[1], id, string.sub(head, 1, 21) ..
				   string.rep("0", 15) .. string.sub(head, 37))
		end
	end' 1 "dlock:$MNT/$1%rec" >/dev/null
}

rig_start disks
rig_configs ttl=60s

killed same
teller a A same
ask a 'set a W 0 0'
is "$RESULT" 0 'killed: the next of its host has all of the file at once'
at_most "$(ranges same)" 1 '... and it alone'
peer_end a
# (The dead one has no range any more, and is forgotten with the end of his lease.)
rr del "dlock:$MNT/same%rec" >/dev/null

killed set
over set
teller b B set
ask b 'set a W 0 0'
is "$RESULT" 0 'its lease is over: another host has all of the file at once'
peer_end b

killed get
over get
teller b B get
ask b 'get a W 0 0'
is "$RESULT" U '... and F_GETLK names nobody'
peer_end b
rig_end
