#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# Until their step comes, record locks on a managed path are refused (ENOLCK,
# one log line), never silently unlocked; elsewhere they are the kernel's.
. "${0%/*}/../lib/rig.sh"

# refused NAME COMMAND
refused()
{
	local lines

	locker g dl A
	ask g 'open a f'
	ask g "$2"
	is "$RESULT" ENOLCK "$1: ENOLCK"
	lines=$(grep -c . "$RIG/g.err")
	is "$lines" 1 "$1: one log line"
	like "$(cat "$RIG/g.err")" "^dlock: .*$MNT/f" "$1: it names the path"
	ask g 'lock a EX NB'
	is "$RESULT" 0 "$1: flock works after"
	peer_end g
	rig_empty 6 "$1: no key is left"
}

# kernel NAME COMMAND: on an unmanaged path as bare
kernel()
{
	local run bare=''

	for run in on dl; do
		locker g "$run" A
		locker h "$run" A
		ask g "open a $RIG/unmanaged"
		ask h "open a $RIG/unmanaged"
		ask g "$2"
		first=$RESULT
		ask h "$2"
		if [ "$run" = on ]; then
			bare="$first $RESULT"
		else
			is "$first $RESULT" "$bare" "$1, unmanaged: as bare"
			is "$(cat "$RIG/g.err")" '' "$1, unmanaged: no log line"
		fi
		peer_end g
		peer_end h
	done
}

rig_start disks
refused 'fcntl(F_SETLK, F_WRLCK)' 'record a F_WRLCK'
refused 'fcntl(F_SETLK, F_RDLCK)' 'record a F_RDLCK'
refused 'fcntl(F_OFD_SETLK, F_WRLCK)' 'record a F_WRLCK OFD'
refused 'fcntl(F_OFD_SETLK, F_RDLCK)' 'record a F_RDLCK OFD'
refused 'lockf(F_TLOCK)' 'lockf a'
kernel 'fcntl(F_SETLK)' 'record a F_WRLCK'
kernel 'fcntl(F_OFD_SETLK)' 'record a F_WRLCK OFD'
kernel 'lockf(F_TLOCK)' 'lockf a'
rig_end
