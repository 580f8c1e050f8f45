#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
#
# 32-bit programs, under the library of `make lib32`: they print what they do
# bare, whichever of the two sizes their off_t has, and exclude 64-bit programs
# of their host and of another one, and are excluded.  I386_ALL=1: all of
# tests/conform, not only what 32 bits can make another.
. "${0%/*}/../../lib/rig.sh"

i386_or_skip

# --- the object -----------------------------------------------------------------

like "$(file -L "$SHIM32")" 'ELF 32-bit LSB shared object, Intel' \
	'the object is of i386'
is "$(readelf -d "$SHIM32" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
	grep -v '^ld-linux')" libc.so.6 'and needs libc only'
unlike "$(readelf -d "$SHIM32")" TEXTREL 'without text relocations'
is "$(nm -D --defined-only "$SHIM32" |
	awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)" \
	"$(sed -n 's/^[[:space:]]*X(\([A-Za-z0-9_]*\),.*/\1/p' \
		"$TOP/shim/os/table.h" "$TOP/shim/os/table32.h" | sort -u)" \
	'its symbols are those of the two tables'

i386_run_or_skip
rig_start disks
i386_begin

# --- as bare ----------------------------------------------------------------

large='-D_FILE_OFFSET_BITS=64'
chosen='record_offsets record_calls record_getlk record_lockf record_errors
	record_ofd record_fork record_deadlock record_whence record_cancel
	flock_syscall flock_results flock_fork fcntl_others'
[ -z "${I386_ALL-}" ] ||
	chosen=$(cd "$TOP/tests/conform" && printf '%s ' *.c | sed 's/\.c//g')

# compile NAME FLAG...: into $RIG/NAME; of an offset that has no room the rest.
compile()
{
	local name=$1 source=${1%%-*}

	shift
	i386_cc "tests/conform/$source.c" "$RIG/$name" -w "$@" 2>"$RIG/$name.cc"
}

# run HOW NAME: its output, in a fresh directory.  Who waits to be refused waits
# under the null shim for ever.
run()
{
	local limit=600

	[ "$1" != null ] || limit=2
	# shellcheck disable=SC2016 # expanded there
	"$1" A timeout "$limit" sh -c 'mkdir "$1" && cd "$1" && exec "$0"' \
		"$RIG/$2" "$1.$2" \
		>"$RIG/$2.$1" 2>&1
	echo "status $?" >>"$RIG/$2.$1"
}

# Each is compiled, and run three ways; four at a time.
all_ways()
{
	local name=$1 how

	shift
	compile "$name" "$@" || return
	for how in on null dl; do
		run "$how" "$name"
	done
}

names=()
# begin NAME FLAG...
begin()
{
	names+=("$1")
	[ "$(jobs -pr | wc -l)" -lt 4 ] || wait -n
	all_ways "$@" &
}
began=$SECONDS
for name in $chosen; do
	begin "$name"
done
begin record_offsets-large "$large"
begin record_getlk-large "$large"
begin record_offsets-time64 "$large" -D_TIME_BITS=64
begin record_ofd-time64 "$large" -D_TIME_BITS=64
for job in $(jobs -p); do
	wait "$job"
done
note "compiled and run: $((SECONDS - began)) s"
for name in "${names[@]}"; do
	if ! [ -x "$RIG/$name" ]; then
		fail "$name compiles"
		diag "$(cat "$RIG/$name.cc")"
		continue
	fi
	is "$(tail -n 1 "$RIG/$name.on")" 'status 0' "$name: bare, it ends well"
	ok "$name: but not under the null shim (control)" \
		test -n "$(diff "$RIG/$name.on" "$RIG/$name.null")"
	is "$(diff "$RIG/$name.on" "$RIG/$name.dl")" '' \
		"$name: the same under dlock"
done
ok 'some of it is of 32 bits: EOVERFLOW is told' \
	grep -q EOVERFLOW "$RIG/record_offsets.on"
rig_empty 5 'they leave nothing'

# --- beside 64-bit programs ---------------------------------------------------

i386_cc tests/programs/records.c "$RIG/records32" -Wall -Werror ||
	rig_die 'records.c does not compile'
i386_cc tests/programs/locker.c "$RIG/locker32" -Wall -Werror ||
	rig_die 'locker.c does not compile'

# expect NAME LINE RESULT: for use in a condition
expect()
{
	ask "$1" "$2" && [ "$RESULT" = "$3" ] && return 0
	note "$RUN: $1: $2: '$HEARD' instead of $3"
	return 1
}

