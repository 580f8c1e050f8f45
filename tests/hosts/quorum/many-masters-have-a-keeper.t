#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Fifteen masters, the most there may be: a keeper that is to carry a lease needs a
# connection to each, and has the descriptors for them.  So what a shell has locked
# outlives the program that took it, by more than two ttl.
export RIG_MODE=quorum N_MASTERS=15
. "${0%/*}/../../lib/rig.sh"

is_kept()
{
	! dl B flock -n f true
}

rig_start disks
rig_configs ttl=6s
# shellcheck disable=SC2016 # its own
peer s dl A bash -c 'exec 9>f; flock 9; echo $?; read -r _'
hear s 30
is "$HEARD" 0 'a shell has a lock'
ok 'a keeper has it, too' until_true 10 keepers A
ok 'and keeps the other host out' throughout 13000 10 is_kept
is "$(cat "$RIG/s.err")" '' 'nothing is said'
peer_end s
ok 'when the shell ends the other host is granted it' \
	until_true 10 dl B flock -n f true
rig_end
