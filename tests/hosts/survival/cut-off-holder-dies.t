#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# A holder, and its keeper, are cut off from Redis, which others reach: packets
# are dropped, or a proxy takes them and answers nothing.  Each time the holder
# is dead before its deadline, and it or its keeper says why; with on_lost = "report"
# it lives, and is told by then that it is lost (control); "hold" goes on, and is
# killed when Redis is back and has forgotten its lease.
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/losers.sh"

n=${SURVIVAL_N:-3}
DEADLINE=5938 MARGIN_MS=400 # of a ttl of 6 s

# configs ON_LOST: A asks by the proxy
configs()
{
	rig_configs ttl=6s path_more="on_lost = \"$1\""
	rig_config A ttl=6s path_more="on_lost = \"$1\"" \
		url="redis://127.0.0.1:$PROXY/0"
}

# cut MODE: from here on nothing is answered; in $CUT when.  (Until then it may be
# renewed.)
cut()
{
	if [ "$1" = drop ]; then
		nft add table inet "$table" &&
			nft add chain inet "$table" in \
				'{ type filter hook input priority 0; }' &&
			nft add rule inet "$table" in iif lo tcp dport "$PROXY" drop
	else
		ask proxy "$1" >/dev/null
	fi
	CUT=$(now)
}

heal()
{
	nft delete table inet "$table" 2>/dev/null
	ask proxy pass >/dev/null
}

# The last renewal was answered before the cut, so it is held until DEADLINE since,
# at most.
cut_off()
{
	survivors plain 1
	watch_deaths
	others 1
	cut "$1"
	judge 1
}

# A keeper that had no core in time finds that the timer has done it.
by='killed|nobody is found who has its lock'
ended=', and its process has ended: .*(no answer|cannot connect)'
late='was not renewed for [0-9]+ ms \(.*(no answer|cannot connect|nobody did).*\), and its lock has ended since: its process was killed by its own timer'
told='is LOST: .*not renewed for ([0-9]+)\.([0-9]+)s; stop this program'
table=dlock_rig_$$
# (What has no core for a second and a half before its end has warned nobody.)
SURVIVOR_BY='nice -n -20'
rig_start disks
trap 'nft delete table inet "$table" 2>/dev/null; rig_cleanup' EXIT
proxy proxy
modes=(hang)
if nft add table inet "$table" 2>/dev/null; then
	nft delete table inet "$table"
	modes+=(drop)
else
	skip 'packets are dropped' 'no nftables here'
fi
for mode in "${modes[@]}"; do
	for ((try = 1; try <= n; try++)); do
		configs kill
		cut_off "$mode"
		is "$EARLY" '' "$mode $try: dead before the other host is granted"
		took=$(((DIED[${PIDS[0]}] - CUT) / 1000000))
		in_time "$took" $((DEADLINE - 1)) \
			"... and before its deadline, $took ms after the cut" \
			$((MARGIN_MS / 2))
		like "$(cat "$RIG/a0.log")" \
			'could not be renewed for long: .*; unless it is, process [0-9]+ \(lease_loser\) is killed in [01]\.[0-9]+s' \
			'... it was warned'
		# (Who kills says so after the death.)
		until_true 10 grep -qE "is LOST|$late" "$RIG/a0.log"
		like "$(cat "$RIG/a0.log")" \
			"the lease dlock:$MNT/0 at redis .* (is LOST(: .*(no answer|cannot connect|not renewed).*($by)|$ended)|$late)" \
			'... and says what, why, since when, and who is killed'
		heal
		survivors_leave 1
	done
done

# (Who kills says so after the death.)
said()
{
	grep -qE "$1" "$RIG/a0.log"
}

configs kill
survivors plain 1
watch_deaths
rr del "dlock:$MNT/0" >/dev/null
ok 'its lease is broken: it is killed' hear deaths 10
ok '... and the log says why' until_true 5 said \
	'is LOST: .*(does not know it any more|another).* killed'
survivors_leave 1

configs report
cut_off hang
is "$EARLY" '0 ' 'report: it lives when the other host is granted (control)'
ok '... and is told' until_true 5 said "$told"
ms=$(sed -nE "s/.*$told.*/\\1\\2/p" "$RIG/a0.log")
in_time "${ms:-0}" 5999 "... in time: $ms ms after it was renewed" \
	$((MARGIN_MS / 2))
heal
survivors_leave 1

configs hold
cut_off hang
is "$EARLY" '0 ' 'hold: it lives when the other host is granted'
ok '... and says so' until_true 5 said \
	'has run out, and may be granted to others: .*goes on \(on_lost = "hold"\)'
heal
is_dead()
{
	hear deaths 0.1
}
ok '... when Redis is back, and another has the lock, it is killed' \
	until_true 10 is_dead
ok '... and the log says why' \
	until_true 5 said 'is LOST: .*(somebody else|another).* killed'
survivors_leave 1

survivors plain 1
watch_deaths
cut hang
outlived()
{
	grep -q 'has run out' "$RIG/a0.log"
}
ok 'hold, and nobody wants it: it goes on' until_true 10 outlived
ok '... though it has run out at Redis, too' until_true 5 lease_is_gone 0
heal
ok '... when Redis is back, nobody knows who had it meanwhile: it is killed' \
	until_true 10 is_dead
ok '... and that is said' until_true 5 said 'is LOST: .* killed'
survivors_leave 1
rig_end
