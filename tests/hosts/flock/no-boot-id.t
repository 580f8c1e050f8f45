#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Hosts are told apart by their boot id (DESIGN L3).  Where that cannot be read, as
# with systemd's ProcSubset=pid, two hosts of one image would take each other's
# locks by proof of death: so nothing is locked, unless host_id tells them apart.
. "${0%/*}/../../lib/rig.sh"

PID_ONLY='mount -t proc -o subset=pid proc /proc && exec "$@"'

# hidden HOST COMMAND...: with no boot id to be read
hidden()
{
	local h=$1

	shift
	dl "$h" unshare -m sh -c "$PID_ONLY" sh "$@"
}

host_of()
{
	token_of "$1" | cut -d ' ' -f 3
}

rig_start disks
rig_configs ttl=60s timeout=300ms
sed -i '/^host_id/d' "$RIG/A.conf"
hidden A flock -n f true 2>"$RIG/err"
is $? 71 'flock(2) without a boot id: ENOLCK'
like "$(cat "$RIG/err")" '/f".*nothing tells this host from others: .*host_id' \
	'... and it is said why, and what to do'
ok '... and nothing is left at Redis' lease_is_gone f
hidden A python3 -c 'import fcntl
f = open("f", "w")
try:
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError as e:
    print(e.errno)' >"$RIG/out" 2>/dev/null
is "$(cat "$RIG/out")" 37 'fcntl(2): ENOLCK'
ok 'the kernel has nothing of it' on A flock -n f true

hidden A "$BUILD/dlockctl" lock key -- echo ran >"$RIG/out" 2>"$RIG/err"
is $? 78 'dlockctl lock: no lease'
is "$(cat "$RIG/out")" '' '... and the command is not run'
like "$(cat "$RIG/err")" 'nothing tells this host from others: .*host_id' \
	'... which is said as well'
is "$(rr exists key)" 0 '... and nothing is left at Redis'

peer b hidden B flock f sh -c 'echo has it; read -r _'
hear b 30
is "$HEARD" 'has it' 'with a host_id it is granted'
is "$(host_of f)" unknown:B '... by that name'
ok '... and no other host has it' eval '! dl A flock -n f true'
peer_end b
rig_end
