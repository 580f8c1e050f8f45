#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 200
#
# A shell has the lock, and a program that it runs asks for it once more by the same
# descriptor, under a token of its own, which the server grants in place of the
# shell's (L3).  That program is killed before it hears of it, or never has the
# answer: the lock is the shell's still, and so is the lease that the server has now.
# Who does hear of it unlocks what is both's, and nobody has lost anything.
. "${0%/*}/../../lib/rig.sh"

# shell HOST FILE MODE COMMAND: bash there that has FILE by descriptor 9, and when it is
# told to, runs COMMAND with what is before the server
shell()
{
	# shellcheck disable=SC2016 # its own
	peer "$2" dl "$1" bash -c 'exec 9>"$1"; flock "$2" 9; echo has it; read -r _
		export DLOCK_CONFIG=$3; (eval "$4"); echo "$?"; read -r _' \
		sh "$MNT/$2" "$3" "$RIG/$1.by.conf" "$4"
	hear "$2" 30
	ok "$2: a keeper has the lease" until_true 5 has_keeper "$1"
	before=$(token_of "$2")
}

has_keeper()
{
	pgrep --ns "${INIT[$1]}" --nslist mnt -x dlock-keeper >/dev/null
}

is_replaced()
{
	local token

	token=$(token_of "$1")
	[ -n "$token" ] && [ "$token" != "$before" ]
}

is_kept()
{
	! dl B flock -n "$1" true
}

# stays HOST FILE: longer than the ttl it is the shell's, and not for longer than that
stays()
{
	ok "$2: no program of this host is granted it" eval "! on $1 flock -n '$2' true"
	ok "$2: nor is the other host" throughout 4500 9 is_kept "$2"
	ok "$2: the shell lives, and has it" eval "! on $1 flock -n '$2' true"
	peer_end "$2"
	ok "$2: until the shell ends" until_true 10 lease_is_gone "$2"
	ok "$2: then it is the other host's" dl B flock -n "$2" true
}

# strand: the next question with a proof is granted, and nobody hears of that
strand()
{
	# shellcheck disable=SC2016 # the proxy's
	ask p 'strand \r\n$20\r\n00'
}

# holder HOST FILE MODE COMMAND: the same, of a program that has it itself
holder()
{
	peer "$2" dl "$1" python3 "$RIG/hold.py" "$MNT/$2" "${3#-}" \
		"$RIG/$1.by.conf" "$4"
	hear "$2" 30
	ok "$2: a keeper has the lease" until_true 5 has_keeper "$1"
	before=$(token_of "$2")
}

# killed HOST FILE MODE [holder]: who has it by MODE runs who is killed
killed()
{
	"${4-shell}" "$1" "$2" "$3" 'exec flock -x 9'
	strand
	say "$2" go
	ok "$2: the server has another token" until_true 10 is_replaced "$2"
	pkill --ns "${INIT[$1]}" --nslist mnt -KILL -x flock
	hear "$2" 20
	is "$HEARD" 137 "$2: who has asked was killed"
	ask p pass
	stays "$1" "$2"
}

rig_start disks
cat >"$RIG/ask.py" <<'END'
import errno, fcntl, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX)
    print("granted", flush=True)
except OSError as e:
    print(errno.errorcode[e.errno], flush=True)
sys.stdin.readline()
fcntl.flock(9, fcntl.LOCK_UN)
print("unlocked", flush=True)
sys.stdin.readline()
END
cat >"$RIG/hold.py" <<'END'
import fcntl, os, subprocess, sys
name, mode, config, command = sys.argv[1:]
os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), 9)
fcntl.flock(9, fcntl.LOCK_EX if mode == "x" else fcntl.LOCK_SH)
print("has it", flush=True)
sys.stdin.readline()
status = subprocess.call(command, shell=True, close_fds=False,
                         env={**os.environ, "DLOCK_CONFIG": config})
print(128 - status if status < 0 else status, flush=True)
sys.stdin.readline()
END
host_plain P
proxy p
for h in A B P; do
	rig_config $h ttl=3s timeout=2s
	rig_config $h.by url="redis://127.0.0.1:$PROXY/0" ttl=3s timeout=2s
	sed -i "s/^host_id.*/host_id = \"$h\"/" "$RIG/$h.by.conf"
done

for h in A P; do
	killed $h $h-again -x
	killed $h $h-upgraded -s
	killed $h $h-parents -x holder
	killed $h $h-parents-upgraded -s holder
	shell $h $h-unheard -x "python3 $RIG/ask.py"
	strand
	ask $h-unheard go 20
	is "$HEARD" ENOLCK "$h-unheard: no answer, no lock"
	ok "$h-unheard: the server has another token" is_replaced $h-unheard
	ask p pass
	stays $h $h-unheard

	shell $h $h-unlocked -x "exec python3 $RIG/ask.py"
	ask $h-unlocked go 20
	is "$HEARD" granted "$h-unlocked: granted once more"
	ok "$h-unlocked: it stays" throughout 4500 9 is_kept $h-unlocked
	ask $h-unlocked go 20
	is "$HEARD" unlocked "$h-unlocked: until who has it unlocks"
	ok "$h-unlocked: then the other host has it" \
		dl B flock -n $h-unlocked sleep 1
	peer_end $h-unlocked
	unlike "$(cat "$RIG/$h-unlocked.err")" LOST "$h-unlocked: and nobody has lost it"
done
rig_end
