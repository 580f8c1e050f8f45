#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A password that a user cannot read takes from him what its rules manage, and
# nothing else; a group may read it.  A configuration that others may write is
# not used for root.
. "${0%/*}/../../lib/rig.sh"

DLOCK=$BUILD/dlock
CTL=$BUILD/dlockctl
NOBODY=65534

rig_start disks
rr acl setuser vip on '>pw' '~*' '&*' '+@all' >/dev/null
for h in A B; do
	on $h mkdir open closed other
	on $h chown $NOBODY open closed other
	on $h chmod 755 .
done
chmod 755 "$RIG"
printf 'pw\n' >"$RIG/pass"
chmod 600 "$RIG/pass"

# config OPTION...: of the second Redis
config()
{
	cat >"$RIG/A.conf" <<-END
	redis "main" { url = "redis://127.0.0.1:$PORT" restart_delay = "0s" }
	redis "vip" {
	    url = "redis://127.0.0.1:$PORT"
	    username = "vip"
	    password_file = "$RIG/pass"
	    restart_delay = "0s"
	}
	path "$MNT/open/" { redis = "main" }
	path "$MNT/closed/" { redis = "vip" }
	END
	sed '1i host_id = "B"' "$RIG/A.conf" >"$RIG/B.conf"
	chmod 644 "$RIG/A.conf" "$RIG/B.conf"
}

# user HOW HOST CMD...: as nobody
user()
{
	local how=$1 h=$2

	shift 2
	"$how" "$h" setpriv --reuid $NOBODY --regid $NOBODY --clear-groups "$@"
}

# locks WHERE: what nobody's program is told, and what it says
locks()
{
	peer one user dl A "$BIN/locker"
	ask one "open f $1/f"
	ask one 'lock f EX NB'
	ERR=$(cat "$RIG/one.err")
	KEYS=$(rr keys '*')
	peer_end one
	until_true 5 db_is_empty # (its keeper may see to that)
}

config
is "$(dl A flock closed/r redis-cli -p "$PORT" keys '*')" \
	"dlock:$MNT/closed/r" 'root has the password, and the lock (control)'
ok '... until it ends' until_true 5 lease_is_gone closed/r
locks other
is "$RESULT $KEYS $ERR" '0  ' 'no rule: a lock is as ever'
locks open
is "$RESULT $KEYS $ERR" "0 dlock:$MNT/open/f " 'another Redis: locked there'
locks closed
is "$RESULT $KEYS" 'ENOLCK ' 'a rule of that Redis: ENOLCK'
like "$ERR" "$MNT/closed/f.*\"vip\" at .*A.conf:5: option 'password_file' of \
redis \"vip\": \"$RIG/pass\" cannot be read: Permission denied" \
	'and the line says which path, Redis, file and why'
status=0
ERR=$(user on A "$DLOCK" run -c "$RIG/A.conf" true 2>&1) || status=$?
is "$status" 78 'dlock run: 78'
like "$ERR" "$RIG/pass\" cannot be read: Permission denied" 'it says why'
like "$(user on A "$CTL" -c "$RIG/A.conf" explain closed/f)" \
	"fault .*pass\" cannot be read: Permission denied" 'explain tells it'
status=0
# shellcheck disable=SC2016 # the inner shell's
OUT=$(dl B flock open/g sh -c 'setpriv --reuid 65534 --regid 65534 \
	--clear-groups "$0" -c "$1" list' "$CTL" "$RIG/A.conf" 2>&1) ||
	status=$?
like "$status $OUT" "78 .*open/g.*EX" 'list shows what the others have'
ok '... until it is released' until_true 5 lease_is_gone open/g

chmod 640 "$RIG/pass"
chgrp $NOBODY "$RIG/pass"
locks closed
is "$RESULT $KEYS $ERR" "0 dlock:$MNT/closed/f " '0640 and its group: locked'
ERR=$(user on A "$DLOCK" run -c "$RIG/A.conf" true 2>&1)
is "$ERR" '' 'and nothing is wrong with that'

# --- who may write the configuration ----------------------------------------

# refused NAME REASON: by root's programs; and nobody is warned
refused()
{
	local name=$1 reason=$2 err status=0

	err=$(dl A flock -n open/f echo runs 2>&1)
	like "$err" "ENOLCK.*A.conf: $reason .*not used for root" \
		"$name: root's lock fails, with the reason"
	unlike "$err" '(^|[[:space:]])runs' "$name: nothing runs"
	err=$(on A "$DLOCK" run -c "$RIG/A.conf" true 2>&1) || status=$?
	like "$status $err" "^78 .*A.conf: $reason" "$name: dlock run: 78"
	locks open
	is "$RESULT" 0 "$name: nobody's lock is granted"
	err=$(user on A "$DLOCK" run -c "$RIG/A.conf" echo runs 2>&1)
	if [ "$4" = warned ]; then
		like "$err" "warning: .*A.conf: $3" "$name: nobody is warned"
	else
		is "$err" runs "$name: to nobody it is his own"
	fi
}

is "$(dl A flock -n open/f echo runs 2>&1)" runs 'mode 644, of root: used'
chmod 646 "$RIG/A.conf"
refused '646' 'may be written by everybody' 'may be written by' warned
chmod 664 "$RIG/A.conf"
is "$(dl A flock -n open/f echo runs 2>&1)" runs "mode 664, root's group: used"
chgrp 7 "$RIG/A.conf"
refused 'group 7, 664' 'may be written by its group' 'may be written' warned
chmod 644 "$RIG/A.conf"
chown $NOBODY "$RIG/A.conf"
refused 'of nobody' 'belongs to another user' '' his
is "$(dl A unshare -Ur flock -n open/f echo runs 2>&1)" runs \
	'in a user namespace its owner cannot be told: used'
rig_end
