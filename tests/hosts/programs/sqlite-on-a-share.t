#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
#
# SQLite with a rollback journal on a share without locks, from two hosts: each
# increment is there at the end, no statement failed, the database is whole.
# Without dlock increments are lost and statements fail; without coherence they
# are lost and nobody is told (DESIGN L10).  The share is mounted without any
# timeouts, with bindfs' default ones, and with such as make a host remember
# everything for a minute, even that there is no journal.
#
# SQLITE_TURNS: increments of each host (make torture: 500, and more rows).
. "${0%/*}/../../lib/rig.sh"

TURNS=${SQLITE_TURNS:-48}
# Who hangs is ended by then.  (A row takes 2 s, and 84 where each core has ten who
# want it.)
SECONDS_MAX=$((10 * (60 + TURNS / 2)))
worker="$TOP/tests/programs/sqlite_worker.py"

# --- workers: COMMAND HOST TURNS DATABASE prints 'FAILED BACK' ------------------

# shellcheck disable=SC2016 # expanded by the worker
processes='i=0 failed=0
while [ $i -lt "$1" ]; do
	sqlite3 -bail -cmd ".timeout 600000" "$2" "begin immediate;
		update c set n = n + 1; commit" || failed=$((failed + 1))
	i=$((i + 1))
done
echo $failed 0'

# All begin together.
# shellcheck disable=SC2016
together='echo >"$0/ready"; read -r _ <"$0/go"; exec "$@"'

begin()
{
	local host=$1

	shift
	"$RUN" "$host" timeout "$SECONDS_MAX" sh -c "$together" "$RIG/cp" "$@"
}

by_processes()
{
	begin "$1" sh -c "$processes" sh "$2" "$3"
}

by_one_that_stays()
{
	begin "$1" /usr/bin/python3 "$worker" "$3" "$2" "${PRAGMAS[@]}"
}

# --- a row ----------------------------------------------------------------------

# A fresh one, in a directory that no host has looked at.
new_database()
{
	number=$((number + 1))
	mkdir "$RIG/share/$number"
	database=$number/db
	sqlite3 "$RIG/share/$database" "pragma journal_mode=$JOURNAL;
		create table c(n); insert into c values (0)" >"$RIG/journal"
}

# One more process a host that reads.
readers_begin()
{
	local host

	for host in "${READERS[@]}"; do
		peer "$host" "$RUN" "$host" /usr/bin/python3 "$worker" \
			"$MNT/$1/$database" read "${PRAGMAS[@]}"
		hear "$host" || rig_die "reader: $(cat "$RIG/$host.err")"
	done
}

readers_end()
{
	local host

	for host in "${READERS[@]}"; do
		ask "$host" end 60
		echo "$HEARD" >"$RIG/said.$host.reader"
		cat "$RIG/$host.err" >>"$RIG/said.errors"
		peer_end "$host"
	done
}

# workers_run COMMAND MOUNT WORKERS, of $each turns
workers_run()
{
	local host i pids=()

	for host in A B; do
		for ((i = 0; i < $3; i++)); do
			"$1" "$host" "$each" "$MNT/$2/$database" \
				>"$RIG/said.$host.$i" 2>>"$RIG/said.errors" &
			pids+=($!)
		done
	done
	for ((i = 0; i < 2 * $3; i++)); do
		cp_wait ready 20 || rig_die 'a worker does not begin'
	done
	for ((i = 0; i < 2 * $3; i++)); do
		cp_reach go
	done
	wait "${pids[@]}"
}

# count COMMAND MOUNT WORKERS: workers of each host, who divide $TURNS (and the
# rest is rounded up)
count()
{
	local each=$(((TURNS + $3 - 1) / $3)) began failed=0 back=0 f b
	local want=$((2 * $3 * each))

	new_database
	rm -f "$RIG"/said.*
	: >"$RIG/said.errors"
	readers_begin "$2"
	began=$(now)
	workers_run "$@"
	began=$((($(now) - began) / 1000000))
	readers_end
	while read -r f b; do
		failed=$((failed + f))
		back=$((back + b))
	done < <(cat "$RIG"/said.[AB].*)
	total=$(sqlite3 "$RIG/share/$database" 'select n from c' 2>&1)
	whole=$(sqlite3 "$RIG/share/$database" 'pragma integrity_check' 2>&1)
	note "$RUN: $total of $want, $failed statements failed, $back reads" \
		"went back, integrity_check: ${whole%%$'\n'*}; $began ms"
	if [ "$RUN" = dl ] && [ "$failed" != 0 ]; then
		note "$(sort "$RIG/said.errors" | uniq -c | head -5)"
	fi
	said="$total $whole $failed $back"
	[ "$said" = "$want ok 0 0" ]
}

