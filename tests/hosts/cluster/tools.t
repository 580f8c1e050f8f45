#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# dlockctl and a cluster: list finds the locks of all masters, each once; show,
# break and history ask the node that has the key; explain says which slot, and
# which node; doctor and stats look at all masters, and one that is away is told of;
# watch learns of each change.
RIG_MODE=cluster NODE_TIMEOUT=15000 # no node fails here
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

rig_start disks
rig_configs ttl=12s connect_timeout=2s restart_delay=12s
ok 'the nodes are old' until_true 20 masters_are_old 13
export DLOCK_LOG=warning:$RIG/log
locker a dl A
files=''
for i in a b c d e f g h; do
	ask a "open $i file$i"
	ask a "lock $i EX"
	files+="$RESULT "
done
is "$files" '0 0 0 0 0 0 0 0 ' 'eight locks'
ask a 'open r filea'
ask a 'range r F_WRLCK 0 10'
is "$RESULT" 0 '... and one of a range'
nodes=$(for i in a b c d e f g h; do
	owner_of "$(slot_of "$(key_of file$i)")"
done | sort -u | tr '\n' ' ')
is "$nodes" '1 2 3 ' '... at all three masters'

ctl_on A --json list
is "$STATUS $(json '.locks | length')" '0 9' 'list: all of them, each once'
is "$(json '[.locks[] | .note] | unique')" '[null]' '... and nothing to be said'
ctl_on A --json show "$MNT/filea"
is "$STATUS $(json '[.locks[].mode] | sort')" '0 ["EX","WRITE"]' \
	'show: the lease of the file, and the range, from two slots'
slot=$(slot_of "$(key_of filea)")
ctl_on A explain "$MNT/filea"
like "$OUT" "flock node +slot $slot, at 127.0.0.1:${MASTER_PORT[$(owner_of "$slot")]}" \
	'explain: which slot, and which node'
slot=$(slot_of "$(key_of filea)%rec")
like "$OUT" "record node +slot $slot, at 127.0.0.1:${MASTER_PORT[$(owner_of "$slot")]}" \
	'... of the record locks, too'
ctl_on A --json explain "$MNT/filea"
is "$(json .record_node.slot)" "$slot" '... in JSON'
ctl_on A --json stats
is "$STATUS $(json '[.servers[] | .redis, .up]')" '0 ["main",true]' 'stats'
ctl_on A --json check
is "$STATUS $(json '[.state, .locks]')" '0 ["OK",9]' 'check'
ctl_on A --json doctor
is "$(json '[.findings[] | select(.check | IN("privileges", "persistence") | not) |
	.what]')" '[]' 'doctor: nothing but what this rig is'
is "$(json '[.findings[] | select(.check == "privileges")] | length')" 3 \
	'... of each master'

slot=$(slot_of "$(key_of filea)")
to=$(($(owner_of "$slot") % 3 + 1))
slot_move "$slot" "$to"
ctl_on A --json list
is "$STATUS $(json '.locks | length')" '0 9' 'a slot has moved: list has all'
ctl_on A explain "$MNT/filea"
like "$OUT" "slot $slot, at 127.0.0.1:${MASTER_PORT[$to]}" 'explain has the new node'
slot=$(slot_of dlock%fleet)
is "$(owner_of "$slot")" 1 'the first node had the fleet (control)'
slot_move "$slot" 2
ctl_on A --json doctor
is "$(json '[.findings[] | select(.check == "fleet") | .what]')" '[]' \
	'doctor: the fleet is asked for where it is now'

# break: who waits gets it at once, for release.lua has its name there.
locker b dl B
ask b 'open h fileh'
say b 'lock h EX'
queued()
{
	[ "$(rr hlen "{$(key_of fileh)}%q")" -gt 2 ]
}
ok 'B waits' until_true 5 queued
ctl_on A show "$MNT/fileh"
like "$OUT" 'wait' 'show: somebody waits'
ctl_on A break --yes "$MNT/fileh"
is "$STATUS" 0 'break'
ok '... B has it' hear b
ctl_on A history "$MNT/fileh"
like "$OUT" 'broken' 'history: it was broken'
rr del "{$(key_of fileh)}%h" >/dev/null

