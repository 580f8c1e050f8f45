#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Programs that do odd things with a lock (odd.c): they leave no way
# to look at it, move its description elsewhere, lock before they have begun,
# are pelted with signals, lose the connection.  While the kernel lock lives so
# does its lease, unchanged, and the other host is refused; then it is gone.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
settings=(ttl=2s connect_timeout=300ms)
rig_configs "${settings[@]}"
mkdir "$RIG/empty"

# odd NAME WORD COMMAND...: a peer on A, that has said WORD.
odd()
{
	local name=$1 word=$2

	shift 2
	peer "$name" dl A "$BIN/odd" "$@"
	hear "$name"
	is "$HEARD" "$word" "$name: $word"
}

# goes_on NAME WORD: told to, and says WORD.
goes_on()
{
	ask "$1" go
	is "$HEARD" "$2" "$1: $2"
}

declare -A token
files=()

# held FILE: has a lease, and the kernel's lock.
held()
{
	files+=("$1")
	token[$1]=$(token_of "$1")
	like "${token[$1]}" '^dlock1 ' "$1: has a lease"
}

# still_held FILE: on A's disk the kernel refuses (but by a shadow: the shim),
# on B's only the lease can.
local_way=${RIG_LOCAL:+dl}
local_way=${local_way:-on}
still_held()
{
	if "$local_way" A flock -n "$1" true; then
		diag "$1: no kernel lock"
		return 1
	fi
	if dl B flock -n "$1" true; then
		diag "$1: granted to the other host"
		return 1
	fi
	[ "$(token_of "$1")" = "${token[$1]}" ] && return
	diag "$1: was ${token[$1]}"
	diag "$1: now $(token_of "$1")"
	return 1
}

# prompt FILE BEGIN-NS [MS]: its lease is gone within MS of then.
prompt()
{
	local took

	ok "$1: its lease ends" until_true 5 lease_is_gone "$1"
	took=$((($(now) - $2) / 1000000))
	in_time "$took" "${3:-300}" "$1: its lease is gone in $took ms"
}

# ends PEER FILE [MS]: told to go on, it ends the lock.
ends()
{
	local begin

	begin=$(now)
	say "$1" go
	prompt "$2" "$begin" "${3:-300}"
}

# --- all at once, for 3 x ttl ---------------------------------------------

odd emfile full emfile emfile
held emfile
odd chroot inside chroot chroot "$RIG/empty"
held chroot
for ms in 0 200; do
	odd "take$ms" listening take "$RIG/sock$ms"
	odd "give$ms" given give "give$ms" "$RIG/sock$ms" "$ms"
	hear "take$ms"
	is "$HEARD" got "take$ms: got"
	held "give$ms"
done
for how in 0 49 50 51 '0 kill' '50 kill'; do
	name=orphan${how// /-}
	# shellcheck disable=SC2086 # two words
	odd "$name" locked orphan "$name" $how
	hear "$name"
	is "$HEARD" alone "$name: alone"
	held "$name"
done
odd freopen moved freopen freopen other
held freopen

declare -A lost
held_throughout()
{
	local end=$(($(now) + 6000000000)) rounds=0 file

	while [ "$(now)" -lt "$end" ] || [ "$rounds" -lt 3 ]; do
		for file in "${files[@]}"; do
			[ -z "${lost[$file]-}" ] || continue
			still_held "$file" || lost[$file]=yes
		done
		rounds=$((rounds + 1))
	done
	note "$rounds rounds"
}
ok 'looked at for 3 x ttl' held_throughout
for file in "${files[@]}"; do
	is "${lost[$file]-no}" no "$file: held and refused for 3 x ttl"
done

# Nobody could be asked when these locks end: by the ttl, at the latest.
ends emfile emfile 2300
ends chroot chroot 2300
for ms in 0 200; do
	ends "take$ms" "give$ms"
	hear "take$ms"
	is "$HEARD" closed "take$ms: the receiver lives on"
	say "take$ms" go
	say "give$ms" go
done
for how in 0 49 50 51 0-kill 50-kill; do
	ends "orphan$how" "orphan$how"
done
goes_on freopen childless
ok 'freopen: held without the child' still_held freopen
ends freopen freopen
hear freopen
is "$HEARD" closed 'freopen: lives on'
say freopen go
rig_empty 5 'all of these are gone'

# --- a first lock where nothing can be looked at ----------------------------

odd late ENOLCK late late "$RIG/empty"
ok 'late: no lease' lease_is_gone late
ok 'late: no kernel lock' on A flock -n late true
ok 'late: free for the other host' dl B flock -n late true
say late go

# --- a constructor of a library ----------------------------------------------

cat >"$RIG/early.c" <<'END'
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

int early_result(void);

static int result;

__attribute__((constructor)) static void early(void)
{
	int fd = open("early", O_RDWR | O_CREAT, 0666);

	result = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
}

int early_result(void)
{
	return result;
}
END
cat >"$RIG/main.c" <<'END'
#include <stdio.h>
#include <string.h>

int early_result(void);

int main(void)
{
	int err = early_result();

	puts(err ? strerrorname_np(err) : "0");
	return 0;
}
END
ok 'a library and a program' "${CC:-cc}" -D_GNU_SOURCE -fPIC -shared \
	-o "$RIG/libearly.so" "$RIG/early.c"
ok 'the program is linked to it' "${CC:-cc}" -D_GNU_SOURCE -o "$RIG/early" \
	"$RIG/main.c" -L"$RIG" -learly -Wl,-rpath,"$RIG"
locker b dl B
ask b 'open e early'
ask b 'lock e EX'
is "$RESULT" 0 'early: the other host locks'
is "$(on A "$RIG/early")" 0 'early: without dlock it is granted (control)'
is "$(dl A "$RIG/early")" EAGAIN 'early: refused in the constructor'
ask b 'lock e UN'
is "$(dl A "$RIG/early")" 0 'early: granted when free'
prompt early "$(now)"

# --- signals -----------------------------------------------------------------

proxy slow
ask slow 'delay 30'
rig_config A "${settings[@]}" url="redis://127.0.0.1:$PROXY/0"
peer storm dl A "$BIN/odd" storm storm 10
hear storm
read -r result took signals <<<"$HEARD"
is "$result" 0 'a timer at 100 Hz: locked'
in_time "${took:-9999}" 2000 "a timer at 100 Hz: in $took ms"
at_least "${signals:-0}" 1 "a timer at 100 Hz: $signals signals"
held storm
ok 'a timer at 100 Hz: held' still_held storm
ends storm storm

ask b 'open a alarm'
ask b 'lock a EX'
is "$RESULT" 0 'alarm: the other host locks'
offsets=(50 63 76 89 102 115 128 141 154 167 180 193)
peer alarm dl A "$BIN/odd" alarm alarm "${offsets[@]}"
for ms in "${offsets[@]}"; do
	hear alarm
	read -r result late <<<"$HEARD"
	is "$result" EINTR "alarm after $ms ms: interrupts"
	in_time "${late:-9999}" 300 "alarm after $ms ms: $late ms late"
done
ask b 'lock a UN'
prompt alarm "$END"
rig_config A "${settings[@]}"

# --- the connection is gone when the lock is given back ----------------------

for ms in 0 200; do
	odd "unlock$ms" locked unlock "unlock$ms"
	held "unlock$ms"
	sleep "0.$ms"
	ok "unlock$ms: held" still_held "unlock$ms"
	at_least "$(rr client kill type normal skipme yes)" 1 \
		"unlock$ms: its connection is killed"
	ends "unlock$ms" "unlock$ms"
done
rig_end
