# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
#
# Locks of host A that are held by odd programs, each to be looked at while it
# lives and when it ends; after rig.sh:	. tests/lib/held.sh
#
#	begins NAME WORD PROGRAM...	a peer on A, that has said WORD
#	goes_on NAME WORD	told to, it says WORD
#	held FILE		has a lease, and the kernel's lock; in $files
#	still_held FILE		... the same lease, and is refused on both hosts
#	held_for MS		... all of $files, each looked at again and again
#	prompt FILE BEGIN-NS [MS]	its lease is gone within MS of then
#	ends PEER FILE [MS]	told to go on, the peer ends the lock
declare -A token
files=()

begins()
{
	local name=$1 word=$2

	shift 2
	peer "$name" dl A "$@"
	hear "$name"
	is "$HEARD" "$word" "$name: $word"
}

goes_on()
{
	ask "$1" go
	is "$HEARD" "$2" "$1: $2"
}

held()
{
	files+=("$1")
	token[$1]=$(token_of "$1")
	like "${token[$1]}" '^dlock1 ' "$1: has a lease"
}

# On A's disk the kernel refuses (but by a shadow: the shim), on B's only the
# lease can.
still_held()
{
	local how=on

	[ -z "${RIG_LOCAL-}" ] || how=dl
	if "$how" A flock -n "$1" true; then
		diag "$1: no kernel lock"
		return 1
	fi
	if dl B flock -n "$1" true; then
		diag "$1: granted to the other host"
		return 1
	fi
	[ "$(token_of "$1")" = "${token[$1]}" ] && return
	diag "$1: was ${token[$1]}"
	diag "$1: now $(token_of "$1")"
	return 1
}

look_at_all()
{
	local file

	for file in "${files[@]}"; do
		[ -n "${lost[$file]-}" ] || still_held "$file" ||
			lost[$file]=yes
	done
}

held_for()
{
	local file
	local -A lost

	throughout "$1" 3 look_at_all
	for file in "${files[@]}"; do
		is "${lost[$file]-no}" no "$file: held and refused for $1 ms"
	done
}

prompt()
{
	local took

	ok "$1: its lease ends" until_true $((5 + ${3:-300} / 1000)) \
		lease_is_gone "$1"
	took=$((($(now) - $2) / 1000000))
	in_time "$took" "${3:-300}" "$1: its lease is gone in $took ms"
}

ends()
{
	local begin

	begin=$(now)
	say "$1" go
	prompt "$2" "$begin" "${3:-300}"
}