# What another host's leases are held for, by the fleet, which one node has.
boot=$(tr -d - </proc/sys/kernel/random/boot_id)
boot=${boot//[0-9]/f}
for i in a b c d e f g h; do
	rr set "$(key_of far$i)" "$(made_token elsewhere 100 web1)" px 600000 \
		>/dev/null
done
is "$(for i in a b c d e f g h; do
	owner_of "$(slot_of "$(key_of far$i)")"
done | sort -u | tr '\n' ' ')" '1 2 3 ' \
	'leases of another host, at all three masters (control)'
held()
{
	ctl_on A --json "$@"
	json '[.locks[] | select(.host == "web1") | .held_ms // 0 |
		. >= 100000 and . < 3600000] | group_by(.) | map([.[0], length])'
}
is "$(held list)" '[[false,8]]' 'of a host that nobody knows: not for how long'
rr hset dlock%fleet "$boot:elsewhere web1" \
	"1 $(date +%s%3N) $(now)" >/dev/null
is "$(held list)" '[[true,8]]' 'of one of the fleet it is known, at each node'
is "$(held list --older 90s)" '[[true,8]]' '... to --older, too'
for i in a b c d e f g h; do
	held show "$MNT/far$i"
done | sort -u >"$RIG/held"
is "$(cat "$RIG/held")" '[[true,1]]' '... and to show'
for i in a b c d e f g h; do
	rr del "$(key_of far$i)" >/dev/null
done

# The slot moves while break waits for its yes.  (Who has lost a lease by break
# is killed, and gives back his others.)
locker c dl A
ask c 'open i filei'
ask c 'lock i EX'
slot=$(slot_of "$(key_of filei)")
meanwhile "$MNT/filei" slot_move "$slot" $(($(owner_of "$slot") % 3 + 1))
is "$STATUS $(json '[.leases[].outcome]')" '0 ["broken"]' \
	'break: where it is by then'
rr del "{$(key_of filei)}%h" >/dev/null

# A job of dlockctl's own.
ctl_on A lock "$MNT/job" -- true
is "$STATUS" 0 'lock: runs a job'
ctl_on A lock -n "$MNT/fileh" -- true
is "$STATUS" 1 '... not where another has the lock'
on A env DLOCK_CONFIG="$RIG/A.conf" "$BUILD/dlock" run true 2>"$RIG/run.err"
is "$?" 0 'dlock run'

# Without the password of its section nobody is asked.
rig_config A ttl=12s connect_timeout=2s redis_more="password_file = \"$RIG/gone\""
asked()
{
	stat_of commandstats 'cmdstat_cluster|slots'
}
ctl_on A --json list
like "$STATUS $(grep -c . <<<"$ERR") $ERR" '^78 1 .*gone" cannot be read' \
	'no password: list says so, once'
ctl_on A explain "$MNT/filea"
like "$OUT" 'flock node .*at a node that is not known +\(.*gone" cannot be read' \
	'... and explain, of the node of a key'
# (Who has locks may ask meanwhile, but not each time.)
nobody_asked()
{
	for _ in {1..5}; do
		was=$(asked)
		ctl_on A --json list
		ctl_on A explain "$MNT/filea"
		[ "$(asked)" != "$was" ] || return 0
	done
	return 1
}
ok '... which no node was asked for' nobody_asked
rig_config A ttl=12s connect_timeout=2s restart_delay=12s
ctl_on A list
at_least "$(asked)" $((was + 1)) '... and is, by who has one (control)'

peer_end a b c
rr del 'dlock%fleet' >/dev/null # of the doctor
rig_empty 15
# What the node of a file's keys would tell, another cannot.  No replica is to be
# in its place.
for i in 4 5 6; do
	m $i config set cluster-replica-no-failover yes >/dev/null
done
for i in a b c d e f g h; do
	[ "$(owner_of "$(slot_of "$(key_of file$i)")")" != 2 ] || break
done
master_kill 2
ctl_on A history "$MNT/file$i"
like "$STATUS $ERR" "^69 .*127.0.0.1:${MASTER_PORT[2]}" \
	'history: the node of the keys is away, and a later one is not'
