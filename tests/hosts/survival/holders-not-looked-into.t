#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# A holder into whom his keeper may not look (proc(5): his ids differ from each other,
# he is not dumpable, he executed a set-user-ID program; or /proc hides him, by
# hidepid) does not work any more when another host has the lock (L6): killed, or
# stopped, by the word of his shim, though that has ended; and so is who works for
# him.  The log says that he could not be looked into, and why.  (Where a filter of the
# program's forbids statx(2), which its keeper has as well, holders are found all the
# same.)
#
# Who may not be signalled either, and who has the descriptor of one who is dead, runs
# on: he is named, and it is not said that there is nobody.
#
# Control: with on_lost = "report" each is at work yet when the other host has it.
. "${0%/*}/../../lib/rig.sh"
. "$TOP/tests/lib/idioms.sh"

TTL=4000
FLOCK='fcntl.flock(fd, fcntl.LOCK_EX)'
# Of the whole file (struct flock, fcntl(2)).
OFD='fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", 1, 0, 0, 0, 0))'
GROUP='os.setgroups([]); os.setresgid(*nobody)' # /proc hides nothing from group 0
# He goes on without dlock: by which program, and what becomes of it first.
declare -A HOW=(
	[seteuid]="os.seteuid(65534); $FLOCK; run(python)"
	[record]="$GROUP; os.seteuid(65534); fcntl.lockf(fd, fcntl.LOCK_EX); run(python)"
	[record-ofd]="os.seteuid(65534); $OFD; run(python)"
	[dumpable]="os.seteuid(65534); $FLOCK; run(python, 'prctl(4, 1)')"
	[undumpable]="$GROUP; os.setresuid(*nobody); $FLOCK; run(python, 'prctl(4, 0)')"
	[suid]="$GROUP; os.setresuid(*nobody); $FLOCK; run(suid)"
	[below]="os.seteuid(65534); $FLOCK; run('/bin/bash', '', '-p', '-c',
		'\"\$@\" {fd}>&- & wait', 'bash', python)"
)
# And these run on.
declare -A ON=(
	[root]="os.setresuid(*nobody); $FLOCK; run(suid, 'os.setresuid(0, 0, 0)')"
	[orphan]="os.seteuid(65534); $FLOCK; os.fork() and os._exit(0); run(python)"
)
declare -A SEEN=([unasked]="$FLOCK; run(python)")
names=("${!HOW[@]}" "${!ON[@]}" "${!SEEN[@]}")

make_programs()
{
	cat >"$RIG/work.py" <<-END
	import ctypes, os, sys, time
	prctl = ctypes.CDLL(None).prctl
	exec(sys.argv[2])
	with open("$RIG/" + sys.argv[1] + ".worked", "a") as f:
	    while True:
	        print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), file=f, flush=True)
	        time.sleep(0.01)
	END
	cat >"$RIG/hold.py" <<-END
	import fcntl, os, struct, sys
	name, how, suid = sys.argv[1:]
	python, nobody = "/usr/bin/python3", (65534,) * 3
	fd = os.open(name, os.O_RDWR)
	os.set_inheritable(fd, True)
	def run(program, before="", *by):
	    by = [word.replace("{fd}", str(fd)) for word in by]
	    if program == "/bin/bash":
	        program, by = by[-1], [program] + by[:-1]
	    os.execvpe((by + [program])[0], by + [program, "$RIG/work.py", name, before],
	               {"PATH": "/usr/bin:/bin", "PYTHONHOME": "/usr"})
	for one in how.split("; "):
	    exec(one)
	END
	# shellcheck disable=SC2016 # the inner shell's
	on A sh -c 'cp -L /usr/bin/python3 "$0/set-user-id" &&
		chmod 4755 "$0/set-user-id"' "$MNT"
}

