#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# With on_lost = "pause" an outage is a stall: holders of all sorts (shells
# that only have the descriptor, programs that close it for their jobs, sharers,
# readers, record locks) are stopped before another host could have their locks.
# Redis is away for several times the ttl.  If nobody had the lock meanwhile, all go
# on, and no update is lost; if somebody had, whoever worked under it is killed,
# and nobody of them has written since.
#
# tests/torture/pause-long.t: with twenty of them, for ten times the ttl.
#
# Controls: with "kill" they are killed by the same outage; with "report" both
# hosts work.
# shellcheck disable=SC2016 # the jobs' shells expand these
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/idioms.sh"

TTL=6000
AWAY=${PAUSE_TTLS:-2}
EACH=${PAUSE_HOLDERS:-1}
IDIOM+=([reader]='exec 9>$f; flock -s 9; $work $f')
NAMES=()
for ((i = 1; i <= EACH; i++)); do
	for name in "${!IDIOM[@]}"; do
		NAMES+=("$name$i")
	done
done

# It counts in a file that it reads before: so who does the same beside it loses
# some.  (It writes over what is there, in one call: who is stopped, and then killed,
# between a truncation and that leaves an empty file, whoever held the lock.)
make_work()
{
	local count='printf "%08d\\n" $((10#$n + 1)) 1<>'

	mkfifo "$RIG/never"
	cat >"$RIG/work" <<-END
	#!/bin/bash
	exec 8<>"$RIG/never"
	while :; do
		read -r n <"$RIG/\$1.count"
		$count"$RIG/\$1.count"
		echo x >>"$RIG/\$1.worked"
		read -r -t 0.1 -u 8
	done
	END
	# The other host's one, and it is told that it was.
	cat >"$RIG/once" <<-END
	#!/bin/bash
	read -r n <"$RIG/\$1.count"
	$count"$RIG/\$1.count"
	echo x >>"$RIG/\$1.worked"
	echo owned
	END
	chmod +x "$RIG/work" "$RIG/once"
}

works()
{
	[ -s "$RIG/$1.worked" ]
}

lines()
{
	wc -l <"$RIG/$1.worked"
}

works_on()
{
	[ "$(lines "$1")" -gt "$2" ]
}

all_work()
{
	local name

	for name in "${NAMES[@]}"; do
		works "$name" || return 1
	done
}

# All whose process is in that state; of those that work.
all_are()
{
	local pid

	for pid in $(on A pgrep -x work); do
		[ "$(on A cut -d' ' -f3 "/proc/$pid/stat" 2>/dev/null)" = "$1" ] ||
			return 1
	done
}

n_work()
{
	on A pgrep -cx work
}

# The processor's time that all keepers have had, in ticks.
ticks()
{
	local pid rest f n=0

	for pid in $(all_keepers A); do
		rest=$(on A cat "/proc/$pid/stat")
		read -ra f <<<"${rest##*) }"
		n=$((n + f[11] + f[12]))
	done
	echo "$n"
}

