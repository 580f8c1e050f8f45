# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
#
# forking_threads.c on the rig, for forks-beside-locks.t and forks-long.t.

# forks CHILDREN SECONDS: on A; what it says is $HEARD.
forks()
{
	local begin

	begin=$(now)
	peer forks dl A "$BIN/forking_threads" "$RIG/redis.sock" "$MNT" "$1"
	hear forks "$2" || HEARD='it hangs'
	note "$HEARD, in $((($(now) - begin) / 1000000)) ms," \
		"$(rr info stats |
			sed -n 's/^total_connections_received:\([0-9]*\).*/\1/p') \
connections, $(rr info clients |
			sed -n 's/^connected_clients:\([0-9]*\).*/\1/p') at the end"
	like "$HEARD" "^$1 children, [0-9]+ locks, 0 crossed, 0 failed\$" \
		"$1 children of 8 threads, 4 others lock"
	is "$(cat "$RIG/forks.err")" '' 'nobody complains'
}
