# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: MIT
#
# credentials = "helper", for rig.sh in each of its modes; after that and memory.sh.
#
#	user_up			a user at each server, whose $password is in $RIG/pass
#	by_helper HOST [LINE..]	its configuration: the helper has the password
#	by_program HOST [LINE...]  the same, and each program has it
#	password_is yes|no WHAT FILE  it is locked, by that user, in a program that has a
#				child and a keeper: whether the password is in them,
#				once in each endpoint

user_up()
{
	new_password
	(umask 077 && echo "$password" >"$RIG/pass")
	r acl setuser dlock on ">$password" '~*' '&*' '+@all' >/dev/null
}

credentials_config()
{
	local host=$1 more

	shift
	more=$(printf '%s\n' 'username = "dlock"' \
		"password_file = \"$RIG/pass\"" "$@")
	rig_config "$host" redis_more="$more" "${CONFIG_MORE[@]}"
}
CONFIG_MORE=()

by_program()
{
	credentials_config "$@"
}

by_helper()
{
	credentials_config "$@" 'credentials = "helper"'
}

# Those that are configured, and the master that Sentinels name.
endpoints()
{
	grep -c . <<<"$(grep -Eo '(redis|unix)://' "$RIG/A.conf"
		grep -o 'mode = "sentinel"' "$RIG/A.conf")"
}

# has_password PROCESS yes|no NAME.  (Who is about to begin has none yet, and who is
# amidst a login has it in what it sends, too.)
has_password()
{
	local n want=0

	[ "$2" = no ] || want=$(endpoints)
	if [ "$want" = 0 ]; then
		n=$(stands "$1")
	else
		until_true 5 stands_so_often "$1" "$want"
	fi
	is "$n" "$want" "$3"
	[ "$n" = "$want" ] || diag "$(cat "$RIG/where")"
}

# (n: its caller's)
stands_so_often()
{
	n=$(stands "$1")
	[ "$n" = "$2" ]
}

# child_of PARENT PID: its number here, that the host knows as PID (what will be a
# keeper is a child as well, for a moment)
child_of()
{
	local pid

	for pid in $(pgrep -P "$1"); do
		! grep -qs "^NSpid:.*[[:space:]]$2\$" "/proc/$pid/status" ||
			echo "$pid"
	done
}

# The server has connections of ours, by that user.
logged_in()
{
	r client list | tr -d '\r' | grep -q "name=dlock-[0-9]* .*user=dlock "
}

password_is()
{
	local has=$1 name=$2 file=$3 pid inner child

	locker holder dl A
	ask holder "open a $file"
	ask holder 'lock a EX'
	is "$RESULT" 0 "$name: locked"
	ok '... as that user' logged_in
	pid=$(pids_of A -o -x locker)
	has_password "$pid" "$has" "... is the password in the program? $has"
	ask holder fork
	inner=$RESULT
	child=$(child_of "$pid" "$inner")
	ok "$name: there is a keeper" until_true 5 has_keeper
	has_password "$(pids_of A -o -x dlock-keeper)" "$has" "... in the keeper? $has"
	has_password "$child" "$has" "... in the child? $has"
	ask holder "reap $inner"
	ask holder 'lock a UN'
	peer_end holder
	ok "$name: and all end" until_true 10 host_is_idle
}