unlike "$ERR" 'nothing is recorded' '... so nothing is known'
master_kill 3
ctl_on A list
is "$STATUS" 69 'one is away: list says so'
like "$ERR" "127.0.0.1:${MASTER_PORT[3]}" '... and which one'
on A env DLOCK_CONFIG="$RIG/A.conf" "$BUILD/dlock" run true 2>"$RIG/run.err"
is "$?" 0 'dlock run goes on'
master_kill 1
ctl_on A explain "$MNT/filea"
like "$STATUS $OUT" \
	'^0 .*flock node +slot [0-9]+, at a node that is not known +\(.*connect' \
	'nobody says who has a slot: explain does not either'
ctl_on A --json explain "$MNT/filea"
like "$(json .record_node)" '"server":null,"why":".*connect' '... in JSON'

# --- who watches learns where the locks are ---
# appears FILE: a lock comes, and is told of
appears()
{
	rr set "$(key_of "$1")" "$(made_token A 1 web1)" px 600000 >/dev/null
	hear w
	like "$HEARD" "^[0-9:]{8} \\+ $MNT/$1 EX web1 " "$2"
}
watcher()
{
	peer w env DLOCK_CONFIG="$RIG/A.conf" stdbuf -oL "$CTL" watch \
		--interval 100ms
}
watcher_ends()
{
	kill "${PEER_PID[w]}"
	peer_end w
}
watcher
ok 'watch: no node is there' until_true 10 grep -q refused "$RIG/w.err"
for i in 1 2 3; do
	node_up $i
done
ok '... then they are' until_true 30 cluster_is_ready
declare -A file_of=() # that each of them has
for ((i = 0; ${#file_of[@]} < 3; i++)); do
	file_of[$(owner_of "$(slot_of "$(key_of "w$i")")")]=w$i
done
appears "${file_of[1]}" '... and their locks are seen'
m 5 cluster failover >/dev/null
ok 'a replica becomes the master' until_true 20 is_master 5
appears "${file_of[2]}" '... and what it has is seen'
watcher_ends
# A node that has no slot is no part of what the others tell; and then it has one.
m 6 cluster reset >/dev/null
m 6 cluster meet 127.0.0.1 "${MASTER_PORT[1]}" "${BUS_PORT[1]}" >/dev/null
is_empty_master()
{
	local i

	node_is_ready 6 || return 1
	for i in 1 3 5; do
		m $i cluster nodes | grep "^$(node_id 6)" | grep -qw master ||
			return 1
	done
}
ok 'a replica becomes a node without a slot' until_true 20 is_empty_master
watcher
hear w
hear w
like "$HEARD" "\\+ $MNT/w" '... another one watches'
slot=$(slot_of "$(key_of "${file_of[3]}")")
slot_move "$slot" 6
is "$(owner_of "$slot")" 6 '... it gets one'
appears "${file_of[3]}" '... and what comes there is seen'
watcher_ends

# The slot is nobody's while break waits for its yes.  (A message on its way gives it
# back to who had it.)
is_nobodys()
{
	local i

	for ((i = 1; i <= N_MASTERS; i++)); do
		m "$i" cluster delslots "$slot" >/dev/null 2>&1
	done
	for ((i = 1; i <= N_MASTERS; i++)); do
		! m "$i" cluster nodes | cut -d' ' -f9- | tr ' ' '\n' |
			grep -v '\[' | awk -F- -v s="$slot" '
			NF && s >= $1 && s <= ($2 == "" ? $1 : $2) { f = 1 }
			END { exit !f }' || return 1
	done
}
rr set "$(key_of gone)" "$(made_token A 1 web1)" px 600000 >/dev/null
slot=$(slot_of "$(key_of gone)")
meanwhile "$MNT/gone" until_true 10 is_nobodys
is "$STATUS $(json '[.leases[].outcome]')" '1 ["failed"]' \
	'break: no node has the slot by then'
like "$ERR" 'gone: not broken: no node of redis "main" .* has the slot' \
	'... and that is told'
done_testing
