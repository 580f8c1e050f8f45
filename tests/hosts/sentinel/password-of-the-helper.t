#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# credentials = "helper" with Sentinels: their password, and the master's, are the
# helpers'; a failover is followed, and who listens to Sentinels is logged in, too.
RIG_MODE=sentinel
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/memory.sh"
. "${0%/*}/../../lib/credentials.sh"

# (Three helpers begin at once: they are to be heard, whoever has the cores.)
CONFIG_MORE=(ttl=60s connect_timeout=10s timeout=30s)

# with HELPER|PROGRAM
with()
{
	"by_$1" A 'sentinel_username = "watcher"' \
		"sentinel_password_file = \"$RIG/watch\""
}

listened_to()
{
	for i in 1 2 3; do
		s "$i" client list type pubsub
	done | grep -q 'name=dlock-[0-9]* .*user=watcher '
}

rig_start disks
user_up
m 2 acl setuser dlock on ">$password" '~*' '&*' '+@all' >/dev/null
(umask 077 && echo "$password-of-them" >"$RIG/watch")
for i in 1 2 3; do
	s "$i" acl setuser watcher on ">$password-of-them" '~*' '&*' '+@all' \
		>/dev/null
done
# (What the Sentinels have begins alike.)
with program
password_is yes 'control: credentials of the program' f
with helper
password_is no 'Sentinels and a master' f

locker one dl A
ask one 'open f f'
ask one 'lock f EX'
is "$RESULT" 0 'a lock'
ok '... and a Sentinel is listened to, as that user' until_true 5 listened_to
failover
ask one 'lock f UN'
ask one 'lock f EX' 30
is "$RESULT" 0 'after a failover: locked'
ok '... as the user of the master' grep -q 'name=dlock-[0-9]* .*user=dlock ' \
	<<<"$(m "$MASTER" client list)"
has_password "$(pids_of A -o -x locker)" no '... and the program has no password'
ask one 'lock f UN'
peer_end one
echo wrong >"$RIG/watch"
with helper
like "$(dl A flock -n g true 2>&1)" \
	'WRONGPASS .see sentinel_username and sentinel_password_file.*ENOLCK' \
	'a wrong password of the Sentinels: which file'
# listed: "STATUS" and what dlockctl list says
listed()
{
	local status=0 said

	said=$(on A "$BUILD/dlockctl" -c "$RIG/A.conf" list 2>&1) || status=$?
	echo "$status $said"
}
like "$(listed)" '^77 .*not allowed: .*WRONGPASS' '... dlockctl is not allowed: 77'
rm "$RIG/watch"
like "$(listed)" "^78 .*$RIG/watch cannot be read: No such file" \
	'... and where there is none, it is the configuration: 78'
done_testing
