#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 300
#
# dlockctl list of 100,000 leases takes less than a second, and on a busy machine so
# much longer as somebody waited for a core (tap.sh); beside it stands what redis-cli
# takes for their names alone.  A million keys of others are passed over without
# holding the server up.
. "${0%/*}/../lib/rig.sh"
. "${0%/*}/../lib/ctl.sh"

rig_start disks
rig_configs
LEASES=100000 OTHERS=1000000

# fill N SCRIPT ARG...: by parts, so that no call is a long one
fill()
{
	local n=$1 script=$2 from

	shift 2
	for ((from = 0; from < n; from += 20000)); do
		rr eval "for i = $from + 1, $from + 20000 do $script end" 0 "$@" \
			>/dev/null
	done
}

# ms COMMAND...: how long it takes
ms()
{
	local begun=${EPOCHREALTIME/[.,]/}

	"$@" >"$RIG/out" 2>/dev/null || return
	echo $(((${EPOCHREALTIME/[.,]/} - begun) / 1000))
}

names()
{
	redis-cli -s "$RIG/redis.sock" --scan --pattern 'dlock:*'
}

list()
{
	DLOCK_CONFIG=$RIG/A.conf "$CTL" list
}

# measure: the best of five, each beside its control; whether one is in time
measure()
{
	best=1000000 control=1000000 quick=no
	for _ in 1 2 3 4 5; do
		local one two

		tap_mark
		one=$(ms list)
		! within_us $((one * 1000)) 1000000 || quick=yes
		rows=$(wc -l <"$RIG/out")
		two=$(ms names)
		[ "$one" -ge "$best" ] || best=$one
		[ "$two" -ge "$control" ] || control=$two
	done
}

fill $LEASES 'redis.call("SET", "dlock:" .. ARGV[1] .. "/dir" .. i % 100 ..
	"/file" .. i .. ".lock", string.format(
	"dlock1 %032x ffffffffffffffffffffffffffffffff:far 1:%x:- %020d %d web%d job",
	i, i, 1000000000 + i, i, i % 20), "PX", 3600000)' "$MNT"
is "$(rr dbsize)" $LEASES 'so many leases (control)'
measure
is "$rows" $((LEASES + 1)) 'each has a row'
note "$best ms, their names alone $control ms"
is "$quick" yes 'within a second'

rr flushall >/dev/null
rr set "dlock:$MNT/one" "$(made_token A 5 web1)" px 3600000 >/dev/null
fill $OTHERS 'redis.call("SET", "other:" .. i, i)'
is "$(rr dbsize)" $((OTHERS + 1)) 'a million keys of others (control)'
rr config resetstat >/dev/null
measure
is "$rows" 2 'the one lease is found'
note "$best ms, by redis-cli $control ms"
each=$(rr info commandstats |
	sed -n 's/^cmdstat_scan:.*usec_per_call=\([0-9]*\).*/\1/p')
at_most "$each" 10000 'no call holds the server up: us of one, on average'
note "$each us"
done_testing