# --- a power cut ------------------------------------------------------------------

rows='with recursive i(x) as (select 1 union all select x + 1 from i
	where x < 2000) insert into c select 1 from i'

# power_cut MOUNT: B dies amid a transaction, with half of it in the database
# already.  Until then A is refused, and afterwards finds the journal and rolls
# it back.
power_cut()
{
	local refused there

	new_database
	there=$MNT/$1/$database
	sqlite3 "$RIG/share/$database" "$rows"
	peer B "$RUN" B sqlite3 -batch "$there"
	say B 'pragma cache_size = 2; begin immediate; update c set n = n + 1;'
	ask B "select 'half';"
	[ "$HEARD" = half ] || rig_die "B: $HEARD $(cat "$RIG/B.err")"
	refused=$("$RUN" A sqlite3 "$there" 'select sum(n) from c' 2>&1)
	host_dead B
	peer_end B
	host_new B disks
	shares_at B
	said=$("$RUN" A sqlite3 -cmd '.timeout 60000' "$there" \
		'select sum(n) from c; pragma integrity_check' 2>&1)
	note "$RUN: while B writes: $refused; then: ${said//$'\n'/ }"
	[[ $refused == *locked* ]] && [ "$said" = $'2000\nok' ]
}

# ------------------------------------------------------------------------------

shares_at()
{
	share_at "$1" "$MNT/zero" -o \
		attr_timeout=0,entry_timeout=0,negative_timeout=0
	share_at "$1" "$MNT/default"
	share_at "$1" "$MNT/long" -o \
		attr_timeout=60,entry_timeout=60,negative_timeout=60
}

# row MOUNT WORKERS NAME COMMAND [PRAGMA]; $READERS
row()
{
	PRAGMAS=("${@:5}")
	three_ways "$1 timeouts, $3${5+, }${5-}" count "$4" "$1" "$2"
}

rig_start disks
cp_new ready go
number=0
READERS=()
JOURNAL=delete
for host in A B; do
	shares_at "$host"
done

row zero 1 'a process for each statement' by_processes
row default 8 'eight processes a host' by_processes
row default 2 'processes that stay' by_one_that_stays
READERS=(A B)
row zero 2 'a reader stays' by_one_that_stays mmap_size=1000000
READERS=()
if [ "${SQLITE_TURNS-}" ]; then
	row default 1 'a process for each statement' by_processes
	row zero 8 'eight processes a host' by_processes
	row zero 2 'processes that stay' by_one_that_stays
	READERS=(A B)
	row default 2 'a reader stays' by_one_that_stays mmap_size=1000000
	row long 8 'eight processes a host, a reader stays' by_processes \
		mmap_size=1000000
	READERS=()
	row default 2 'processes that stay' by_one_that_stays \
		journal_mode=truncate
	row default 2 'processes that stay' by_one_that_stays \
		journal_mode=persist
	row long 2 'processes that stay' by_one_that_stays
	three_ways 'a power cut amid a transaction' power_cut default
fi
three_ways 'long timeouts, a power cut amid a transaction' power_cut long

# --- what is not made right -------------------------------------------------------
RUN=dl
rig_configs path_more='coherence = "off"'
PRAGMAS=(journal_mode=truncate)
count by_one_that_stays default 2
like "$said" '^[0-9]+ ok 0 ' 'coherence = off: no statement fails'
unlike "$said" "^$((2 * TURNS)) " 'coherence = off: increments are lost'
rig_configs
PRAGMAS=()
JOURNAL=wal
tries=20
while count by_one_that_stays zero 2 && [ "$tries" -gt 0 ]; do
	tries=$((tries - 1))
done
unlike "$said" "^$((2 * TURNS)) ok 0 0" \
	'a write-ahead log shares memory: not always right'
rig_end
