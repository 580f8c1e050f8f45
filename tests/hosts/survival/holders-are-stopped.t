#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# Who has a lock whose lease cannot be renewed is stopped before another host has
# it (L6), though nobody of them is preloaded, or knows of the lock: a shell that
# only has the descriptor; what works under the lock without one (`flock -o`,
# Python, which closes what it has); who shares it in another session.  Five
# hundred other processes run, and one that has the file open and no lock, and
# one that waits for it: all of these live.
#
# With on_lost = "hold" they work on while Redis does not answer; and are stopped
# as soon as it says that it is another's.
#
# Control: with on_lost = "report" each is still at work when the other host has
# its lock.
# shellcheck disable=SC2016 # the jobs' shells expand these
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/idioms.sh"

TTL=4000
IDIOM+=([session]='exec 9>$f; flock 9; setsid $work $f & sleep 1000 9>&-')

# It works: it says when, for as long as it lives.
make_work()
{
	cat >"$RIG/work" <<-END
	#!/bin/bash
	while :; do
		"$BIN/now" >>"$RIG/\$1.worked"
		sleep 0.01
	done
	END
	chmod +x "$RIG/work"
}

# Those who have nothing to do with it.
strangers()
{
	on A pgrep -fxc 'sleep (1234|4321)'
}

nobody_works()
{
	! on A pgrep -x work >/dev/null
}

# run RULE: each idiom loses its lease, and the other host gets it
run()
{
	local name

	rm -f "$RIG"/*.worked "$RIG"/*.owned
	: >"$RIG/log"
	say p pass
	hear p
	rig_config A ttl=${TTL}ms connect_timeout=300ms \
		url="redis://127.0.0.1:$PROXY/0" path_more="on_lost = \"$1\""
	for name in "${!IDIOM[@]}"; do
		dl A env DLOCK_LOG="info:$RIG/log" f="$name" work="$RIG/work" \
			bash -c "${IDIOM[$name]}" &
		ok "$1, $name: works" until_true 5 has_worked "$name"
	done
	on A sh -c 'exec 8<shell; echo >$0; exec sleep 4321' "$RIG/cp/open" &
	ok "$1: a bystander has the file open" cp_wait open
	others_get "$1, " 10 "${!IDIOM[@]}"
}

# By the keeper, or, if it had no core by then, by its watchdogs; and by the name
# that it had when it was looked for: the shell becomes "work".
is_said()
{
	grep '/shell ' "$RIG/log" | grep -qE \
		'not renewed .*killed( with them)?: [0-9]+ \((work|bash)\)'
}

rig_start disks
make_work
make_owner
cp_new open
rig_configs ttl=${TTL}ms
proxy p
on A bash -c 'for i in $(seq 500); do sleep 1234 & done; wait' &
all_strangers()
{
	[ "$(strangers)" = 500 ]
}
ok 'there are 500 others' until_true 60 all_strangers
n=501
for rule in kill hold report; do
	run "$rule"
	sleep 0.2
	for name in "${!IDIOM[@]}"; do
		if [ "$rule" = kill ]; then
			took=$(last_work "$name")
			at_most "$took" -1 "$name: worked for the last time $took ms after"
		else
			ok "$rule: $name works on" until_true 10 works_beside "$name"
		fi
	done
	case $rule in
	kill)
		ok 'which is said' until_true 5 is_said ;;
	hold)
		say p pass
		hear p
		ok 'hold: they are stopped when it is known' \
			until_true 5 nobody_works
		;;
	esac
	is "$(strangers)" "$n" "$rule: all others live"
	n=$((n + 1))
done
on A pkill -KILL -x 'work|sleep|bash|flock|python3|sh'
rig_end
