# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# The whole of a torture test: three hosts lock, write and check shared data by
# the servers of RIG_MODE while holders and keepers are killed, stopped and frozen,
# for less and for longer than a lease lives (survival.py), and MEANWHILE servers
# fail, one after the other.  The intervals and the data decide.
#
#	SURVIVAL_SECONDS, SURVIVAL_SEED; SURVIVAL_MODES: null, report, kill, pause
. "${BASH_SOURCE[0]%/*}/rig.sh"
# shellcheck source=tests/lib/survival.sh
. "$TOP/tests/lib/survival.sh"

TIME=${1:-${SURVIVAL_SECONDS:-60}}
SEED=${2:-${SURVIVAL_SEED:-$RANDOM}}
MODES=${SURVIVAL_MODES:-null report kill pause}
TTL=3 # s

# by ON_LOST: in the configuration of all hosts
by()
{
	local h

	for h in A B C; do
		rig_config "$h" ttl=${TTL}s timeout=$((4 * TTL))s \
			connect_timeout=400ms restart_delay=${TTL}s \
			path_more="on_lost = \"$1\"
			pause_at_most = \"$((10 * TTL))s\""
	done
}

# figures LIBRARY SECONDS NAME=VALUE...
figures()
{
	survives "$1" "$2" servers=rig ttl=$((TTL * 1000)) "${@:3}"
	note "$MODE: $done_meanwhile times a server"
}

# What goes on is seen before the next one fails.
fails_once()
{
	server_fails
	done_meanwhile=$((done_meanwhile + 1))
	sleep "$TTL"
}

is_right()
{
	is "$overlaps $broken $lost" '0 0 0' "$MODE: never two holders"
	is "$idle" 0 "$MODE: all goes on"
	at_least "$grants" $((2 * TIME)) "$MODE: they did lock"
	# (Who died while he was stopped has left his lease to linger.)
	rig_empty $((13 * TTL)) "$MODE: and nothing is left"
}

rig_start disks
host_new C disks
note "RIG_MODE=$RIG_MODE SURVIVAL_SECONDS=$TIME SURVIVAL_SEED=$SEED"
for MODE in $MODES; do
	done_meanwhile=0
	MEANWHILE=fails_once
	case $MODE in
	null)
		MEANWHILE=''
		by report
		figures "$BIN/null.so" 1 faults=none hold=20
		at_least "$overlaps" 1 "$MODE: two holders are seen (control)"
		at_least "$lost" 1 "$MODE: and updates that are lost"
		;;
	report)
		MEANWHILE=''
		by report
		ok "$MODE: two holders are seen (control)" \
			sees 4 figures "$BUILD/libdlock-preload.so" "$TIME" \
			faults=stopped
		;;
	kill | pause)
		by "$MODE"
		figures "$BUILD/libdlock-preload.so" "$TIME" \
			faults=holder,keeper,stopped on_lost="$MODE" \
			kinds=ex,mixed,range
		is_right
		;;
	esac
done
done_testing
