#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Masters that answer a renewal by an error: what is said of a lease that is not
# renewed has their own words, and what to do (as of a single server,
# server/errors-are-named.t).
RIG_MODE=quorum
. "${0%/*}/../../lib/rig.sh"

cannot_save()
{
	[[ $(m "$1" info persistence) == *rdb_last_bgsave_status:err* ]]
}

rig_start disks
for i in 2 3; do
	master_kill "$i"
	mkdir "$RIG/dir$i"
	master_up "$i" --dir "$RIG/dir$i"
done
rig_configs ttl=9s timeout=3s path_more='on_lost = "report"'
export DLOCK_LOG=warning
locker a dl A
ask a 'open a f'
ask a 'lock a EX'
is "$RESULT" 0 'a lock is held'
ok '... by all' until_true 5 has_votes f 3
for i in 2 3; do
	rmdir "$RIG/dir$i"
	m "$i" set something 1 >/dev/null
	m "$i" config set save '3600 1' >/dev/null
	m "$i" bgsave >/dev/null
	ok "master $i cannot save" until_true 5 cannot_save "$i"
done
ok 'it is warned of, or lost' until_true 20 grep -q 'masters answered, 2 must' "$RIG/a.err"
ok '... and why is said' until_true 20 \
	grep -q 'MISCONF.*see its log, and its disk' "$RIG/a.err"
note "$(cat "$RIG/a.err")"
for i in 2 3; do
	m "$i" config set save '' stop-writes-on-bgsave-error no >/dev/null
	m "$i" del something >/dev/null
done
peer_end a
rig_end
