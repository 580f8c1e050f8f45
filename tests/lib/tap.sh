# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Test Anything Protocol, as little of it as the tests need.
#
#	is GOT WANT NAME, like GOT REGEX NAME, unlike GOT REGEX NAME
#	ok NAME COMMAND...	passes when the command does
#	pass NAME, fail NAME, skip NAME WHY
#	diag TEXT...		a note on standard error
#	note TEXT...		a note on standard output
#	done_testing		the plan, last; a script that ends before it
#				has no plan and so counts as a failure
tap_count=0
tap_failed=0

diag()
{
	printf '%s\n' "$*" | sed 's/^/# /' >&2
}

note()
{
	printf '%s\n' "$*" | sed 's/^/# /'
}

pass()
{
	tap_count=$((tap_count + 1))
	printf 'ok %d - %s\n' "$tap_count" "$1"
}

fail()
{
	tap_count=$((tap_count + 1))
	tap_failed=$((tap_failed + 1))
	printf 'not ok %d - %s\n' "$tap_count" "$1"
	diag "failed: $1 (${0##*/} line $(tap_line))"
}

# The line of the test script itself that led here.
tap_line()
{
	local i

	for ((i = ${#BASH_SOURCE[@]} - 1; i > 0; i--)); do
		if [ "${BASH_SOURCE[i]}" = "$0" ]; then
			echo "${BASH_LINENO[i - 1]}"
			return
		fi
	done
}

skip()
{
	tap_count=$((tap_count + 1))
	printf 'ok %d - %s # SKIP %s\n' "$tap_count" "$1" "$2"
}

ok()
{
	local name=$1 status=0

	shift
	"$@" || status=$?
	if [ "$status" = 0 ]; then
		pass "$name"
	else
		fail "$name"
		diag "status $status of: $*"
	fi
}

is()
{
	if [ "$1" = "$2" ]; then
		pass "$3"
	else
		fail "$3"
		diag " got: $1"
		diag "want: $2"
	fi
}

like()
{
	if [[ $1 =~ $2 ]]; then
		pass "$3"
	else
		fail "$3"
		diag "     got: $1"
		diag "no match: $2"
	fi
}

unlike()
{
	if [[ $1 =~ $2 ]]; then
		fail "$3"
		diag "  got: $1"
		diag "match: $2"
	else
		pass "$3"
	fi
}

# at_most GOT LIMIT NAME, whole numbers; at_least likewise.
at_most()
{
	if [ "$1" -le "$2" ]; then
		pass "$3"
	else
		fail "$3"
		diag "got $1, at most $2"
	fi
}

at_least()
{
	if [ "$1" -ge "$2" ]; then
		pass "$3"
	else
		fail "$3"
		diag "got $1, at least $2"
	fi
}

done_testing()
{
	printf '1..%d\n' "$tap_count"
	[ "$tap_failed" = 0 ]
}