# run RULE NAME...: each loses its lease, and the other host gets it
run()
{
	local rule=$1 name by

	shift
	rm -f "$RIG"/*.worked "$RIG"/*.owned "$RIG/log"
	say p pass
	hear p
	rig_config A ttl=${TTL}ms connect_timeout=300ms \
		url="redis://127.0.0.1:$PROXY/0" path_more="on_lost = \"$rule\""
	for name; do
		: >"$RIG/$name.worked"
		on A touch "$name"
		chmod 666 "$RIG/$name.worked"
		on A chmod 666 "$name"
		by=()
		[ "$name" != unasked ] || by=("$BIN/refused" statx)
		# (A keeper that is not root's may not come first when a lease is
		# overdue: so it has a core.  One after the other, for they would
		# leave none to others.)
		dl A nice -n -20 env DLOCK_LOG="warning:$RIG/log" "${by[@]}" \
			/usr/bin/python3 "$RIG/hold.py" "$name" \
			"${HOW[$name]-${ON[$name]-${SEEN[$name]-}}}" \
			"$MNT/set-user-id" 2>"$RIG/$name.err" &
		ok "$rule, $name: works" until_true 10 has_worked "$name"
	done
	# (A keeper has no standby before it has answered.)
	ok "$rule: their keepers carry it" until_true 20 have_standbys A $#
	[ "$rule" != pause ] || ok "$rule: and have watchdogs" \
		until_true 20 have_watchdogs $#
	others_get "$rule, " 20 "$@"
}

# For a frozen host: two of each.
have_watchdogs()
{
	[ "$(on A pgrep -xc dlock-watchdog)" = $((2 * $1)) ]
}

# said NAME PATTERN: of its lease
said()
{
	grep "/$1\\(%rec\\)\\? " "$RIG/log" | grep -qE "$2"
}

# none_worked RULE WHAT NAME...: and WHAT is said of each
none_worked()
{
	local rule=$1 what=$2 name took

	shift 2
	for name; do
		took=$(last_work "$name")
		at_most "$took" -1 "$rule, $name: worked for the last time $took ms after"
		ok '... and it is said that it was not looked into' \
			until_true 5 said "$name" "$what"
	done
}

all_end()
{
	on A pkill -KILL -f 'work\.py'
	say p pass
	hear p
	ok "$1: none of them is left" until_true 20 no_keeper A
}

rig_start disks
chmod 755 "$RIG" "$MNT"
on A chmod 755 "$MNT"
make_programs
make_owner
proxy p
refused='[0-9]+ \((python3|set-user-id|bash)\), which took it, and may not be looked into \(Permission denied\)'

run report "${names[@]}"
for name in "${names[@]}"; do
	ok "report: $name works on (control)" until_true 10 works_beside "$name"
done
all_end report

run kill "${names[@]}"
orphan=$(on A pgrep -o -f 'work\.py orphan ')
none_worked kill "are killed: $refused" "${!HOW[@]}"
ok 'root: that he cannot be killed, and runs on, is said' until_true 5 said root \
	'CANNOT be killed, and run on: [0-9]+ \(set-user-id\), .*: Operation not permitted'
ok 'orphan: that he was not looked into, and runs on, is said' until_true 5 \
	said orphan "not look into these, .* runs on: .*$orphan \\(python3\\): Permission denied"
ok 'root: nor by a watchdog' until_true 5 grep -qE \
	'no watchdog.*: Operation not permitted; dlock-keeper cannot either' "$RIG/log"
for name in "${!ON[@]}"; do
	ok "$name: runs on (control)" until_true 10 works_beside "$name"
done
at_most "$(last_work unasked)" -1 'kill, unasked: worked for the last time before'
ok '... and it is said that he is killed' until_true 5 \
	said unasked 'are killed: [0-9]+ \(python3\)$'
unlike "$(cat "$RIG/log")" 'nobody is found' 'it is not said that there is nobody'
all_end kill

run pause "${!HOW[@]}"
none_worked pause "are stopped until it is: $refused" "${!HOW[@]}"
all_end pause

on A mount -o remount,hidepid=2 /proc
run kill undumpable record suid
none_worked hidden 'are killed: [0-9]+ \(\?\), which took it, .*/proc hides it' \
	undumpable record suid
on A mount -o remount,hidepid=0 /proc
all_end hidden
rig_end
