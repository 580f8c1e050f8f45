#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# What a program has is its own (L7): its descriptors' numbers, the bytes in
# its files, signals, timers, sequences of random numbers.  Each program says
# the same bare and under dlock.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
TTL=6				# s
rig_configs ttl=${TTL}s

# --- numbers of descriptors -------------------------------------------------

# HOW and the last number that is taken.
ways=('close 1023' 'close 16383' 'closefrom 1023' 'close_range 1023'
	'unshare 1023' 'dup2 1023' 'dup3 1023' 'raw 1023' 'sockets 1023')
for run in on dl; do
	for way in "${ways[@]}"; do
		name=$run-${way// /-}
		on A mkdir "$name.d"
		# shellcheck disable=SC2016,SC2086 # the inner shell's; two words
		peer "$name" "$run" A sh -c 'cd "$0.d" && exec "$@"' "$name" \
			"$BIN/taken_numbers" ${way% *} "../$name" ${way#* }
	done
done
for way in "${ways[@]}"; do
	for run in on dl; do
		name=$run-${way// /-}
		hear "$name" 60
		is "$HEARD" 'held, 0 lost' \
			"$name: locked, and all numbers are taken"
	done
	like "$(token_of "dl-${way// /-}")" '^dlock1 ' "$way: has a lease"
done
look_at_all()
{
	local way file

	for way in "${ways[@]}"; do
		file=dl-${way// /-}
		[ -n "$(token_of "$file")" ] || lost[$file]=gone
		! dl B flock -n "$file" true || lost[$file]=granted
	done
}
declare -A lost
throughout $((3 * TTL * 1000)) 3 look_at_all
is "${!lost[*]}" '' 'all are held, and refused to the other host'
for run in on dl; do
	for way in "${ways[@]}"; do
		say "$run-${way// /-}" go
	done
done
for way in "${ways[@]}"; do
	for run in on dl; do
		name=$run-${way// /-}
		hear "$name"
		is "$HEARD" '0 different' "$name: the files are as they were"
		say "$name" go
		unlike "$(cat "$RIG/$name.err")" . "$name: nothing was said"
	done
done
rig_empty $((TTL + 3)) 'and none has a lease'

# --- 1 kHz: what follows goes on meanwhile ------------------------------------

for what in nothing lock; do
	peer "on-khz-$what" on A "$BIN/signals_seen" alarm "$what" "bare-$what" bare 1000
	peer "dl-khz-$what" dl A "$BIN/signals_seen" alarm "$what" "khz-$what" khz 5000
done

# --- the same, bare and under dlock -----------------------------------------

bare=$(on A "$BIN/process_state" state)
is "$(dl A "$BIN/process_state" state 2>/dev/null)" "$bare" \
	'what a process has: as bare'
unlike "$bare" changed 'bare: all is the same'
is "$(grep -c same <<<"$bare")" 32 'bare: and all was looked at'

is "$(dl A "$BIN/signals_seen" signals signals)" 'before 0
held 1 open to 0
all came, 0 elsewhere
after 0' 'one thread while a lock is held, deaf to signals'

for what in nothing lock; do
	for run in on dl; do
		name=$run-khz-$what
		hear "$name" 60
		is "$HEARD" '0 failed (0), 0 odd, 0 refused' \
			"$name: no lock failed"
		unlike "$(cat "$RIG/$name.err")" dlock: "$name: no complaint"
		note "$(tr '\n' ' ' <"$RIG/$name.err")"
	done
done
rig_end
