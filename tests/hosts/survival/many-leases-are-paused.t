#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 200
#
# With on_lost = "pause", one process has very many leases, whose marks come one
# after the other.  It is stopped by the first of them and can say nothing of the
# others; it goes on when all are renewed, and is not killed by a timer of one of
# them:
#
#  - while a thread of it gives back one after the other, before its stop and
#    amidst it;
#  - while nobody does;
#  - with a lease at a server that was there all the time, and which the keeper
#    has renewed meanwhile.
#
# And when it is killed while it is stopped, so is what works under its locks
# without them, though the end of a process with many descriptors takes a moment, in
# which its locks are gone and it is there.
#
# Control: with "kill" the same outage ends it.
# shellcheck disable=SC2016
. "${0%/*}/../../lib/rig.sh"

TTL=6000
FILES=200

lines()
{
	wc -l <"$RIG/worked"
}

works_on()
{
	[ "$(lines)" -gt "$1" ]
}

is_in()
{
	[ "$(on A cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null)" = "$2" ]
}

has_died()
{
	! on A test -e "/proc/$1/stat" || is_in "$1" Z
}

# start ON_LOST HOW: $pid has all of its leases, and its keeper, too
start()
{
	ask p pass
	rm -f "$RIG/go" "$RIG/gave"
	: >"$RIG/worked"
	: >"$RIG/log"
	rig_config A ttl=${TTL}ms connect_timeout=400ms timeout=30s \
		url="redis://127.0.0.1:$PROXY/0" path_more="on_lost = \"$1\""
	rig_also A near "$MNT/near/" ttl=${TTL}ms connect_timeout=400ms \
		path_more="on_lost = \"$1\""
	# (Who has no core when he is to say READY is killed.)
	dl A nice -n -20 env DLOCK_LOG="debug:$RIG/log" /usr/bin/python3 \
		"$RIG/many.py" "$MNT" "$RIG" "$FILES" "$2" &
	until_true 20 works_on 2
	pid=$(on A pgrep -f many.py)
	pid=${pid%%$'\n'*}
	ok "$1, $2: a keeper has all of its leases" \
		until_true 20 are_carried $((FILES + 1))
	ok "$1, $2: ... and a standby" until_true 10 have_standbys A 1
}

# goes_on WHAT: what was stopped works again
goes_on()
{
	local had

	ok "$1: it is stopped" until_true 10 is_in "$pid" T
	had=$(lines)
	sleep "$(awk "BEGIN { print $TTL / 1000 }")"
	ok "$1: ... and stays so" is_in "$pid" T
	is "$(lines)" "$had" "$1: ... and has not worked"
	ask p pass
	ok "$1: it works on" until_true 10 works_on "$had"
	sleep "$(awk "BEGIN { print $TTL / 1000 }")"
	ok "$1: ... for a ttl" until_true 5 works_on $((had + 10))
	unlike "$(cat "$RIG/log")" 'LOST|killed:|not renewed.*is killed;' \
		"$1: nobody is killed"
}

ends()
{
	ask p pass
	on A pkill -KILL -f many.py
	until_true 20 host_is_idle A
	rr flushall >/dev/null
}

rig_start disks
cat >"$RIG/many.py" <<'END'
import fcntl, os, resource, subprocess, sys, threading, time

mnt, rig, n, how = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]

def take(name):
    f = os.open(os.path.join(mnt, name), os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(f, fcntl.LOCK_EX)
    return f

def give_back(files):
    while not os.path.exists(rig + "/go"):
        time.sleep(0.002)
    for f in files:
        os.close(f)
        time.sleep(0.005)
    os.close(os.open(rig + "/gave", os.O_CREAT | os.O_WRONLY))

held = take("near/held" if how == "near" else "held")
files = [take("far/%d" % i) for i in range(n)]
if how == "closes":
    threading.Thread(target=give_back, args=(files,), daemon=True).start()
if how == "worker":
    resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
    null = os.open("/dev/null", os.O_RDONLY)
    for i in range(19000):
        os.dup(null)
    subprocess.Popen(["sleep", "1077"])
while True:
    with open(rig + "/worked", "a") as f:
        f.write("x\n")
    time.sleep(0.05)
END
mkdir -p "$MNT/near" "$MNT/far"
chmod 777 "$MNT/near" "$MNT/far"
on A mkdir -p "$MNT/near" "$MNT/far"
rig_configs
proxy p

start pause closes
ask p hang
ok 'it is warned' until_true 10 grep -q 'could not be renewed' "$RIG/log"
touch "$RIG/go"
goes_on closes
ok 'closes: all is given back' until_true 10 test -e "$RIG/gave"
ends

start pause stays
ask p hang
goes_on stays
ends

start pause near
ask p hang
goes_on near
ends

FILES=5
for try in 1 2 3; do
	start pause worker
	worker=$(on A pgrep -f '^sleep 1077')
	ask p hang
	ok "worker $try: it is stopped" until_true 10 is_in "$pid" T
	ok "worker $try: ... and its worker" until_true 5 is_in "$worker" T
	on A kill -KILL "$pid"
	ok "worker $try: who works for it dies with it" \
		until_true 5 has_died "$worker"
	ends
done

start kill stays
ask p hang
ok 'control: with "kill" it dies' until_true 15 has_died "$pid"
ends
rig_end
