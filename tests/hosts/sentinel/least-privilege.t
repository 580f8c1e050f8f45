#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Least privilege with Sentinels: the user of dlock.conf(5) at the servers, and the
# one that it has for the Sentinels, suffice, also in a failover; without any one
# word of the latter something is refused.
RIG_MODE=sentinel
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"
. "${0%/*}/../../lib/privileges.sh"

# The second user of dlock.conf(5).
sentinel_acl()
{
	sed -n '/^At each Sentinel/,/^\.Ed/p' "$TOP/config/dlock.conf.5" |
		sed -n '/^ACL SETUSER/,/^\.Ed/p' | grep -v '^\.Ed' |
		tr -d '\\\n' | sed 's/&&/\&/g; s/>PASSWORD/>x/'
}

at_sentinels()
{
	local i

	for i in 1 2 3; do
		s "$i" "$@"
	done
}

refused_by_sentinels()
{
	at_sentinels acl log | awk '
		$0 == "object" { getline; what = $0 }
		$0 == "username" { getline; print $0, what }'
}

any_refused()
{
	[ -n "$(refused_by_sentinels)" ]
}

listened_to()
{
	at_sentinels client list type pubsub | grep -q 'user=dlock '
}

rig_start disks
user_of_manual dlock
read -ra words <<<"$(sentinel_acl)"
note "at the Sentinels: ${words[*]}"
is "$(at_sentinels "${words[@]}" | sort | uniq -c | xargs)" '3 OK' \
	'the user of dlock.conf(5) for the Sentinels'
at_sentinels acl log reset >/dev/null
# (A lease outlives a failover of a busy machine.)
rig_configs ttl=9s connect_timeout=1500ms restart_delay=1s timeout=20s \
	redis_more="username = \"dlock\"
		password_file = \"$RIG/pass\"
		sentinel_username = \"dlock\"
		sentinel_password_file = \"$RIG/pass\""
until_true 5 masters_are_old 3
does_everything

locker a dl A
ask a 'open f f'
ask a 'lock f EX'
ok 'who holds a lock listens to a Sentinel' until_true 5 listened_to
failover
ask a 'lock f UN'
ask a 'lock f EX' 30
is "$RESULT" 0 'after a failover: locked'
peer_end a
nothing_refused 'a failover'
is "$(refused_by_sentinels)" '' 'no Sentinel has refused anything'

for word in 'sentinel|get-master-addr-by-name' subscribe; do
	at_sentinels acl setuser dlock "-$word" >/dev/null
	locker a dl A
	ask a 'open f f'
	ask a 'lock f EX' 30
	note "without $word: $RESULT"
	until_true 5 any_refused
	like "$(refused_by_sentinels)" \
		"dlock $word" "control: without $word that is refused"
	ask a 'lock f UN'
	peer_end a
	at_sentinels acl setuser dlock "+$word" >/dev/null
	at_sentinels acl log reset >/dev/null
done
like "$(redis-cli \
	-p "${SENTINEL_PORT[1]}" --no-auth-warning --user dlock --pass x \
	sentinel failover rig 2>&1)" NOPERM 'it may not fail the master over'
done_testing
