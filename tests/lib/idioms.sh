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
