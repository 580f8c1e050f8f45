#!/bin/bash
# SPDX-License-Identifier: MIT
#
# make house: how large the house is, and how its files hang together.  For a
# comparison before and after a change; nothing here passes or fails.
#
# What is measured, so that the next one measures the same:
#  - lines of C and Lua that are neither blank nor only a comment;
#  - functions, and their lines, as ctags finds them;
#  - arrows between files as tests/static/arrows.sh finds them;
#  - the way of a flock(LOCK_EX) that nobody contends, from the entry to its
#    return, in a build without optimization: the first one of a process, which
#    connects, and a later one, which reads what the unlock before was answered.
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
. tests/static/arrows.sh

rooms='shim/model shim/os shim/redis shim/lease shim/hold shim/lock shim/entry
	shim/keeper config tools'
# The struct of one call, of its place in a queue, of what a process holds: as
# they are called now, and as they may be.
structs='ask queued request wait_slot dlk_hold hold dlk_kept'

# code_of FILE...: its lines but for comments and blanks.
code_of()
{
	awk '
		FNR == 1 { inside = 0; lua = FILENAME ~ /\.(lua|inc)$/ }
		{
			line = $0
			if (lua)
				sub(/--.*/, "", line)
			else
				line = without_comments(line)
			if (line ~ /[^ \t]/)
				n++
		}
		function without_comments(text, out, at)
		{
			out = ""
			while (text != "") {
				at = index(text, inside ? "*/" : "/*")
				if (!at) {
					out = out (inside ? "" : text)
					break
				}
				if (!inside)
					out = out substr(text, 1, at - 1)
				text = substr(text, at + 2)
				inside = !inside
			}
			sub(/\/\/.*/, "", out)
			return out
		}
		END { print n + 0 }' "$@"
}

# functions FILE...: "LINES FILE NAME" each.
functions()
{
	ctags -x --language-force=C --kinds-C=f \
		--_xformat='%{line} %{end} %{input} %{name}' "$@" |
		awk '{ print $2 - $1 + 1, $3, $4 }'
}

# row NAME FILE...: a line of the table; "rest": lines of comments, and blank ones.
row()
{
	local name=$1 c code

	shift
	mapfile -t c < <(printf '%s\n' "$@" | grep '\.[ch]$')
	code=$(code_of "$@")
	printf '%-12s %6d %9d %7d %9d %8d\n' "$name" "$#" \
		"$(functions "${c[@]}" | wc -l)" "$code" \
		$(($(cat "$@" | wc -l) - code)) \
		"$(functions "${c[@]}" | sort -n | awk 'END { print $1 + 0 }')"
}

sizes()
{
	local room files c all=()

	printf '%-12s %6s %9s %7s %9s %8s\n' room files functions lines \
		rest longest
	for room in $rooms; do
		mapfile -t files < <(find "$room" -type f \
			\( -name '*.[ch]' -o -name '*.lua' -o -name '*.inc' \) \
			2>/dev/null)
		[ "${#files[@]}" != 0 ] || continue
		all+=("${files[@]}")
		row "${room#shim/}" "${files[@]}"
	done
	row all "${all[@]}"
	mapfile -t c < <(printf '%s\n' "${all[@]}" | grep '\.[ch]$')
	functions "${c[@]}" | sort -n | awk '
		{ lines[NR] = $1; more += $1 > 60 }
		END {
			printf "lines of a function: median %d, nine in ten %d, " \
				"longest %d; over 60: %d\n",
				lines[int(NR / 2) + 1], lines[int(NR * 0.9)],
				lines[NR], more
		}'
	echo "comments that say who has the mutex or the gate:" \
		"$(grep -rhoE '\((mutex|gate) ?(held|taken|not held)?\)' shim |
			wc -l)"
}

