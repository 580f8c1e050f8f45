#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 150
#
# A shell has the lock, and a program that it runs asks for it once more by the same
# descriptor.  That is granted by the lease that the shell has already, which its keeper
# carries on: no other token takes its place, which would be nobody's if that program was
# killed just then.  So neither its death nor a server that does not answer ends what the
# shell has.  It ends when somebody unlocks, who need not be the one who locked.
. "${0%/*}/../../lib/rig.sh"

# shell HOST FILE COMMAND: bash there that has FILE by descriptor 9, and when it is told
# to, runs COMMAND with what is before the server
shell()
{
	# shellcheck disable=SC2016 # its own
	peer "$2" dl "$1" bash -c 'exec 9>"$1"; flock 9; echo has it; read -r _
		export DLOCK_CONFIG=$2; (eval "$3"); echo "$?"; read -r _' \
		sh "$MNT/$2" "$RIG/$1.by.conf" "$3"
	begun "$@"
}

# holder HOST FILE COMMAND: the same, of a program that has it itself
holder()
{
	peer "$2" dl "$1" python3 "$RIG/hold.py" "$MNT/$2" "$RIG/$1.by.conf" "$3"
	begun "$@"
}

begun()
{
	hear "$2" 30
	ok "$2: a keeper has the lease" until_true 5 has_keeper "$1"
	token=$(token_of "$2")
	keepers=$(keepers_of "$1")
}

keepers_of()
{
	pgrep --ns "${INIT[$1]}" --nslist mnt -x dlock-keeper
}

has_keeper()
{
	[ -n "$(keepers_of "$1")" ]
}

is_kept()
{
	! dl B flock -n "$1" true
}

# stays HOST FILE: longer than the ttl it is the shell's, and not for longer than that
stays()
{
	ok "$2: nobody else of this host is granted it" eval "! on $1 flock -n '$2' true"
	ok "$2: nor is the other host" throughout 4500 9 is_kept "$2"
	is "$(token_of "$2")" "$token" "$2: by the lease of before"
	is "$(keepers_of "$1")" "$keepers" "$2: and its keeper"
	ends "$2"
}

ends()
{
	peer_end "$1"
	ok "$1: until the shell ends" until_true 10 lease_is_gone "$1"
	ok "$1: then it is the other host's" dl B flock -n "$1" true
	unlike "$(cat "$RIG/$1.err")" LOST "$1: and nobody has lost it"
}

# killed HOST FILE shell|holder: who asks is killed, at whatever moment; the answers are
# late, so that some are under way
killed()
{
	# shellcheck disable=SC2016 # its own
	"$3" "$1" "$2" 'killed=0
		for i in 000 020 040 060 080 100 120 140 160 180 200 220 240; do
			flock -x 9 & p=$!
			read -rt 0.$i _ <>"$NEVER"
			kill -KILL $p 2>/dev/null
			wait $p || killed=$((killed + 1))
		done
		exit $killed' 2>/dev/null
	ask p 'delay 150'
	ask "$2" go 60
	at_least "$HEARD" 3 "$2: of those who have asked were killed"
	ask p pass
	stays "$1" "$2"
}

rig_start disks
export NEVER=$RIG/waits.for.ever
mkfifo "$NEVER"
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
name, config, command = sys.argv[1:]
os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), 9)
fcntl.flock(9, fcntl.LOCK_EX)
print("has it", flush=True)
sys.stdin.readline()
status = subprocess.call(["bash", "-c", command], close_fds=False,
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
	shell $h $h-again 'for i in 1 2 3 4 5; do flock -x 9 || exit; done'
	ask $h-again go 20
	is "$HEARD" 0 "$h-again: granted five times more"
	stays $h $h-again

	killed $h $h-killed shell
	killed $h $h-child-killed holder

	shell $h $h-unheard "exec python3 $RIG/ask.py"
	ask p hang
	ask $h-unheard go 20
	is "$HEARD" granted "$h-unheard: the server does not answer"
	ask p pass
	stays $h $h-unheard

	shell $h $h-unlocked "exec python3 $RIG/ask.py"
	ask $h-unlocked go 20
	is "$HEARD" granted "$h-unlocked: granted once more"
	ask $h-unlocked go 20
	is "$HEARD" unlocked "$h-unlocked: who asked unlocks it"
	ok "$h-unlocked: then the other host has it" \
		until_true 2 dl B flock -n $h-unlocked true
	ends $h-unlocked
done
rig_end
