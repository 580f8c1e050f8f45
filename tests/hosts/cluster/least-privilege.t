#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# Least privilege in a Redis Cluster: the user of dlock.conf(5), with the words that
# it has for a cluster, suffices for whatever is done with locks, also while a slot
# moves; without any one of them something is refused.  dlockctl has words of its
# own.
# shellcheck disable=SC2034 # the rig's
RIG_MODE=cluster NODE_TIMEOUT=15000 # no node fails here
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"
. "${0%/*}/../../lib/ctl.sh"
. "${0%/*}/../../lib/privileges.sh"

# configured USER [TIMEOUT [NAME=VALUE...]]
configured()
{
	rig_configs ttl=6s connect_timeout=1s restart_delay=1s \
		timeout="${2-20s}" \
		redis_more="username = \"$1\"
			password_file = \"$RIG/pass\"" "${@:3}"
}

# Who waits at a slot is told at its new node, and a question goes where it is
# going to.
waits_while_it_moves()
{
	local slot to

	slot=$(slot_of "$(key_of m)")
	to=$(($(owner_of "$slot") % 3 + 1))
	locker a dl A
	locker b dl B
	ask a 'open m m'
	ask b 'open m m'
	ask a 'lock m EX'
	say b 'lock m EX'
	until_true 5 one_waits
	slot_begin "$slot" "$to"
	ask a 'lock m UN'
	ask a 'lock m EX NB'
	slot_move "$slot" "$to"
	say a 'lock m UN'
	hear b
	peer_end b a
}

one_waits()
{
	[ "$(rr exists "{$(key_of m)}%q")" = 1 ]
}

# Half of a move: what is there goes, and the slot stays on its way.
slot_begin()
{
	local from keys

	from=$(owner_of "$1")
	slot_opens "$1" "$2"
	mapfile -t keys < <(m "$from" cluster getkeysinslot "$1" 10)
	m "$from" migrate 127.0.0.1 "${MASTER_PORT[$2]}" '' 0 5000 \
		replace keys "${keys[@]}" >/dev/null
}

take()
{
	m "$1" acl setuser dlock "-$word" >/dev/null
}

give()
{
	m "$1" acl setuser dlock "+$word" >/dev/null
}

rig_start disks
read -ra cluster <<<"$(manual_words +cluster)"
is "${#cluster[@]}" 4 "dlock.conf(5) has words for a cluster: ${cluster[*]}"
user_of_manual dlock "${cluster[@]}"
configured dlock
until_true 5 masters_are_old 3
does_everything
waits_while_it_moves
is "$RESULT" 0 'a slot moves under who waits: it has the lock'
nothing_refused 'a slot that moves'

configured dlock 2s
for word in "${cluster[@]}"; do
	word=${word#+}
	at_each_server take
	waits_while_it_moves
	like "$(refused)" "dlock $word" "control: without $word that is refused"
	at_each_server give
	at_each_server forget_log
done
may_not dlock get other
may_not dlock config get maxmemory
may_not dlock cluster nodes
may_not dlock scan 0

read -ra more <<<"$(manual_words +scan)"
locker a dl A
ask a 'open f f'
ask a 'lock f EX'
ctl list
like "$OUT $ERR" NOPERM 'control: dlockctl list is refused something'
user_of_manual tools "${cluster[@]}" "${more[@]}"
configured tools 20s ttl=30s connect_timeout=5s
for verb in list 'show f' stats; do
	# shellcheck disable=SC2086 # words
	ctl_on A $verb
	unlike "$OUT $ERR" NOPERM "the user of dlockctl: $verb"
	is "$(refused | grep tools)" '' '... is refused nothing'
done
ctl_on A list
like "$OUT" '/f ' '... and sees the lock'
# permissions: what doctor misses at which of the nodes
permissions()
{
	jq -r '.findings[] | select(.check == "permissions") | .what' <<<"$OUT" |
		sed -n 's/.*(127.0.0.1:\([0-9]*\).* may not /\1 /p' | sort
}
ports=$(printf '%s\n' "${MASTER_PORT[@]:1:3}" | sort)
ctl_on A --json doctor
is "$(permissions)" '' '... and doctor misses nothing'
for word in hget asking spublish 'cluster|slots'; do
	for i in 1 2 3; do
		m $i acl setuser tools "-$word" >/dev/null
	done
	ctl_on A --json doctor
	name=${word/|/ }
	# (Who may not ask for the others is asked alone.)
	want=$(for port in $ports; do printf '%s %s ' "$port" "${name^^}"; done)
	[ "$name" = "$word" ] || want="${MASTER_PORT[1]} ${name^^} "
	is "$(permissions | tr '\n' ' ')" "$want" \
		"without $word doctor misses it, at each node"
	for i in 1 2 3; do
		m $i acl setuser tools "+$word" >/dev/null
	done
done
rr del 'dlock%fleet' >/dev/null # of the doctor
# Whom no node may tell of the others is not shown what one of them has.
hide_nodes()
{
	m "$1" acl setuser tools '-cluster|slots' >/dev/null
}
at_each_server hide_nodes
ctl_on A list
like "$STATUS $OUT $ERR" "^77  .*:${MASTER_PORT[1]}/0: .*NOPERM.*cluster.slots" \
	'without cluster|slots it is refused: no part of a list is one'
ctl_on A check
like "$STATUS $OUT" '^3 DLOCK UNKNOWN - .*NOPERM' '... check: not known'
peer_end a
rig_empty 10
done_testing
