#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A prefix that leads through a symbolic link covers the place it leads to,
# and makes the keys of its own spelling.  The examples of the sample, the
# README and the manual are run as they stand, on hosts whose /var/lock is a
# link to /run/lock (A and C, as on Debian) or is none (B).
if [ -z "${OWN_NET-}" ]; then
	OWN_NET=1 exec unshare -n bash "$0"
fi
. "${0%/*}/../../lib/rig.sh"

unset DLOCK_CONFIG
RIG=''
DLOCK=$BUILD/dlock
CTL=$BUILD/dlockctl
JOBS=/var/lock/jobs

# The addresses that the examples name.
ip link set lo up
ip address add 10.0.0.5/32 dev lo

# A host with an /etc, a /run and a /var of its own.
host_tree()
{
	local h=$1 lock=$2

	cp -a /etc "$RIG/etc.$h"
	mkdir -p "$RIG/etc.$h/dlock"
	on "$h" sh -ec "mount --bind '$RIG/etc.$h' /etc
		mount -t tmpfs run /run
		mount -t tmpfs var /var
		mkdir /run/lock
		$lock
		mkdir $JOBS"
}

RIG_MNT='' rig_start disks
host_new C disks
redis_kill
# The examples wait until a server is older than the longest lease, 30 s.
PORT=6379 LD_PRELOAD=$BIN/old_server.so redis_up --bind 127.0.0.1 10.0.0.5
host_tree A 'ln -s /run/lock /var/lock'
host_tree B 'mkdir /var/lock'
host_tree C 'ln -s /run/lock /var/lock'

# pre HOST CMD...: preloaded, under the host's own /etc/dlock/dlock.conf
pre()
{
	local h=$1

	shift
	on "$h" env LD_PRELOAD="$BUILD/libdlock-preload.so" "$@"
}

# config TEXT: for all hosts
config()
{
	local h

	for h in A B C; do
		cat <<<"$1" >"$RIG/etc.$h/dlock/dlock.conf"
		printf 'secret\n' >"$RIG/etc.$h/dlock/redis.pass"
		chmod 600 "$RIG/etc.$h/dlock/redis.pass"
	done
	rr config set requirepass "${2-}" >/dev/null
	export REDISCLI_AUTH=${2-}
	[ -n "${2-}" ] || unset REDISCLI_AUTH
	rr script flush >/dev/null
	rr flushall >/dev/null
}

# holds HOW HOST PATH: a holder begins, and has the lock
holds()
{
	locker holder "$1" "$2"
	ask holder "open h $3"
	ask holder 'lock h EX NB'
	is "$RESULT" 0 "$2 locks $3"
}