# The peers that FUNCTION has begun are ended, whatever became of it.
scene()
{
	local status=0

	"$@" || status=1
	peer_end "${!PEER_PID[@]}"
	until_true 5 host_is_idle || status=1
	[ "$RUN" != dl ] || until_true 5 db_is_empty || status=1
	return "$status"
}

# between HOST64 HOST32 FUNCTION: a 64-bit program w, and n, a 32-bit one
between()
{
	peer w "$RUN" "$1" "$BIN/$PROGRAM" ${ARG-}
	peer n "$RUN" "$2" "$RIG/${PROGRAM}32" ${ARG-}
	expect w 'open a f' 0 && expect n 'open a f' 0 && "$3"
}

flocks()
{
	expect w 'lock a EX NB' 0 && expect n 'lock a EX NB' EAGAIN &&
		expect n 'lock a SH NB' EAGAIN && expect w 'lock a SH' 0 &&
		expect n 'lock a SH NB' 0 && expect n 'lock a EX NB' EAGAIN &&
		expect w 'lock a UN' 0 && expect n 'lock a EX NB' 0 &&
		expect w 'lock a SH NB' EAGAIN || return 1
	say w 'lock a EX'
	expect n 'lock a UN' 0 && hear w && [ "$RESULT" = 0 ] &&
		expect n 'lock a EX NB' EAGAIN
}

ranges()
{
	expect w 'set a W 10 10' 0 && expect n 'set a W 0 10' 0 &&
		expect n 'set a R 19 1' EAGAIN &&
		expect n 'ofdset a R 19 1' EAGAIN &&
		expect w 'set a R 9 1' EAGAIN && ask w pid || return 1
	expect n "get a W 10 5" "W,10,10,$(named "$RESULT")" &&
		expect w 'set a U 15 5' 0 && expect n 'set a R 15 5' 0 || return 1
	say w 'wait a W 0 10'
	expect n 'set a U 0 10' 0 && hear w && [ "$RESULT" = 0 ] &&
		expect n 'set a R 0 1' EAGAIN
}

# F_GETLK names who is of another host by a negative number.
named()
{
	[ "$SAME" = same ] && echo "$1" || echo "-$1"
}

PROGRAM=locker
three_ways 'flock: 64 bits on A, 32 on B' scene between A B flocks
three_ways 'flock: 32 bits on A, 64 on B' scene between B A flocks
RUN=dl
ok 'flock: both on A' scene between A A flocks
PROGRAM=records ARG=tell SAME=other
three_ways 'records: 64 bits on A, 32 on B' scene between A B ranges
three_ways 'records: 32 bits on A, 64 on B' scene between B A ranges
RUN=dl SAME=same
ok 'records: both on A' scene between A A ranges

# --- what outlives a program ---------------------------------------------------

# By the keeper, which is a 64-bit program: the shell itself is not told of it.
carried()
{
	# shellcheck disable=SC2016 # expanded there
	peer sh "$RUN" A bash -c 'exec 9>>f; echo lock a EX | "$0" a9
		read -r x; exec 9>&-; echo closed; read -r x' "$RIG/locker32"
	hear sh && hear sh && [ "$RESULT" = 0 ] || return 1 # its start, too
	peer b "$RUN" B "$BIN/locker"
	expect b 'open a f' 0 && expect b 'lock a EX NB' EAGAIN || return 1
	[ "$RUN" != dl ] || until_true 5 carries A || return 1
	expect sh go closed && expect b 'lock a EX' 0
}

carries()
{
	keepers "$1" >/dev/null
}
three_ways 'a lock that outlives its 32-bit program' scene carried

# Proof of death: the next local one, of either size, has it at once, though
# the lease has 5 s to go.
killed()
{
	local pid

	peer one dl A "$1"
	peer two dl A "$2"
	peer far dl B "$BIN/locker"
	ask one 'open a k' && ask two 'open a k' && ask far 'open a k' &&
		ask one 'lock a EX' && ask one pid || return 1
	pid=$RESULT
	on A kill -KILL "$pid"
	ask two 'lock a EX' && [ "$RESULT" = 0 ] || return 1
	note "after kill -9: $(((END - START) / 1000)) us"
	within_us $(((END - START) / 1000)) 2000000 &&
		ask far 'lock a EX NB' && [ "$RESULT" = EAGAIN ]
}
ok 'kill -9 of a 32-bit holder: a 64-bit one of its host is next' \
	scene killed "$RIG/locker32" "$BIN/locker"
ok 'kill -9 of a 64-bit holder: a 32-bit one of its host is next' \
	scene killed "$BIN/locker" "$RIG/locker32"

