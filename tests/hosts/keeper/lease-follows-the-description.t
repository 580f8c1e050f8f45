#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 100
#
# A lease lives exactly as long as its kernel lock (DESIGN L4): the process
# that took the lock ends, is killed or becomes another program, and the lock
# stays with whoever has the description.  Each idiom holds a file of its own
# for more than 3 x ttl and is then ended; its lease must last that long and be
# gone promptly, and a flock(1) that waits on the other host gets the lock.
# shellcheck disable=SC2016 # the jobs' shells expand these
TTL=4800
PROMPT=700000 # us; about 20,000 are usual; no tick's doing, which is at a third
. "${0%/*}/../../lib/rig.sh"

# $f the file, $locked and $go the fifos; $static a program that says so, and
# waits, that no preload reaches.
declare -A IDIOM=(
	[descriptor]='exec 9>$f; flock 9; echo >$locked; read x <$go'
	[subshell]='( flock 9; echo >$locked; read x <$go ) 9>$f'
	[command]='flock $f sh -c "echo >$locked; read x <$go"'
	[timed]='flock -w 60 $f sh -c "echo >$locked; read x <$go"'
	[static]='flock $f $static $locked $go'
	[static-killed]='flock $f sh -c "echo \$PPID >$f.pid
		exec $static $locked $go" & while ! read p <$f.pid; do :
		done 2>/dev/null; kill -KILL $p; wait'
	[static-exec]='exec 9>$f; flock 9; exec $static $locked $go'
	[python]='/usr/bin/python3 -c "import fcntl, subprocess, sys
with open(sys.argv[1], \"w\") as f:
    fcntl.flock(f, fcntl.LOCK_EX)
    subprocess.run([\"sh\", \"-c\", \"echo >\$0; read x <\$1\"]
                   + sys.argv[2:])" $f $locked $go'
	[close]='flock -o $f sh -c "echo >$locked; read x <$go"'
	[unlock]='exec 9>$f; flock 9; echo >$locked; read x <$go; flock -u 9
		echo >$locked; read x <$go'
	[killed]='flock $f sh -c "echo \$PPID >$f.pid; echo >$locked
		read x <$go" & while ! read p <$f.pid; do :; done 2>/dev/null
		kill -KILL $p; wait'
	[daemon]='perl -e "open F, q(>), q($f) or die; flock F, 2 or die;
		exit if fork; system q(echo >$locked; read x <$go)"
		read x <$go'
	[exec]='perl -e "\$^F = 99; open F, q(>), q($f) or die;
		flock F, 2 or die;
		exec q(sh), q(-c), q(echo >$locked; read x <$go)"'
	[exit]='perl -e "open F, q(>), q($f) or die; flock F, 2 or die;
		system q(echo >$locked; read x <$go)"'
)

rig_start disks
rig_configs ttl=${TTL}ms
cat >"$RIG/static.c" <<'END'
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char c;

	return argc != 3 || write(open(argv[1], O_WRONLY), "\n", 1) != 1 ||
	       read(open(argv[2], O_RDONLY), &c, 1) != 1;
}
END
ok 'a static program' "${CC:-cc}" -static -o "$RIG/static" "$RIG/static.c"
names=("${!IDIOM[@]}")

for name in "${names[@]}"; do
	cp_new "$name.locked" "$name.go"
	dl A env f="$name" locked="$RIG/cp/$name.locked" \
		go="$RIG/cp/$name.go" static="$RIG/static" bash -c "${IDIOM[$name]}" &
	ok "$name: locks" cp_wait "$name.locked"
done

declare -A token
for name in "${names[@]}"; do
	token[$name]=$(token_of "$name")
	like "${token[$name]}" '^dlock1 ' "$name: has a lease"
done

ok 'refused on the other host for 3.2 x ttl' \
	refused_for $((TTL * 32 / 10)) "${names[@]}"
for name in "${names[@]}"; do
	is "$(token_of "$name")" "${token[$name]}" "$name: the same lease"
done

# Gone, or the other host's by now.
lease_has_changed()
{
	[ "$(token_of "$1")" != "${token[$1]}" ]
}

# A program that blocks on the other host, and says when it was granted.
for name in "${names[@]}"; do
	dl B flock "$name" "$BIN/now" >"$RIG/$name.owned" &
done
all_wait()
{
	[ "$(on B pgrep -cx flock)" = "${#names[@]}" ]
}
ok 'each has a waiter on the other host' until_true 5 all_wait

is_owned()
{
	[ -s "$RIG/$1.owned" ]
}

late=()
for name in "${names[@]}"; do
	begin=$(now)
	cp_reach "$name.go"
	[ "$name" != daemon ] || cp_reach "$name.go"
	ok "$name: ends" until_true 5 lease_has_changed "$name"
	took=$((($(now) - begin) / 1000))
	in_time_us "$took" "$PROMPT" "$name: its lease is gone in $took us"
	ok "$name: the waiter gets it" until_true 5 is_owned "$name"
	owns=$((($(<"$RIG/$name.owned") - begin) / 1000))
	note "$name: the waiter owns it after $owns us"
	# It looks by itself at a quarter of its claim's life, which is 2 s.
	within_us "$owns" 300000 || late+=("$name: $owns")
done
at_most ${#late[@]} $((${#names[@]} / 2)) \
	"most waiters on the other host are told of the end (late: ${late[*]})"
cp_reach unlock.go
wait

# A holder without children, killed: its keeper sees the end.  (One that has a standby
# has heard of the lock; those of before are none of its.)
ok 'no keeper is left of before' until_true 10 no_keeper A
locker a dl A
ask a 'open a f'
ask a 'lock a EX'
ask a pid
pid=$RESULT
ok 'a lock that is held for long has a keeper' until_true 5 have_standbys A 1
token[f]=$(token_of f)
begin=$(now)
on A kill -KILL "$pid"
ok 'kill -9: the lease ends' until_true 5 lease_has_changed f
took=$((($(now) - begin) / 1000))
in_time_us "$took" "$PROMPT" "kill -9: its lease is gone in $took us"
ok 'and the keepers end with their last lock' until_true 5 no_keeper A
rig_end
