#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# credentials = "helper" with three masters: a helper logs in to each, and no
# program has the password.
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/memory.sh"
. "${0%/*}/../../lib/credentials.sh"

# (Three helpers begin at once: they are to be heard, whoever has the cores.)
CONFIG_MORE=(ttl=60s connect_timeout=10s timeout=30s)

rig_start disks
user_up
by_program A
password_is yes 'control: credentials of the program' f
by_helper A
password_is no 'three masters' f
by_helper B
locker far dl B
ask far 'open a f'
ask far 'lock a EX'
is "$RESULT" 0 'another host: locked'
by_user()
{
	m "$1" client list | grep -q 'name=dlock-[0-9]* .*user=dlock '
}
for i in 1 2 3; do
	ok "... as that user at master $i" until_true 5 by_user "$i"
done
like "$(on A "$BUILD/dlockctl" -c "$RIG/A.conf" list)" '/f ' 'dlockctl list shows it'
ask far 'lock a UN'
peer_end far
rig_end
