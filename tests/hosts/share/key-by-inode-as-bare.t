#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# By key = "...%i" two hosts on a share are to each other what two processes
# of one kernel are: files are renamed, linked, swapped, replaced and removed
# while they are locked, and each call is answered as it is on one host's disk.
. "${0%/*}/../../lib/rig.sh"

# play HOW P-HOST Q-HOST DIR STEP...: 'p LINE' and 'q LINE' are of the lockers,
# '!A COMMAND' is a shell's of host A.  (bindfs knows files by their paths: one
# that another host replaces becomes the new one for who has it open.  So who
# opens the new one, and has the old one, is of the host that replaces it.)
play()
{
	local how=$1 dir=$4 step

	locker p "$how" "$2"
	locker q "$how" "$3"
	shift 4
	for step; do
		case $step in
		\!*)
			on "${step:1:1}" sh -c "cd $dir && ${step#!? }"
			continue
			;;
		*' open '*)
			set -- "${step% *}" "${step##* }"
			ask "${step%% *}" "${1#* } $dir/$2"
			;;
		*)
			ask "${step%% *}" "${step#* }"
			;;
		esac
		echo "$step: $RESULT"
	done
	peer_end q p
}

# as_one TITLE STEP...
as_one()
{
	local title=$1

	shift
	rm -rf "$RIG/share/bare" "$RIG/share/dl" "$RIG/share/control"
	mkdir "$RIG/share/bare" "$RIG/share/dl" "$RIG/share/control"
	play on A A "$RIG/share/bare" '!A echo >f' "$@" >"$RIG/one"
	play dl A B "$MNT/dl" '!A echo >f' "$@" >"$RIG/two"
	play on A B "$MNT/control" '!A echo >f' "$@" >"$RIG/control"
	ok "$title: the oracle refuses something, and grants" \
		test "$(grep -c EAGAIN "$RIG/one")" -gt 0 -a \
		"$(grep -c ': 0' "$RIG/one")" -gt 0
	ok "$title: two hosts without dlock do otherwise (control)" \
		test -n "$(diff "$RIG/one" "$RIG/control")"
	if diff -u "$RIG/one" "$RIG/two" >"$RIG/diff"; then
		pass "$title: two hosts as one"
	else
		fail "$title: two hosts as one"
		diag "$(cat "$RIG/diff" "$RIG/p.err" "$RIG/q.err")"
	fi
	rig_empty 9 "$title: no key is left"
}

rig_start share
# What is held at the exit ends by its ttl, where nobody can open the file.
rig_configs ttl=6s path_more='key = "dlock:share:%i"'
as_one 'flock, renamed' 'p open a f' 'p lock a EX NB' '!B mv f g' \
	'q open a g' 'q lock a EX NB' 'q lock a SH NB' '!B mv g h' \
	'p lock a SH NB' 'q lock a SH NB' 'p lock a UN' 'q lock a EX NB' \
	'p lock a SH NB' 'p open b h' 'p lock b EX NB' 'q lock a UN' \
	'p lock b EX NB'
as_one 'flock, replaced' 'p open a f' 'p lock a EX NB' '!A echo >new' \
	'!A mv new f' 'q open a f' 'q lock a EX NB' 'p open b f' \
	'p lock b EX NB' 'q lock a UN' 'p lock b EX NB' 'p lock a UN' \
	'q lock a EX NB' 'p lock a EX NB' 'p lock b UN' 'q lock a EX NB'
as_one 'flock, removed and made anew' 'p open a f' 'q open a f' \
	'p lock a EX NB' '!B rm f' 'q lock a SH NB' '!B echo >f' 'q open b f' \
	'q lock b EX NB' 'p lock a UN' 'q lock a EX NB' 'q lock b UN'
as_one 'flock, swapped' '!B echo >g' 'p open a f' 'p lock a EX NB' \
	'!B mv f t; mv g f; mv t g' 'q open a f' 'q open b g' \
	'q lock a EX NB' 'q lock b EX NB' 'p lock a UN' 'q lock b EX NB'
as_one 'flock, another link' 'p open a f' 'p lock a SH NB' '!B ln f g; rm f' \
	'q open a g' 'q lock a EX NB' 'q lock a SH NB' 'p lock a EX NB' \
	'q lock a UN' 'p lock a EX NB'
as_one 'records, renamed' 'p open a f' 'p range a F_WRLCK 0 10' '!B mv f g' \
	'q open a g' 'q range a F_RDLCK 9 2' 'q range a F_WRLCK 10 10' \
	'p range a F_RDLCK 0 0' 'p open b g' 'p range b F_RDLCK 10 10' \
	'p range a F_UNLCK 5 5' 'q range a F_WRLCK 5 5' \
	'p range a F_WRLCK 4 2'
as_one 'records, replaced' 'p open a f' 'p range a F_WRLCK 0 10' \
	'!A echo >new; mv new f' 'q open a f' 'q range a F_WRLCK 5 10' \
	'p open b f' 'p range b F_RDLCK 14 1' 'p range b F_WRLCK 0 5' \
	'q range a F_WRLCK 0 1' 'q range a F_UNLCK 0 0' \
	'p range b F_RDLCK 14 1'
as_one 'OFD, another link' 'p open a f' 'p range a F_WRLCK 0 10 OFD' \
	'!B ln f g; rm f' 'q open a g' 'q range a F_RDLCK 9 1 OFD' \
	'p range a F_RDLCK 0 0 OFD' 'q range a F_RDLCK 0 10 OFD' \
	'p range a F_WRLCK 3 1 OFD' 'q range a F_UNLCK 0 0 OFD' \
	'p range a F_WRLCK 3 1 OFD'

# The stated limit: by two links, each a file of its own to the kernel (FUSE),
# a process is refused its own record locks, at once and with a line.
on A sh -c 'echo >f; ln f g'
locker p dl A
ask p 'open a f'
ask p 'open b g'
ask p 'range a F_WRLCK 0 10'
ask p 'range b F_WRLCK 5 1'
is "$RESULT" EAGAIN 'by two links on FUSE: a process and its own bytes'
ask p 'range b F_WRLCK 5 1 WAIT'
is "$RESULT" EDEADLK 'and a wait for them'
ok 'it is said' grep -q 'itself holds the key' "$RIG/p.err"
ask p 'range b F_WRLCK 10 1'
is "$RESULT" 0 'other bytes are granted'
peer_end p
rig_end
