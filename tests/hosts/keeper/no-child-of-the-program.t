#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# The keeper is none of the program's children (DESIGN L4, L7): wait(2) finds
# none, SIGCHLD is not sent, neither when it starts nor when it is killed.  (To
# process 1 and to a subreaper it comes as any orphan does.)
# shellcheck disable=SC2016 # perl's
. "${0%/*}/../../lib/rig.sh"

# What the program sees of children, with a lock in hand and without.
SEES='
use POSIX ":sys_wait_h";
$| = 1;
my $signals = 0;
$SIG{CHLD} = sub { $signals++ };
sub children {
	my $pid = waitpid(-1, WNOHANG);
	print "$_[0]: waitpid ", $pid, $pid < 0 ? " " . ($! + 0) : "",
	      ", signals $signals\n";
}
children("before");
open F, ">", "f" or die;
flock F, 2 or die "flock: $!";
print "locked\n"; <STDIN>;
children("locked");
print "go\n"; <STDIN>;
children("its keeper was killed");
print "go\n"; <STDIN>;
close F;
children("closed");
print "go\n"; <STDIN>;
children("after");
print "end\n";
'

some_keeper()
{
	[ -n "$(keepers A)" ]
}

another_keeper()
{
	some_keeper && [ "$(keepers A)" != "$1" ]
}

# told LINE: p prints it
told()
{
	hear p
	is "$HEARD" "$1" "$NAME: $1"
}

# unseen NAME COMMAND...: COMMAND runs the program on A
unseen()
{
	local old

	NAME=$1
	shift
	peer p dl A "$@"
	told 'before: waitpid -1 10, signals 0'
	told locked
	ok "$NAME: it has a keeper" until_true 5 some_keeper
	say p go
	told 'locked: waitpid -1 10, signals 0'
	told go
	old=$(keepers A)
	on A kill -KILL "$old"
	ok "$NAME: it has another one" until_true 5 another_keeper "$old"
	say p go
	told 'its keeper was killed: waitpid -1 10, signals 0'
	told go
	say p go
	told 'closed: waitpid -1 10, signals 0'
	told go
	ok "$NAME: the keeper ends" until_true 5 no_keeper A
	say p go
	told 'after: waitpid -1 10, signals 0'
	told end
	peer_end p
}

rig_start disks
rig_configs ttl=6s
unseen 'a program' /usr/bin/perl -e "$SEES"

# A subreaper has no child either where one cannot be started, as beside a library
# that is installed elsewhere than the keeper: what was to become it is gone.
mkdir "$RIG/lib"
cp "$SHIM" "$RIG/lib"
cat >"$RIG/reaper.py" <<'END'
import ctypes, fcntl, os, time

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
f = open("reaper", "w")
fcntl.flock(f, fcntl.LOCK_EX)
end = time.monotonic() + 20
while "no keeper" not in open("/proc/self/fd/2").read() and time.monotonic() < end:
    time.sleep(0.01)
fcntl.flock(f, fcntl.LOCK_UN)
children = []
try:
    while True:
        children.append(os.waitpid(-1, 0)[1])
except ChildProcessError:
    print(children)
END
installed=$(grep -ao '/[[:graph:]]*/dlock-keeper' "$SHIM" | head -n 1)
if [ -e "$installed" ]; then
	skip 'a subreaper has no child of ours' "$installed is there"
else
	is "$(on A env LD_PRELOAD="$RIG/lib/${SHIM##*/}" \
		DLOCK_CONFIG="$RIG/A.conf" /usr/bin/python3 "$RIG/reaper.py" \
		2>"$RIG/err")" '[]' 'a subreaper has no child of ours'
	like "$(cat "$RIG/err")" 'no keeper for the lease .*No such file' \
		'for there is no keeper'
fi
rig_end
