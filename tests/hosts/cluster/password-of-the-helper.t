#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# credentials = "helper" in a Redis Cluster: each node is logged in to by a helper,
# also one that others told of, and no program has the password.
RIG_MODE=cluster NODE_TIMEOUT=15000 # no node fails here
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/memory.sh"
. "${0%/*}/../../lib/credentials.sh"

# (Three helpers begin at once: they are to be heard, whoever has the cores.)
CONFIG_MORE=(ttl=60s connect_timeout=10s timeout=30s)

# Every master is asked by somebody: files in the slots of each.
locks_at_each()
{
	local i n=0 file

	locker holder dl A
	for ((i = 0; n < 3 && i < 60; i++)); do
		file=x$i
		[ "$(owner_of "$(slot_of "$(key_of $file)")")" = $((n + 1)) ] ||
			continue
		n=$((n + 1))
		ask holder "open $file $file"
		ask holder "lock $file EX"
		is "$RESULT" 0 "a lock at node $n"
		ok "... as that user" \
			grep -q 'name=dlock-[0-9]* .*user=dlock ' <<<"$(m "$n" client list)"
	done
}

rig_start disks
user_up
# The default one may nothing any more that is about a key.
r acl setuser default -@scripting >/dev/null
by_program A
password_is yes 'control: credentials of the program' f
by_helper A
password_is no 'a cluster' f
locks_at_each
has_password "$(pids_of A -o -x locker)" no '... and the program has no password'
like "$(on A "$BUILD/dlockctl" -c "$RIG/A.conf" list)" '/x[0-9]* ' 'dlockctl list shows them'
peer_end holder
rig_end
