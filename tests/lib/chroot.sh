# shellcheck shell=bash disable=SC2034,SC2119,SC2154
# SPDX-License-Identifier: MIT
#
# Another system in $root, below $dir, and a Redis for it; after tap.sh:
#	inside COMMAND...	in that system
#	asked COMMAND...	to the Redis
#	all_gone		it has no key any more
#	begin_redis [OPTION...]	at $port, its process is $redis
# shellcheck source=tests/lib/ports.sh
. "$TOP/tests/lib/ports.sh"
redis='' port=''

inside()
{
	# shellcheck disable=SC2016
	unshare -m -p -f sh -c 'mount -t proc proc "$1/proc" &&
		mount -t tmpfs tmp "$1/tmp" && root=$1 && shift &&
		exec chroot "$root" "$@"' sh "$root" "$@"
}

asked()
{
	redis-cli -s "$dir/sock" --raw "$@"
}

# A process 1 that ends takes its keeper along: its lease goes a second later.
all_gone()
{
	local i

	for ((i = 0; i < 100; i++)); do
		[ "$(asked dbsize)" != 0 ] || return 0
		sleep 0.1
	done
	return 1
}

begin_redis()
{
	free_port
	port=$FREE
	redis-server --port "$port" --bind 127.0.0.1 --unixsocket "$dir/sock" \
		--save '' --dir "$dir" "$@" >"$dir/redis.log" 2>&1 &
	redis=$!
}
