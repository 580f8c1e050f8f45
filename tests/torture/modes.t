#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 7200
#
# All of tests/hosts/{flock,record,queue} in the other modes, one file after the
# other.  What of them must not hold there stands in modes.list, with the reason:
# what fails and is not listed is a failure, and so is what is listed and was not
# seen to fail.
#
#	modes.t [MODE...]	sentinel, cluster, quorum; or MODES
#	MODES_FILES		SUBJECT/NAME of those that are to be run
. "${0%/*}/../lib/tap.sh"

LIST=${0%/*}/modes.list
DIR=$(mktemp -d "${TMPDIR:-/tmp}/dlock-modes.XXXXXX") || exit 1
trap 'rm -rf "$DIR"' EXIT
read -ra modes <<<"${*:-${MODES:-sentinel cluster quorum}}"
read -ra files <<<"${MODES_FILES:-$(cd tests/hosts &&
	printf '%s\n' {flock,record,queue}/*.t | sed 's/\.t$//' | xargs)}"
# No server is to be taken for one that has failed, on a busy machine.
export NODE_TIMEOUT=${NODE_TIMEOUT:-15000} DOWN_MS=${DOWN_MS:-15000}

# failed MODE FILE: the names of its tests that fail, a line each
failed()
{
	local tap=$DIR/tests_hosts_${2//\//_}.t.tap status n

	: >"$tap"
	RIG_MODE=$1 CHECK_DIR=$DIR nice bash tests/lib/run_one.sh \
		"tests/hosts/$2.t" >"$DIR/out" 2>&1 </dev/null
	status=$(cat "${tap%.tap}.status")
	sed -n 's/^not ok [0-9]* - //p' "$tap"
	n=$(grep -cE '^(not )?ok ' "$tap")
	grep -qx "1\.\.$n" "$tap" || echo "it ends early ($status)"
}

# listed MODE FILE: what may fail, "WHY ~|= REGEX", a line each.  "~": not always
listed()
{
	awk -v mode="$1" -v file="$2" '
		!/^#/ && ($1 == mode || $1 == "all") && $2 == file {
			sub(/^[^ \t]+[ \t]+[^ \t]+[ \t]+/, ""); print }' "$LIST"
}

# Sets $unlisted and $unseen.
compare()
{
	local why how regex known=() name

	unlisted='' unseen=''
	while read -r why how regex; do
		[ -n "$why" ] || continue
		known+=("$regex")
		if grep -qE -- "$regex" "$DIR/failed"; then
			note "$why: $(grep -cE -- "$regex" "$DIR/failed") of '$regex'"
		elif [ "$how" = = ]; then
			unseen+="$regex"$'\n'
		fi
	done < <(listed "$1" "$2")
	while read -r name; do
		for regex in "${known[@]}"; do
			[[ ! $name =~ $regex ]] || continue 2
		done
		unlisted+="$name"$'\n'
	done <"$DIR/failed"
}

for mode in "${modes[@]}"; do
	total=0 different=0 began=$SECONDS
	for file in "${files[@]}"; do
		# It has no queue.
		[ "$mode $file" != "quorum queue/${file#queue/}" ] || continue
		failed "$mode" "$file" >"$DIR/failed"
		total=$((total + $(grep -cE '^(not )?ok ' "$DIR"/*.tap)))
		different=$((different + $(wc -l <"$DIR/failed")))
		compare "$mode" "$file"
		is "$unlisted" '' "$mode: $file"
		[ -z "$unlisted" ] || diag "$(tail -n 40 "$DIR/out")"
		[ -z "$unseen" ] || is "$unseen" '' "$mode: $file: what is listed differs"
		rm -f "$DIR"/*.tap "$DIR"/*.status "$DIR"/*.err
	done
	note "$mode: $((total - different)) of $total as with one server, in $((SECONDS - began)) s"
done
done_testing
