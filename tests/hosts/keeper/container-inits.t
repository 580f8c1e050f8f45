#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# A job under flock(1) is what a container runs, with tini, with dumb-init and
# with no init at all: it excludes other hosts, its end is heard of within a
# second, and a container that is killed blocks nobody longer than its ttl.
. "${0%/*}/../../lib/rig.sh"

TTL=6 # s

# contain COMMAND...: as process 1; its own processes end with it
contain()
{
	dl A unshare -p -f --mount-proc --kill-child=KILL "$@"
}

b_has_it()
{
	dl B flock -n job true
}

# job NAME INIT...: it runs until `go`; C is the number of its unshare(1)
job()
{
	local name=$1

	shift
	peer "$name" contain "$@" flock job sh -c 'echo in; read -r _'
	hear "$name"
	is "$RESULT" in "$name: the job runs"
	ok "$name: another host is kept out" test "$(dl B flock -n job echo in)" = ''
}

rig_start disks
rig_configs ttl=${TTL}s
on A touch job
on B touch job
for init in none tini dumb-init; do
	case $init in
	none) with=() ;;
	tini) with=(tini --) ;;
	*) with=("$init" --) ;;
	esac
	job "$init" "${with[@]}"
	began=$(now)
	say "$init" go
	ok "$init: it ends, and the other host has it" until_true 10 b_has_it
	took=$((($(now) - began) / 1000000))
	# (A ttl of which a third at most is over would take 4 s.)
	in_time "$took" 3000 "$init: after a second ($took ms)" 2000
	peer_end "$init"
	# As `docker kill` does.
	job "$init" "${with[@]}"
	began=$(now)
	on A pkill -KILL -x unshare
	ok "$init: killed, the other host has it" until_true 10 b_has_it
	note "$init: after $((($(now) - began) / 1000000)) ms, of a ttl of $TTL s"
	peer_end "$init"
done
rig_end
