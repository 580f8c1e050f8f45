# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# The ways in which jobs have a lock:	. tests/lib/idioms.sh, after rig.sh.  Each
# runs $work $f under the lock of $f, and is given to `bash -c`.
# shellcheck disable=SC2016 # the jobs' shells expand these
# shellcheck disable=SC2034 # the caller's
declare -A IDIOM=(
	[shell]='exec 9>$f; flock 9; $work $f'
	[close]='flock -o $f sh -c "$work $f"'
	[python]='/usr/bin/python3 -c "import fcntl, subprocess, sys
with open(sys.argv[1], \"w\") as f:
    fcntl.flock(f, fcntl.LOCK_EX)
    subprocess.run(sys.argv[2:])" $f $work $f'
	[record]='/usr/bin/python3 -c "import fcntl, subprocess, sys
f = open(sys.argv[1], \"w\")
fcntl.lockf(f, fcntl.LOCK_EX, 10, 5)
subprocess.run(sys.argv[2:])" $f $work $f'
)

owned()
{
	[ -s "$RIG/$1.owned" ]
}

# others_get BEFORE SECONDS NAME...: programs of B wait for the locks of these, which A
# has; then what is before A's server (proxy p) hangs, and each is owned by SECONDS, so
# says a line that begins with BEFORE; since when is in $RIG/NAME.owned
others_get()
{
	local before=$1 seconds=$2 name

	shift 2
	for name; do
		dl B /usr/bin/python3 "$RIG/own.py" "$name" "$BIN/now" \
			>"$RIG/$name.owned" &
	done
	say p hang
	hear p
	for name; do
		ok "$before$name: the other host has it" \
			until_true "$seconds" owned "$name"
	done
}

has_worked()
{
	[ -s "$RIG/$1.worked" ]
}

# How long after the other host had it who held it worked last, ms; < 0: before
last_work()
{
	echo $((($(tail -n 1 "$RIG/$1.worked") - $(<"$RIG/$1.owned")) / 1000000))
}

works_beside()
{
	[ "$(last_work "$1")" -gt 0 ]
}

# $RIG/own.py waits for the lock of its argument, and runs the rest.
make_owner()
{
	cat >"$RIG/own.py" <<-END
	import fcntl, subprocess, sys
	f = open(sys.argv[1], "w")
	(fcntl.lockf if sys.argv[1].startswith("record") else fcntl.flock)(
	    f, fcntl.LOCK_EX)
	subprocess.run(sys.argv[2:])
	END
}