all_lines()
{
	cat "$RIG"/*.worked | wc -l
}

are_left()
{
	[ "$(n_work)" = "$1" ]
}

none_works()
{
	[ "$(n_work)" = 0 ]
}

# start RULE: all of them work, through the proxy
start()
{
	local name

	rm -f "$RIG"/*.worked "$RIG"/*.owned
	for name in "${NAMES[@]}"; do
		echo 0 >"$RIG/$name.count"
	done
	: >"$RIG/log"
	ask p pass
	rig_config A ttl=${TTL}ms connect_timeout=400ms timeout=30s \
		url="redis://127.0.0.1:$PROXY/0" path_more="on_lost = \"$1\""
	for name in "${NAMES[@]}"; do
		# (Who has no core when he is to say READY is killed.)
		dl A nice -n -20 env DLOCK_LOG="debug:$RIG/log" f="$name" \
			work="$RIG/work" bash -c "${IDIOM[${name%[0-9]}]}" &
		until_true 5 works "$name"
	done
	ok "$1: all work" until_true 20 all_work
	ok "$1: the keepers have them" \
		until_true 10 are_carried "${#NAMES[@]}"
	ok "$1: ... and standbys" until_true 10 have_standbys A "${#NAMES[@]}"
}

stop_all()
{
	ask p pass
	on A pkill -KILL -x work
	until_true 20 host_is_idle A
	rr flushall >/dev/null
}

no_update_lost()
{
	local name n told lost=0

	for name in "${NAMES[@]}"; do
		told=$(lines "$name")
		# (empty: it is written just now)
		until read -r n <"$RIG/$name.count"; do
			sleep 0.01
		done
		# (killed between the two, it has counted what it has not told)
		[ "$n" -ge "$told" ] || lost=$((lost + told - n))
	done
	at_most "$lost" 0 "$1: $lost updates are lost"
}

rig_start disks
make_work
make_owner
rig_configs ttl=${TTL}ms connect_timeout=400ms timeout=30s
proxy p

# n_locked FILE: how many of them have a lock on that file of /proc/PID
n_locked()
{
	local pid n=0

	for pid in $(on A pgrep -x work); do
		if on A grep -q "FLOCK.*:$(on A stat -c %i "/proc/$pid/$1") " \
			/proc/locks; then
			n=$((n + 1))
		fi
	done
	echo "$n"
}

# Nobody else has it
start pause
ask p hang
ok 'pause: all are stopped' until_true 10 all_are T
# Who closes a file with locks on it waits for whoever reads the kernel's list of
# them, and he for a core: so no keeper is to lock what the others look at.
is "$(n_locked limits)" "${#NAMES[@]}" 'pause: each is marked as stopped by us'
is "$(n_locked stat)" 0 '... in a file that nobody reads, to look at him'
before=$(all_lines)
had=$(ticks) since=$(now)
sleep "$(awk "BEGIN { print $AWAY * $TTL / 1000 }")"
since=$((($(now) - since) / 1000000))
had=$((($(ticks) - had) * 1000 / (since * ${#NAMES[@]})))
at_most "$had" 10 "pause: a keeper has $had per cent of a core, and does not spin"
is "$(all_lines)" "$before" 'pause: nobody works meanwhile'
is "$(n_work)" "${#NAMES[@]}" "pause: all ${#NAMES[@]} are there"
unset had
declare -A had
for name in "${NAMES[@]}"; do
	had[$name]=$(lines "$name")
done
ask p pass
for name in "${NAMES[@]}"; do
	ok "pause, $name: works on" until_true 10 works_on "$name" "${had[$name]}"
done
is "$(n_work)" "${#NAMES[@]}" "pause: nobody is killed"
no_update_lost pause
like "$(grep 'stopped until' "$RIG/log")" 'was not renewed for [0-9]+ ms' \
	'which is said'

# They are cut off once more, and the other host has half of them for a moment.
ask p hang
ok 'pause: all are stopped again' until_true 10 all_are T
for name in "${NAMES[@]}"; do
	had[$name]=$(lines "$name")
done
half=$((${#NAMES[@]} / 2))
others=("${NAMES[@]:0:half}")
for name in "${others[@]}"; do
	dl B timeout 30 /usr/bin/python3 "$RIG/own.py" "$name" "$RIG/once" "$name" \
		>"$RIG/$name.owned" &
done
for name in "${others[@]}"; do
	ok "pause, $name: the other host had it" \
		until_true 20 test -s "$RIG/$name.owned"
	had[$name]=$(lines "$name")
done
ask p pass
until_true 20 are_left $((${#NAMES[@]} - half)) ||
	diag "$(on A ps -eo pid,ppid,stat,args; cat "$RIG/log")"
is "$(n_work)" $((${#NAMES[@]} - half)) 'pause: whose lock was had is killed'
for name in "${others[@]}"; do
	is "$(lines "$name")" "${had[$name]}" "pause, $name: has not worked since"
done
for name in "${NAMES[@]:half}"; do
	ok "pause, $name: works on" until_true 10 works_on "$name" "${had[$name]}"
done
no_update_lost 'pause, with another'
stop_all

start kill
ask p hang
ok 'control: with "kill" they are killed' until_true 15 none_works
stop_all

start report
ask p hang
name=${NAMES[0]}
dl B timeout 30 /usr/bin/python3 "$RIG/own.py" "$name" "$RIG/once" "$name" \
	>"$RIG/$name.owned" &
ok 'control: with "report" the other host has it' \
	until_true 20 test -s "$RIG/$name.owned"
ok 'control: and he works on' until_true 5 works_on "$name" "$(lines "$name")"
stop_all
rig_end
