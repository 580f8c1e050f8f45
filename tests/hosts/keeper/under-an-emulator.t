#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Who emulates the machine makes a copy of memory that clone(2) shares
# (valgrind: CLONE_VM with CLONE_VFORK is a fork).  A keeper is started and
# known there, too, and a program's fork waits for that one only; it and its
# standby are one process group.
. "${0%/*}/../../lib/rig.sh"

keepers()
{
	on A pgrep -d, -f dlock-keeper
}

one_keeper()
{
	[ "$(on A ps -o pgid= -p "$(keepers)" | sort -u | wc -l)" = 1 ]
}

rig_start disks
rig_configs ttl=9s
cp_new locked goes
# shellcheck disable=SC2016 # sh's
peer a dl A /usr/bin/valgrind -q --tool=none --trace-children=yes \
	/usr/bin/flock f /bin/sh -c 'echo >"$1"; read -r x <"$2"; exit 7' sh \
	"$RIG/cp/locked" "$RIG/cp/goes"
ok 'a command is run under the lock' cp_wait locked
ok 'which one keeper guards' until_true 5 one_keeper
locker b dl B
ask b 'open x f'
ask b 'lock x EX NB'
is "$RESULT" EAGAIN 'the other host is refused'
cp_reach goes
peer_end a
is "$(cat "$RIG/a.err")" '' 'nothing is said'
ask b 'lock x EX'
is "$RESULT" 0 'and granted when the command has ended'
ask b 'lock x UN'
rig_end
