#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Keepers that had no core while their leases ran out, and were asking a silent
# server before and after it, stop who has their locks all the same, before they give
# them up: a shell that only has the descriptor has no timer of its own.
. "${0%/*}/../../lib/rig.sh"

N=6
TTL=12 # s

run_out()
{
	[ "$(rr --scan --pattern 'dlock:*')" = '' ]
}

have_keepers()
{
	[ "$(all_keepers A | wc -l)" -ge $((2 * N)) ]
}

are_stopped()
{
	local pid

	for pid; do
		[ "$(on A sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$pid/status")" = T ] ||
			return 1
	done
}

rig_start disks
proxy proxy
rig_config A ttl=${TTL}s connect_timeout=300ms restart_delay=0s \
	url="redis://127.0.0.1:$PROXY/0"
for ((i = 0; i < N; i++)); do
	# shellcheck disable=SC2016 # the inner shell's
	peer "a$i" dl A bash -c 'exec 9>"$0"; flock 9; echo $$; read -r _' "$i"
	hear "a$i" || rig_die "a$i: $(cat "$RIG/a$i.err")"
	pids[i]=$HEARD
done
ok "$N shells have a lock each, and a keeper and its standby" \
	until_true 30 have_keepers
ask proxy hang >/dev/null
# (Each asks again and again from five twelfths of the ttl on, and hardly sleeps
# between.)
sleep $((TTL * 5 / 12))
mapfile -t keepers < <(all_keepers A)
on A kill -STOP "${keepers[@]}"
ok 'they are stopped while they ask' until_true 5 are_stopped "${keepers[@]}"
ok '... until the leases have run out' until_true 10 run_out
on A kill -CONT "${keepers[@]}"
for ((i = 0; i < N; i++)); do
	ok "the holder of $i is stopped" until_true 10 pid_is_gone_on A "${pids[i]}"
	peer_end "a$i"
done
rig_end