# one_host NAME KEY PATH...: A holds the first path, all others are refused.
one_host()
{
	local name=$1 key=$2 path h

	shift 2
	holds pre A "$1"
	is "$(keys_left)" "$key" "$name: the key is as the prefix is spelled"
	for path; do
		for h in B C; do
			on "$h" test -d "${path%/*}" || continue
			if [ "$h" = B ] && [[ $path == /run/* ]]; then
				continue
			fi
			is "$(pre "$h" flock -n "$path" echo runs 2>&1)" '' \
				"$name: $h is refused, by $path"
		done
	done
	peer_end holder
	rig_empty 2 "$name: and it ends"
}

# --- bare, both run ---------------------------------------------------------

holds on A $JOBS/nightly.lock
for h in B C; do
	is "$(on $h flock -n $JOBS/nightly.lock echo runs)" runs \
		"bare: $h runs as well (control)"
done
peer_end holder

# --- the examples -----------------------------------------------------------

ok 'the server is older than the longest lease' \
	until_true 5 redis_is_old 31

spellings=("$JOBS"/nightly.lock /run/lock/jobs/nightly.lock)
key=dlock:$JOBS/nightly.lock
config "$(cat "$TOP/config/dlock.conf")"
one_host 'the sample' "$key" "${spellings[@]}"
one_host 'the sample, by the other name' "$key" \
	/run/lock/jobs/nightly.lock $JOBS/nightly.lock
is "$(on A "$CTL" explain /run/lock/jobs/x | sed -n 's/^leads to *//p')" \
	/run/lock/jobs/ 'explain tells where the prefix leads'
is "$(on A "$CTL" explain /run/lock/jobs/x | sed -n 's/^flock key *//p')" \
	dlock:$JOBS/x 'and the key, as the shim makes it'
is "$(on B "$CTL" explain $JOBS/x | grep 'leads to')" '' \
	'without a link there is nothing to tell'
is "$(pre A flock $JOBS/x "$CTL" --json list | jq -c '[.locks[].path]')" \
	"[\"$JOBS/x\"]" 'list shows it as the configuration spells it'
for path in "$JOBS/x" /run/lock/jobs/x '/run/lock/jobs/*'; do
	is "$(pre A flock $JOBS/x "$CTL" --json list --path "$path" |
		jq -c '[.locks[].path]')" "[\"$JOBS/x\"]" "... and by $path"
done

readme=$(sed -n '/^    redis "main" {/,/^$/s/^    //p' "$TOP/README.md")
like "$readme" 'path "/var/lock/jobs/"' 'the README has an example'
config "$readme" secret
one_host 'the README' "$key" "${spellings[@]}"

manual=$(sed -n '/^redis "main" {/,/^\.Ed/{/^\.Ed/q;p}' \
	"$TOP/config/dlock.conf.5")
like "$manual" 'path "/var/lock/jobs/"' 'the manual has an example'
config "$manual"
one_host 'the manual' "$key" "${spellings[@]}"

# dlock run's is a path of the command line, which leads through the link too.
config ''
holds_run()
{
	peer holder on A "$DLOCK" run --redis redis://127.0.0.1 \
		--path "$1" -- "$BIN/locker"
	ask holder "open h $2"
	ask holder 'lock h EX NB'
	is "$RESULT" 0 "dlock run --path $1 locks"
}
holds_run $JOBS/ $JOBS/nightly.lock
is "$(keys_left)" "$key" 'dlock run: the key is as the path is given'
is "$(on B "$DLOCK" run --redis redis://127.0.0.1 --path $JOBS/ \
	-- flock -n $JOBS/nightly.lock echo runs 2>&1)" '' \
	'dlock run: B is refused'
peer_end holder
rig_empty 2 'dlock run: and it ends'

# --- other links ------------------------------------------------------------

redis='redis "main" { url = "redis://127.0.0.1" restart_delay = "0s" }'
config "$redis path \"/var/lock/nightly.lock\" { key = \"job:%r\" }"
one_host 'one file, through a link' job:nightly.lock /var/lock/nightly.lock \
	/run/lock/nightly.lock
for h in A C; do
	on $h sh -c 'rm -f /run/lock/nightly.lock; mkdir /var/far; ln -s /var/far/n /run/lock/nightly.lock'
done
one_host 'one file that is a link itself' job:nightly.lock \
	/var/lock/nightly.lock
is "$(pre A flock -n /var/far/n redis-cli keys '*')" job:nightly.lock \
	'one file that is a link itself: by the name that it leads to'

# What it leads to is made later; of the longest of two prefixes it is.
for h in A B C; do
	on $h ln -s ../../var/later/./deep /var/lock/dangling
done
config "$redis
path \"/var/lock/dangling/\" { key = \"long:%p\" exclude = { \"*.tmp\" } }
path \"/var/\" { key = \"short:%p\" }"
like "$(on A "$CTL" explain /var/lock/dangling/x)" \
	'leads to +/var/later/deep/  \(does not exist\)' \
	'explain says where a link leads that leads nowhere yet'
locker holder pre A
for h in A B C; do
	on $h mkdir -p /var/later/deep
done
ask holder 'open h /var/lock/dangling/x'
ask holder 'lock h EX NB'
is "$(rr keys '*')" 'long:/var/lock/dangling/x' \
	'a directory that is made while the program runs: the rule covers it'
is "$(pre B flock -n /var/later/deep/x echo runs)" '' 'and B is refused'
ask holder 'open t /var/later/deep/x.tmp'
ask holder 'lock t EX NB'
is "$(rr dbsize)" 1 'what is excluded is so by either spelling'
peer_end holder
rig_end
