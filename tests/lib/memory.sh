# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
#
# How often a password, $password, stands in the memory of a process; after rig.sh.
#
#	new_password		one that stands nowhere else

new_password()
{
	password=secret-$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
}

# stands PID: how often the password is there; where, in $RIG/where
stands()
{
	/usr/bin/python3 "$TOP/tests/programs/memgrep.py" "$1" \
		<<<"${2-$password}" 2>"$RIG/where"
}

stands_in()
{
	/usr/bin/python3 "$TOP/tests/programs/memgrep.py" -f "$1" <<<"$2" \
		2>/dev/null
}

has_keeper()
{
	pids_of A -x dlock-keeper >/dev/null
}
