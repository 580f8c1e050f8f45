#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# credentials = "helper": the password is not in the memory of a program that
# locks, of its child or of its keeper, by TCP, by a socket and by TLS; locks,
# waits and tools do as ever.  A wrong password is told of as without it, and a new
# one counts from the next connection on.
# shellcheck disable=SC2119,SC2016 # no options; the inner shell's
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/memory.sh"
. "${0%/*}/../../lib/tls.sh"
. "${0%/*}/../../lib/credentials.sh"

# fails HOST: what its lock says, but for the number of its process
fails()
{
	dl "$1" flock -n f true 2>&1 | sed 's/\[[0-9]*\]/[]/g; s/host B/host A/'
}

rig_start disks
user_up
by_program A
password_is yes 'control: credentials of the program' f

by_helper A
by_helper B
password_is no 'TCP' f

locker one dl A
ask one 'open f f'
ask one 'lock f EX'
locker two dl B
ask two 'open f f'
say two 'lock f EX'
queued()
{
	[ "$(rr exists "{dlock:$MNT/f}%q")" = 1 ]
}
ok 'another host waits' until_true 5 queued
has_password "$(pids_of A -o -x dlock-tls)" no 'the helper forgets it when it has logged in'
is "$(on A cat "/proc/$(on A pgrep -o -x dlock-tls)/limits" |
	awk '/core file/ { print $5 }')" 0 '... and dumps no core'
ask one 'lock f UN'
hear two
is "$RESULT" 0 '... and has it'
ask two 'lock f UN'
peer_end two

# The password is changed, and the connections end.
old=$password
new_password
(umask 077 && echo "$password" >"$RIG/pass")
rr acl setuser dlock resetpass ">$password" >/dev/null
rr client kill user dlock >/dev/null
ask one 'lock f EX'
is "$RESULT" 0 'a new password: the next connection has it'
pid=$(pids_of A -o -x locker)
is "$(stands "$pid") $(stands "$pid" "$old")" '0 0' \
	'... and the program neither'
peer_end one

echo wrong >"$RIG/pass"
by_program B
helped=$(fails A)
like "$helped" 'WRONGPASS .*see username and password_file.*ENOLCK' 'a wrong one: why'
is "$helped" "$(fails B | sed 's/host B/host A/')" \
	'... in the same words as without a helper'
rm "$RIG/pass"
like "$(fails A)" "password_file $RIG/pass cannot be read: No such.*ENOLCK" \
	'no file: it is named'
(umask 077 && echo "$password" >"$RIG/pass")
chmod 755 "$RIG"
like "$(dl A setpriv --reuid 65534 --regid 65534 --clear-groups flock -n / true \
	2>&1)" '^$' 'a user who may not read it: other files are as ever'
on A chmod 777 .
like "$(dl A setpriv --reuid 65534 --regid 65534 --clear-groups flock -n g true \
	2>&1)" "$RIG/pass cannot be read: Permission.*ENOLCK" '... those of it are not'

CTL=$BUILD/dlockctl
locker one dl A
ask one 'open f f'
ask one 'lock f EX'
like "$(on A "$CTL" -c "$RIG/A.conf" list)" '/f ' 'dlockctl list logs in so, too'
ask one 'lock f UN'
peer_end one
on A mkdir p
like "$(DLOCK_CONFIG=$RIG/A.conf on A "$BUILD/dlock" run --path "$MNT/p/" \
	sh -c 'cat "$DLOCK_CONFIG"')" "password_file = '$RIG/pass'.*credentials" \
	'dlock run --path has it so'

rig_config A url="unix://$RIG/redis.sock" redis_more="username = \"dlock\"
	password_file = \"$RIG/pass\"
	credentials = \"helper\""
password_is no 'a socket' f
rig_empty

tls_up
user_up
tls_config A "ca_file = \"$TLS/ca.pem\"" 'server_name = "redis.test"' \
	'username = "dlock"' "password_file = \"$RIG/pass\"" \
	'credentials = "helper"'
password_is no 'TLS' f
rig_end