# execve(2) into a program of the other size: it is the same owner at Redis.
becomes()
{
	peer p "$RUN" A "$1" tell
	peer q "$RUN" B "$BIN/records" tell
	expect p 'open a x' 0 && expect q 'open a x' 0 &&
		expect p 'set a W 0 10' 0 && expect q 'set a W 5 1' EAGAIN &&
		expect p "exec a $2" 0 && expect q 'set a W 5 1' EAGAIN &&
		expect p 'set a W 10 10' 0 && expect p 'set a U 0 5' 0 &&
		expect q 'set a W 0 5' 0 && expect q 'set a W 5 1' EAGAIN &&
		expect q 'set a W 15 1' EAGAIN
}
three_ways 'a 64-bit program becomes a 32-bit one' \
	scene becomes "$BIN/records" "$RIG/records32"
three_ways 'a 32-bit program becomes a 64-bit one' \
	scene becomes "$RIG/records32" "$BIN/records"

# --- installed ------------------------------------------------------------------

# Under /usr/local and /run, which are directories of their own here.
installed()
{
	# shellcheck disable=SC2016 # expanded there
	unshare -m bash -c 'mount -t tmpfs none /usr/local &&
		mount -t tmpfs none /run && cd "$1" && shift &&
		make -s install install-lib32 >/dev/null && cd "$1" && shift && "$@"' \
		sh "$TOP" "$RIG" "$@"
}

cat >"$RIG/who.c" <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
int main(int argc, char **argv)
{
	return flock(open(argv[1], O_RDWR | O_CREAT, 0666), LOCK_EX) ||
	       system(argv[argc - 1]);
}
END
"${CC:-cc}" -m32 -o "$RIG/who" "$RIG/who.c" || rig_die 'who.c'
mkdir "$RIG/i"
printf 'redis "main" { url = "unix://%s"\nrestart_delay = "0s" }\npath "%s" { }\n' \
	"$RIG/redis.sock" "$RIG/i/" >"$RIG/i.conf"
is "$(installed dlock run -c "$RIG/i.conf" "$RIG/who" "$RIG/i/f" \
	"redis-cli -s $RIG/redis.sock --raw keys '*'; echo \$LD_PRELOAD" 2>&1)" \
	"dlock:$RIG/i/f
/usr/local/\$LIB/dlock/libdlock-preload.so" \
	'dlock run preloads the installed one, and into a 64-bit child its own, in silence'
is "$(installed dlock run -c "$RIG/i.conf" sh -c "$RIG/who $RIG/i/f \
	\"redis-cli -s $RIG/redis.sock --raw keys '*'\"" 2>&1)" "dlock:$RIG/i/f" \
	'and into the 32-bit child of a 64-bit one'
# A library of another version beside the keeper of this one.
# shellcheck disable=SC2016 # expanded there
is "$(installed sh -c 'for f in $(find /usr/local/lib* -name "*-preload.so"); do
		echo old >$f
	done
	make -s -C "$0" install >/dev/null
	find /usr/local/lib* -name "*-preload.so" -size -2' "$TOP" 2>&1)" \
	'' 'a later install brings those of either size along'
# As libc6-i386 and libc6:i386 are exchanged for each other.
word=$(words /lib/ld-linux.so.2)
other=lib32
[ "$word" != lib32 ] || other=lib/i386-linux-gnu
# exchanged COMMAND: where the library is by the word of the other one
exchanged()
{
	# shellcheck disable=SC2016 # expanded there
	installed sh -c 'mkdir -p "/usr/local/$1"
		mv "/usr/local/$0/dlock" "/usr/local/$1/" && shift && "$@"' \
		"$word" "$other" "$@"
}
is "$(exchanged dlock run -c "$RIG/i.conf" "$RIG/who" "$RIG/i/f" true \
	2>"$RIG/err"; echo $?)" 126 'where its linker does not find it, it refuses'
like "$(cat "$RIG/err")" 'library for these is not installed' 'it says why'
# shellcheck disable=SC2016 # ld.so's word
is "$(exchanged dlock run -c "$RIG/i.conf" sh -c 'echo "$LD_PRELOAD"' 2>&1)" \
	/usr/local/lib/dlock/libdlock-preload.so 'and 64-bit ones run with their own'
# shellcheck disable=SC2016 # expanded there
is "$(exchanged sh -c 'make -s -C "$0" uninstall >/dev/null
	find /usr/local -name "*dlock*"' "$TOP" 2>&1)" '' 'uninstall finds it'
is "$(on A "$BUILD/dlock" run -c "$RIG/A.conf" "$RIG/who" x true \
	2>/dev/null; echo $?)" 126 'where it is not installed, it refuses (control)'

rig_end
