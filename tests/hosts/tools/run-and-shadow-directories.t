#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# dlock run's directory is closed to all others, that of the shadows is open to
# every user: they are two, for root and for users, and neither harms the other.
. "${0%/*}/../../lib/rig.sh"

unset XDG_RUNTIME_DIR DLOCK_CONFIG
DLOCK=$BUILD/dlock
NOBODY=65534

rig_start disks
rig_config A path_more='local = "shadow"'
chmod 755 "$RIG"
chmod 644 "$RIG/A.conf"
on A chmod 1777 .

# fresh: /run is empty, as at boot
# The locks of the scene before have ended, for a shadow in another /run proves
# nothing of theirs.
fresh()
{
	until_true 10 db_is_empty || rig_die 'a lease is left'
	on A umount /run 2>/dev/null
	on A mount -t tmpfs run /run || rig_die 'no /run'
}

# tmpfiles: what systemd-tmpfiles(8) makes of our snippet
tmpfiles()
{
	local type path mode

	read -r type path mode _ < <(grep '^d' "$TOP/config/tmpfiles.conf")
	[ "$type" = d ] && on A install -d -m "$mode" "$path"
}

# run: dlock run's status, by root, and what it says
run()
{
	STATUS=0
	ERR=$(on A "$DLOCK" run --redis "redis://127.0.0.1:$PORT" \
		--path "$MNT/" true 2>&1) || STATUS=$?
	is "$STATUS $ERR" '0 ' "$1: dlock run works"
}

# shadow WHOM NAME: a lock by a shadow
shadow()
{
	local as=()

	[ "$1" = root ] || as=(setpriv --reuid "$NOBODY" --regid "$NOBODY"
		--clear-groups)
	is "$(dl A "${as[@]}" flock -n "f.$1" echo runs 2>&1)" runs \
		"$2: $1 locks by a shadow"
}

fresh
tmpfiles
shadow nobody 'from boot on'
run 'after the shadows'
shadow nobody 'after dlock run'
shadow root 'after dlock run'
is "$(on A stat -c '%a %u' /run/dlock)" '1777 0' 'the shared one is open'
is "$(on A stat -c '%a' /run/dlock/0 /run/dlock/$NOBODY | sort -u)" 700 \
	"a user's own in it is closed"

fresh
run 'first of all'
tmpfiles
shadow nobody 'after it'
shadow root 'after it'

# Root's program makes the shared one if nobody has, whatever its umask is;
# then users have that of their login.
fresh
on A mkdir -p /run/user/$NOBODY
on A chown $NOBODY /run/user/$NOBODY
on A chmod 700 /run/user/$NOBODY
umask 077
shadow root 'umask 077'
umask 022
is "$(on A stat -c '%a' /run/dlock)" 755 'the directory is not closed by it'
shadow nobody 'beside it'
ok "by the login's directory" on A test -d /run/user/$NOBODY/dlock

# Shadows out of use are removed; what dlock run has written is not.
user_run()
{
	on A env XDG_RUNTIME_DIR=/run/user/$NOBODY setpriv --reuid $NOBODY \
		--regid $NOBODY --clear-groups "$DLOCK" run \
		--redis "redis://127.0.0.1:$PORT" --path "$MNT/" "$@"
}
# shellcheck disable=SC2016 # the inner shell's
conf=$(user_run sh -c 'echo $DLOCK_CONFIG')
old_shadow=$(on A find /run/user/$NOBODY/dlock -type f -not -name .swept)
ok 'there is a shadow' on A test -f "$old_shadow"
on A find /run/user -type f -exec touch -d '-2 minutes' {} +
is "$(dl A setpriv --reuid $NOBODY --regid $NOBODY --clear-groups \
	flock -n another echo runs 2>&1)" runs 'another shadow is made'
ok 'the old one is removed (control)' on A test ! -e "$old_shadow"
ok 'the configuration of dlock run is there' on A test -e "$conf"
rig_end
