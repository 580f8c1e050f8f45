# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Test Anything Protocol, as little of it as the tests need.
#
#	is GOT WANT NAME, like GOT REGEX NAME, unlike GOT REGEX NAME
#	ok NAME COMMAND...	passes when the command does
#	in_time MS LIMIT NAME [PART], in_time_us US ...
#				a duration, that has just ended, is within LIMIT;
#				within_us US LIMIT is only true or false
#	often GOT WANT NAME MS	so much was done in MS, that have just ended
#	pass NAME, fail NAME, skip NAME WHY
#	diag TEXT...		a note on standard error
#	note TEXT...		a note on standard output
#	done_testing		the plan, last; a script that ends before it
#				has no plan and so counts as a failure
#
# in_time and often are held against the machine of the same moments: a limit
# grows by the time in which a process waited for a core (proc(5), pressure/cpu),
# and what was to be done shrinks by it.  But the limit grows by twenty times its
# PART at most, which is what of it is not the clock's (all of it by default),
# and a tenth has to be done in any case; on a quiet machine neither moves.
#
# A script that reads this has no descriptors but its own: none of those that
# its caller has open, as flock(1) has, and which a program would hand on.
tap_count=0
tap_failed=0
tap_marks=() # "TIME STALLED", us, of each assertion

tap_close_inherited()
{
	local fd

	for fd in /proc/"$$"/fd/*; do
		fd=${fd##*/}
		# (255 is where bash reads the script.)
		[ "$fd" -le 2 ] || [ "$fd" = 255 ] || exec {fd}>&-
	done
}
tap_close_inherited

diag()
{
	note "$@" >&2
}

note()
{
	local text=$*

	printf '# %s\n' "${text//$'\n'/$'\n# '}"
}

# The microseconds in which somebody waited for a core, since boot.
tap_stalled()
{
	local line

	TAP_STALLED=0
	[ -r /proc/pressure/cpu ] || return 0
	read -r line </proc/pressure/cpu
	TAP_STALLED=${line##*total=}
}

tap_mark()
{
	tap_stalled
	tap_marks+=("${EPOCHREALTIME/[.,]/} $TAP_STALLED")
}

# tap_since US: since the last assertion that is older: TAP_US, of which somebody
# waited for TAP_STALLED
tap_since()
{
	local now=${EPOCHREALTIME/[.,]/} i mark=0 was=0

	tap_stalled
	for ((i = ${#tap_marks[@]} - 1; i >= 0; i--)); do
		read -r mark was <<<"${tap_marks[i]}"
		[ $((now - mark)) -lt "$1" ] || break
	done
	TAP_US=$((now - mark))
	TAP_STALLED=$((TAP_STALLED - was))
}

# tap_allow US PART: by how much PART, in us, has grown in the last US: TAP_MORE
tap_allow()
{
	TAP_MORE=0
	tap_since "$1"
	TAP_MORE=$((TAP_STALLED < 20 * $2 ? TAP_STALLED : 20 * $2))
}

# within_us US LIMIT [PART]: the same, no assertion of its own.  What is no number,
# for who was to say it is dead, is not.
within_us()
{
	TAP_MORE=0
	[ "$1" -gt "$2" ] || { [ "$1" -le "$2" ]; return; }
	tap_allow "$1" "${3-$2}"
	[ "$1" -le $(($2 + TAP_MORE)) ] || return 1
	note "$1 us, of $2: somebody waited for a core for $TAP_MORE"
}

in_time_us()
{
	if within_us "$1" "$2" "${4-$2}"; then
		pass "$3"
	else
		fail "$3"
		diag "got $1 us, at most $2, and $TAP_MORE for a busy machine"
	fi
}

in_time()
{
	in_time_us "${1:+${1}000}" $(($2 * 1000)) "$3" $((${4-$2} * 1000))
}

often()
{
	local want

	tap_since $(($4 * 1000))
	want=$(($2 * (TAP_US - TAP_STALLED) / TAP_US))
	at_least "$1" $((want > $2 / 10 ? want : $2 / 10)) "$3"
}

pass()
{
	tap_mark
	tap_count=$((tap_count + 1))
	printf 'ok %d - %s\n' "$tap_count" "$1"
}

fail()
{
	tap_mark
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
	tap_mark
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
