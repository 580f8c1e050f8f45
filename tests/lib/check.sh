#!/bin/bash
# SPDX-License-Identifier: MIT
#
# make check: every test there is.  The last line is 'N passed, N failed'
# (and ', N skipped' if any were).  A script that dies, runs out of time or
# breaks its plan is one failure more; status 0 means that nothing failed.
#
#	check.sh --fast			unit, static and conform tests
#	check.sh [--verbose] [TEST...]	these only (*.t, build/tests/test_*),
#				with what they say; one after the other but for
#				CHECK_JOBS
#
# Most tests mostly wait, so $CHECK_JOBS (five for each core) run at a
# time; each has a Redis, hosts and a directory of its own.  What measures
# the machine, or uses what there is one of, says '# alone: WHY' among its first
# lines, and is run by itself when the others are through.
set -u
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL DLOCK_CONFIG DLOCK_LOG DLOCK_DISABLE
export LC_ALL=C.UTF-8 CMOCKA_MESSAGE_OUTPUT=TAP

san='-fsanitize=address,undefined -fno-sanitize-recover=all'
state=$(mktemp -d "${TMPDIR:-/tmp}/dlock-check.XXXXXX") || exit 1
trap 'restore_autogroup; rm -rf "$state"' EXIT
trap 'exit 130' INT TERM
export CHECK_DIR=$state/tap TMPDIR=$state/tmp GIVEN_PORTS=$state/ports
mkdir "$CHECK_DIR" "$TMPDIR" "$GIVEN_PORTS"
chmod 711 "$state" # for the tests' programs that give up root

# Each session is a group of its own to the scheduler (sched(7), autogroup), and
# Linux 6.18 was seen to leave a group of one ready task without a core for 8 s
# beside one of eight loops: keepers, servers and the hosts' programs are such
# groups, and no test is about that.  While the tests run there are none.
autogroup=/proc/sys/kernel/sched_autogroup_enabled
was_autogroup=
leave_autogroup()
{
	[ "$(cat "$autogroup" 2>/dev/null)" = 1 ] || return
	[ -w "$autogroup" ] && echo 0 2>/dev/null >"$autogroup" &&
		was_autogroup=1
}

restore_autogroup()
{
	[ -z "$was_autogroup" ] || echo "$was_autogroup" >"$autogroup"
}
leave_autogroup

# The unit tests once more, under ASan and UBSan.
sanitized()
{
	local name tests=()

	for name in tests/unit/test_*.c; do
		[ -e "$name" ] || continue
		tests+=("build-asan/tests/$(basename "$name" .c)")
	done
	asan "${tests[@]}"
}

asan()
{
	[ "$#" = 0 ] || make --no-print-directory -j2 B=build-asan \
		SAN="$san" "$@" >&2
}

# The lines of all TAP files that match.
count()
{
	cat "$CHECK_DIR"/*.tap 2>/dev/null | grep -cE "$1"
}

# Scripts that end badly though none of their tests says so.
broken()
{
	local tap n plan status

	for tap in "$CHECK_DIR"/*.tap; do
		[ -e "$tap" ] || continue
		n=$(grep -cE '^(not )?ok\b' "$tap")
		plan=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$tap")
		status=$(cat "${tap%.tap}.status" 2>/dev/null)
		if [ "$plan" != "$n" ] ||
		   { [ "$status" != 0 ] && ! grep -q '^not ok' "$tap"; }; then
			basename "$tap" .tap
		fi
	done
}

# Why: once more at the end, for of a long log often only the end is kept.
said_by_the_failed()
{
	local err

	for err in "$CHECK_DIR"/*.err; do
		[ -s "$err" ] || continue
		[ "$(cat "${err%.err}.status")" != 0 ] || continue
		echo "# --- $(basename "$err" .err)"
		tail -n 40 "$err"
	done
}

# The longest first, by the time that they are given: nobody waits for one that
# began last.
longest_first()
{
	local test limit

	for test; do
		limit=0
		[ "${test%.t}" = "$test" ] ||
			limit=$(sed -n 's/^# timeout: //p;40q' "$test")
		echo "${limit:-60} $test"
	done | sort -s -k1,1nr | cut -d' ' -f2-
}

is_alone()
{
	[ "${1%.t}" != "$1" ] && sed 40q "$1" | grep -q '^# alone: '
}

# run JOBS TEST...
run()
{
	local jobs=$1

	shift
	[ "$#" = 0 ] || prove "${verbose[@]}" --timer --jobs "$jobs" \
		--exec 'bash tests/lib/run_one.sh' "$@"
}

# Many at a time, then those that are to be alone.
run_all()
{
	local test status=0 together=() alone=()

	for test; do
		if is_alone "$test"; then
			alone+=("$test")
		else
			together+=("$test")
		fi
	done
	mapfile -t together < <(longest_first "${together[@]}")
	CHECK_JOBS=${CHECK_JOBS:-$((5 * $(nproc)))}
	run "$CHECK_JOBS" "${together[@]}" || status=1
	run 1 "${alone[@]}" || status=1
	return "$status"
}

verbose=() fast=''
case ${1-} in
--verbose)
	verbose=(--verbose)
	shift
	;;
--fast)
	fast=yes
	shift
	;;
esac
tests=("$@")
runs=(run "${CHECK_JOBS:-1}")
extra=0
if [ "${#tests[@]}" = 0 ]; then
	shopt -s nullglob
	runs=(run_all)
	if [ -z "$fast" ] && ! sanitized; then
		echo '# the unit tests do not build with sanitizers' >&2
		extra=1
	fi
	units=(build/tests/test_*)
	[ -n "$fast" ] || units+=(build-asan/tests/test_*)
	for test in "${units[@]}"; do
		if [ -x "$test" ] && [ "${test%.d}" = "$test" ] &&
		   [ -e "tests/unit/${test##*/}.c" ]; then
			tests+=("$test")
		fi
	done
	tests+=(tests/static/*.t tests/conform/*.t)
	[ -n "$fast" ] || tests+=(tests/hosts/*/*.t tests/fuzz/*.t)
fi

"${runs[@]}" "${tests[@]}"
content=$?

mapfile -t crashed < <(broken)
passed=$(count '^ok\b')
failed=$(count '^not ok\b')
skipped=$(count '^ok\b.*# SKIP')
failed=$((failed + ${#crashed[@]} + extra))
[ "$content" = 0 ] || [ "$failed" != 0 ] || failed=1

if [ "$failed" != 0 ]; then
	echo
	grep -E '^not ok\b' "$CHECK_DIR"/*.tap |
		sed "s,^$CHECK_DIR/\\(.*\\)\\.tap:,\\1: ,"
	[ "${#crashed[@]}" = 0 ] || printf '%s: died\n' "${crashed[@]}"
	said_by_the_failed
fi
line="$((passed - skipped)) passed, $failed failed"
[ "$skipped" = 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" = 0 ]
