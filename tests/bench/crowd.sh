#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Many leases of one process, and many processes with a lease each: what they
# cost while nothing happens but their renewal.
. "${0%/*}/lib.sh"

param LEASES 10000 500
param LEASES_TTL_S 9 6
param PROCESSES 1000 30
param PROCESSES_TTL_S 30 6

# Pss, of those of them that are there still; kB
pss_of()
{
	local pid

	for pid; do
		sed -n 's/^Pss: *\([0-9]*\) kB/\1/p' \
			"/proc/$pid/smaps_rollup" 2>/dev/null
	done | awk '{ n += $1 } END { print n + 0 }'
}

tenth()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f\n", b ? a / b : 0 }'
}

# --- one process ------------------------------------------------------------------

# Over a ttl, in which each lease is renewed three times.
renewals()
{
	local before=$RIG/before after=$RIG/after cpu pids s=$LEASES_TTL_S
	local n usec

	heading "$LEASES leases of one process, ttl $s s"
	rig_config A ttl="${s}s" connect_timeout=1s
	peer many dl A "$BIN/many_files" "$LEASES" EX
	ask many open 60
	ask many lock 120
	[ "$RESULT" = 0 ] || error "many: $HEARD"
	row 'to lock them all' "$((START / 1000))" ms
	# Until the keeper has them too.
	until_true 20 pids_of A -x dlock-keeper >/dev/null
	sleep "$((s / 2))"
	mapfile -t pids < <(pids_of A -x many_files && pids_of A -x dlock-keeper)
	server_info >"$before"
	cpu=$(cpu_of "${pids[@]}")
	sleep "$s"
	server_info >"$after"
	cpu=$(($(cpu_of "${pids[@]}") - cpu))
	read -r n usec < <(command_grown evalsha "$before" "$after")
	row 'commands sent' "$((n / s))" 'a second'
	row 'commands sent a lease and ttl' "$(ratio "$n" "$LEASES")" ''
	row 'bytes to the server' "$(($(grown total_net_input_bytes \
		"$before" "$after") / s))" 'a second'
	row 'bytes from the server' "$(($(grown total_net_output_bytes \
		"$before" "$after") / s))" 'a second'
	row 'scripts at the server' "$(ratio "$usec" "$n")" us
	row 'CPU of process and keeper' "$(tenth "$cpu" "$s")" percent
	row 'CPU of Redis' "$(tenth "$(redis_cpu "$before" "$after")" \
		$((s * 10000)))" percent
	row 'Pss of process and keeper' "$(pss_of "${pids[@]}")" kB
	row 'leases that are there still' "$(rr dbsize)" ''
	say many exit
	until_true 30 db_is_empty || error 'many: leases are left'
	peer_end many
}

# --- many processes ---------------------------------------------------------------

# crowd NAME RUN [PRELOAD]: memory of each; with a preload, connections too
crowd()
{
	local name=$1 run=$2 members keepers n clients memory

	shift 2
	clients=$(info_field <(server_info) connected_clients)
	memory=$(info_field <(server_info) used_memory)
	peer crowd "$run" A "$BIN/bench_crowd" "$PROCESSES" "$MNT/crowd." "$@"
	hear crowd 120
	if [ "$RESULT" != locked ]; then
		error "crowd: '$HEARD' $(tail -1 "$RIG/crowd.err")"
		return
	fi
	row "$name: to start and lock" "$START" ms
	[ "$#" = 0 ] || sleep "$(((PROCESSES_TTL_S + 2) / 3 + 1))"
	# The first of them is their parent.
	mapfile -t members < <(pgrep -P "$(pids_of A -x bench_crowd | head -1)")
	mapfile -t keepers < <(pids_of A -x dlock-keeper)
	n=${#members[@]}
	row "$name: Pss a process" "$(tenth "$(pss_of "${members[@]}")" "$n")" kB
	if [ "$#" != 0 ]; then
		row "$name: Pss a keeper" "$(tenth \
			"$(pss_of "${keepers[@]}")" "${#keepers[@]}")" kB
		row "$name: keepers" "${#keepers[@]}" ''
		row "$name: connections a process" "$(ratio $(($(info_field \
			<(server_info) connected_clients) - clients)) "$n")" ''
		row "$name: memory of Redis a process" "$(tenth $(($(info_field \
			<(server_info) used_memory) - memory)) \
			"$((n * 1024))")" kB
		row "$name: leases" "$(rr dbsize)" ''
	fi
	peer_end crowd
	until_true 60 crowd_is_gone || error 'the crowd does not end'
}

# shellcheck disable=SC2317 # by name
crowd_is_gone()
{
	! pids_of A -x bench_crowd >/dev/null && db_is_empty
}

# Its members are preloaded, it is not.
# shellcheck disable=SC2317 # by name
crowded()
{
	on "$1" env DLOCK_CONFIG="$RIG/A.conf" "${@:2}"
}

bench_begin
renewals
heading "$PROCESSES processes with a lease each, ttl $PROCESSES_TTL_S s"
rig_config A ttl="${PROCESSES_TTL_S}s" connect_timeout=1s timeout=20s
crowd bare on
crowd dlock crowded "$SHIM"
bench_end
