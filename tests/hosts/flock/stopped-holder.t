#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A process is stopped for longer than its ttl, and so is its keeper: another host
# has the lock by then, and the process, going on, is refused (L5).
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=5s connect_timeout=300ms \
	path_more='on_lost = "report"'
for try in 1 2 3; do
	peer stopped dl A "$BIN/stopped_holder" "stopped$try"
	hear stopped
	ok "$try: a keeper has the lease as well" until_true 10 have_standbys A 1
	mapfile -t keepers < <(all_keepers A)
	pid=$(pgrep -o -f "^$BIN/stopped_holder stopped$try\$")
	kill -STOP "$pid"
	on A kill -STOP "${keepers[@]}"
	peer other dl B flock "stopped$try" sh -c 'echo got; read -r _'
	hear other
	is "$HEARD" got "$try: stopped, and its lease has run out"
	kill -CONT "$pid"
	hear stopped
	is "$HEARD" 'Resource temporarily unavailable' \
		"$try: it is not granted what another has by now"
	on A kill -CONT "${keepers[@]}"
	say other go
	say stopped go
	peer_end stopped other
	until_true 10 no_keeper A || rig_die "$try: the keeper does not end"
done
rig_empty
rig_end
