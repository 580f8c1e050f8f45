# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT
#
# Runs of tests/programs/survival.py on the rig's hosts, and what is seen of them.
# $SEED is the caller's.

# survives LIBRARY SECONDS NAME=VALUE...: the figures, in $overlaps and so on.
# $MEANWHILE, if there is one, is called again and again for those SECONDS.  All of it
# comes before other work, which would make a fault of a second one of two.
survives()
{
	local lib=$1 seconds=$2 dir words pid end=$((SECONDS + $2))

	shift 2
	dir=$(mktemp -d "$RIG/survival.XXXXXX")
	# shellcheck disable=SC2086 # words
	nice -n -20 /usr/bin/python3 "$TOP/tests/programs/survival.py" "$dir" \
		"$MNT" "$lib" "$seconds" "$SEED" "$@" ${SURVIVAL_MORE-} \
		A="${INIT[A]}" B="${INIT[B]}" C="${INIT[C]}" >"$dir/words" &
	pid=$!
	while [ -n "${MEANWHILE-}" ] && [ "$SECONDS" -lt "$end" ]; do
		"$MEANWHILE"
	done
	wait "$pid"
	words=$(cat "$dir/words")
	note "$words"
	read -r _ faults _ killed _ left _ idle < <(tail -n 1 <<<"$words")
	words=$(/usr/bin/python3 "$TOP/tests/programs/check_intervals.py" \
		"$dir/data" "$dir"/*.log)
	note "$words"
	# Its logs, the faults and what was said, for who wants to know why.
	[ -z "${SURVIVAL_KEEP-}" ] || cp -r "$dir" "$SURVIVAL_KEEP/"
	rm -r "$dir"
	read -r _ grants _ overlaps _ broken _ lost _ errors <<<"$words"
	[ -n "${lost-}" ] || rig_die "no figures"
}

# Two holders, or updates that were lost?
is_wrong()
{
	[ "$overlaps $broken $lost" != '0 0 0' ]
}

# sees TRIES COMMAND...: is something wrong in one of so many runs?  Each has a
# seed of its own.
sees()
{
	local tries=$1

	shift
	for ((; tries > 0; tries--)); do
		"$@"
		! is_wrong || return 0
		SEED=$((SEED + 1))
	done
	return 1
}
