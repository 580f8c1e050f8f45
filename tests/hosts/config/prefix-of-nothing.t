#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A configuration that manages nothing is said to, by the first program that
# locks something and by dlock run; two prefixes of one place are an error.
. "${0%/*}/../../lib/rig.sh"

DLOCK=$BUILD/dlock
CTL=$BUILD/dlockctl

rig_start disks
on A mkdir there
on A ln -s there link

# config PATH-SECTION...: host A's, of one line each
config()
{
	{
		echo "redis \"main\" { url = \"redis://127.0.0.1:$PORT\"" \
			'restart_delay = "0s" }'
		printf '%s\n' "$@"
	} >"$RIG/A.conf"
}

# said NAME REGEX: what a program that locks there/f, and then g, says
said()
{
	local name=$1 text=$2 err

	peer one dl A "$BIN/locker"
	ask one 'open f there/f'
	ask one 'lock f EX'
	is "$RESULT" 0 "$name: the lock is local"
	ask one 'open g g'
	ask one 'lock g EX'
	peer_end one
	err=$(cat "$RIG/one.err")
	if [ -z "$text" ]; then
		is "$err" '' "$name: nothing is said"
		return
	fi
	like "$err" "$text" "$name: it is said"
	is "$(grep -c . <<<"$err")" 1 "$name: once"
	is "$(dl A true 2>&1)" '' "$name: not by a program that locks nothing"
}

# run NAME REGEX: what dlock run says
run()
{
	local err status=0

	err=$(on A "$DLOCK" run -c "$RIG/A.conf" sh -c 'exit 7' 2>&1) ||
		status=$?
	is "$status" 7 "$1: dlock run runs the command"
	if [ -z "$2" ]; then
		is "$err" '' "$1: and says nothing"
	else
		like "$err" "$2" "$1: and says so"
	fi
}

config "path \"$MNT/other/\" { }" "path \"$MNT/link/\" { }"
said 'one of two prefixes is there' ''
run 'one of two prefixes is there' ''
is "$(dl A flock -n link/f "$CTL" -c "$RIG/A.conf" --json list |
	jq -r '.locks[].key')" "dlock:$MNT/link/f" 'and it manages (control)'

config "path \"$MNT/theer/\" { }" "path \"$MNT/no/file\" { }"
said 'mistyped' "flock: not managed, .* $RIG/A.conf .*\"$MNT/.*line [23]"
run 'mistyped' "A.conf:2: path \"$MNT/theer/\" covers nothing that exists"
like "$(on A "$CTL" -c "$RIG/A.conf" explain there/f 2>&1)" \
	"A.conf:3: path \"$MNT/no/file\" covers nothing that exists" \
	'mistyped: explain says so as well'

config "path \"$MNT/there\" { }"
said 'a directory without its slash' "not managed, .*\"$MNT/there\""
run 'a directory without its slash' \
	"A.conf:2: path \"$MNT/there\" is a directory"

on A touch file
config "path \"$MNT/file/\" { }"
said 'a file with a slash' "not managed, .*\"$MNT/file/\""
run 'a file with a slash' "A.conf:2: path \"$MNT/file/\" .*no directory"

config "path \"$MNT/new.lock\" { }"
said 'a file to come, in a directory that is there' ''
run 'a file to come, in a directory that is there' ''

config
said 'no path section' "flock: not managed, for $RIG/A.conf has no path"
run 'no path section' "A.conf has no path section"

# --- two of one place -------------------------------------------------------

config "path \"$MNT/there/\" { key = \"a:%r\" }" '' \
	"path \"$MNT/link/\" { key = \"b:%r\" }"
both="A.conf:4: path \"$MNT/link/\" leads to the same place as path \
\"$MNT/there/\" in line 2, to \"$MNT/there/\""
peer one dl A "$BIN/locker"
ask one 'open f there/f'
ask one 'lock f EX'
is "$RESULT" ENOLCK 'two prefixes of one place: a lock fails'
peer_end one
like "$(cat "$RIG/one.err")" "$both" 'and the line names both'
status=0
err=$(on A "$DLOCK" run -c "$RIG/A.conf" true 2>&1) || status=$?
is "$status" 78 'dlock run: 78'
like "$err" "$both" 'and the line names both'
config "path \"$MNT/there/\" { }" "path \"$MNT/link\" { }"
is "$(dl A flock -n link/f echo runs)" runs \
	'a directory and the file of its name are two (control)'
rig_end
