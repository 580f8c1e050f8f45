#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A line reaches somebody: where standard error is closed or /dev/null, as
# under cron, it goes to the system log, by a name, a number and a level that a
# syslogd takes (RFC 3164); what is wrong with DLOCK_LOG is said; debug tells of
# each grant, wait, release and hand-over.
. "${0%/*}/../../lib/rig.sh"

# A /dev of the host's own, with a syslogd (busybox) behind its /dev/log.
start_syslogd()
{
	mkdir "$RIG/dev"
	# shellcheck disable=SC2016 # the inner shell's
	on A sh -c '
		mount -t tmpfs dev "$1" && cd "$1" &&
		mknod -m 666 null c 1 3 && mknod -m 666 zero c 1 5 &&
		mknod -m 666 random c 1 8 && mknod -m 666 urandom c 1 9 &&
		mount --bind "$1" /dev' sh "$RIG/dev" || return 1
	peer syslogd on A busybox syslogd -n -O "$RIG/syslog"
	until_true 5 is_logging
}

is_logging()
{
	on A busybox logger hello && grep -q hello "$RIG/syslog"
}

logged()
{
	grep -Eq "$1" "$RIG/syslog"
}

said_nothing()
{
	! grep -v -e hello -e syslogd "$RIG/syslog" | grep -q .
}

# Redis does not answer: an error line.
fails()
{
	dl A sh -c "exec $1 flock -n f true"
	: # flock(1)'s own status is of no interest
}

rig_start disks
rig_config A url="unix://$RIG/no.sock" timeout=200ms
ok 'a syslogd listens at /dev/log' start_syslogd

fails "2>$RIG/err"
like "$(cat "$RIG/err")" 'dlock: flock .*fails with ENOLCK' \
	'standard error is a file: the line goes there (control)'
ok '... and to no syslogd' said_nothing
fails '2>/dev/null'
ok 'standard error is /dev/null: the system log has it' \
	until_true 5 logged ' daemon\.err flock\[[0-9]+\]: dlock: flock "'
: >"$RIG/syslog"
fails '2>&-'
ok 'standard error is closed: the system log has it' \
	until_true 5 logged ' daemon\.err flock\[[0-9]+\]: dlock: flock "'

# A warning has the level of one.
rig_config A
dl A env DLOCK_LOG=chatty sh -c 'flock f true 2>/dev/null'
ok 'a warning has its own level' until_true 5 logged \
	' daemon\.warn flock\[[0-9]+\]: dlock: DLOCK_LOG'
dl A env DLOCK_LOG=chatty flock f true 2>"$RIG/err"
like "$(cat "$RIG/err")" 'DLOCK_LOG=chatty: its level is none of error' \
	'an unknown level is said'
is "$(grep -c DLOCK_LOG "$RIG/err")" 1 '... once'
dl A env DLOCK_LOG=chatty true 2>"$RIG/err"
is "$(cat "$RIG/err")" '' '... and not by who locks nothing'
like "$(on A env DLOCK_LOG=chatty "$BUILD/dlock" run -c "$RIG/A.conf" -- \
	true 2>&1)" 'DLOCK_LOG=chatty: its level' '... but dlock run says it'
dl A env DLOCK_LOG=debug:here flock f true 2>"$RIG/err"
like "$(cat "$RIG/err")" 'its file is no absolute path' 'so is a relative file'

# --- debug ------------------------------------------------------------------

locker p dl B
ask p 'open f f'
rig_config A
peer q dl A env DLOCK_LOG="debug:$RIG/trace" "$BIN/locker"
ask q 'open f f'
ask q 'lock f EX'
ask p 'lock f SH NB'
is "$RESULT" EAGAIN 'debug: the other host is refused'
traced()
{
	grep -q "$1" "$RIG/trace"
}
ok '... and the keeper, too, writes to the file' \
	until_true 5 traced 'is carried on'
ok '... which is told when it says so' \
	until_true 5 traced 'the keeper.s to carry on'
ask q 'lock f UN'
ask p 'lock f EX'
say q 'range f F_WRLCK 5 5 WAIT'
hear q
say q 'lock f SH'
ok '... a wait is told of' until_true 5 traced 'waits in the queue'
ask p 'lock f UN'
hear q
ask q 'close f'
for what in 'granted EX' 'released' \
	'granted WRITE 5-9' 'waits in the queue for SH, held by' \
	'granted SH'; do
	ok "... \"$what\"" until_true 5 traced "$what"
done
peer_end p q
rig_end