fields()
{
	ctags -x --language-force=C --kinds-C=m \
		--_xformat='%{scope} %{typeref} %{name}' shim/*/*.[ch] |
		awk -v structs="$structs" '
			{ n[$1]++; flags[$1] += $2 == "typename:bool" }
			END {
				m = split(structs, s)
				for (i = 1; i <= m; i++)
					if (s[i] in n)
						printf "struct %s: %d fields, " \
							"%d of them bool\n",
							s[i], n[s[i]], flags[s[i]]
			}'
}

hangs_together()
{
	local found

	found=$(arrows) || return
	echo "arrows that go up: $(upward <<<"$found" | wc -l)"
	echo "pairs of files that call each other: $(pairs <<<"$found" | wc -l)"
	echo "files in the largest cycle: $(cycle <<<"$found" | wc -l)"
	echo "files with connections or replies (dlk_conn, redisReply) in" \
		"lock and hold:" "$(grep -lE 'dlk_conn|redisReply' \
		shim/lock/*.c shim/hold/*.c 2>/dev/null | wc -l)"
	echo "unit tests that link shim/lock or shim/hold:" \
		"$(grep -lE '^// link:.*shim/(lock|hold)/' tests/unit/*.c |
			wc -l) of $(find tests/unit -name 'test_*.c' | wc -l)"
}

# --- the way of one lock ---------------------------------------------------
B=build/house
work=''
redis=''

end()
{
	[ -z "$redis" ] || kill "$redis" 2>/dev/null
	[ -z "$work" ] || rm -rf "$work"
}
trap end EXIT

begin_redis()
{
	local i

	work=$(mktemp -d "${TMPDIR:-/tmp}/dlock-house.XXXXXX") || return 1
	mkdir "$work/locks"
	printf 'redis "main" { url = "unix://%s"\nrestart_delay = "0s" }\n' \
		"$work/sock" >"$work/conf"
	printf 'path "%s/locks/" {}\n' "$work" >>"$work/conf"
	redis-server --port 0 --unixsocket "$work/sock" --dir "$work" \
		--save '' --appendonly no --daemonize no >"$work/log" 2>&1 &
	redis=$!
	for ((i = 0; i < 200; i++)); do
		redis-cli -s "$work/sock" ping >/dev/null 2>&1 && return 0
		sleep 0.05
	done
	return 1
}

# way NAME CALL: functions, files and depth of the CALL-th flock().  A function of a
# header is one, in however many objects it is.
way()
{
	local passed depth

	passed=$(awk -v call="$2" '$1 == call { print $3 }' "$work/trace" |
		xargs addr2line -f -e "$B/libdlock-preload.so" | paste - - |
		sed -E 's/:([0-9?]+)( .*)?$/ \1/; s,\t.*/(shim|config)/, \1/,' |
		sort -u)
	depth=$(awk -v call="$2" '$1 == call && $2 > depth { depth = $2 }
		END { print depth }' "$work/trace")
	echo "$1: $(wc -l <<<"$passed") functions," \
		"$(cut -d' ' -f2 <<<"$passed" | sort -u | wc -l) files," \
		"depth $depth"
}

ways()
{
	local name

	if ! make --no-print-directory -j2 B="$B" SAN= \
		CFLAGS='-O0 -g -finstrument-functions' \
		"$B/libdlock-preload.so" >"$B.log" 2>&1; then
		cat "$B.log"
		return 1
	fi
	cp build/dlock-keeper "$B/"
	begin_redis || return 1
	for name in 'flock FILE true' 'build/tests/bench_lock calls FILE 200'; do
		: >"$work/trace"
		# shellcheck disable=SC2086 # a command
		TRACE=$work/trace DLOCK_CONFIG=$work/conf DLOCK_LOG=error \
		LD_PRELOAD="$PWD/build/tests/trace.so $PWD/$B/libdlock-preload.so" \
			${name/FILE/$work/locks/f} >/dev/null || return 1
		# Its calls: lock, unlock, lock, unlock, ...
		[[ $name == flock* ]] && way "the way of 'flock FILE true'" 1
	done
	way "the way of a lock on an open connection" 3
	way "the way of its unlock" 4
}

sizes
fields
hangs_together
ways
