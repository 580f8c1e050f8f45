#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# Other libraries are preloaded too (L7), before us and after us: a program
# sees of its locks what it sees without us, the other host is refused for 3 x
# ttl, and nobody can bend our clock: under libfaketime a lease is renewed by
# the time that Redis lives in, and its deadlines are real.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=6s
shim=$BUILD/libdlock-preload.so

library()
{
	dpkg -L "$1" | grep -m 1 -E "$2\$"
}
declare -A so=(
	[faketime]=$(library libfaketime libfaketimeMT.so.1)
	[eatmydata]=$(library libeatmydata1 'libeatmydata.so[.0-9]*')
	[jemalloc]=$(library libjemalloc2 libjemalloc.so.2)
)

# under WHAT before|after|bare COMMAND...: on host A
under()
{
	local what=$1 where=$2 list env=() wrap=()

	shift 2
	case $what in
	eatmydata|jemalloc)
		list=${so[$what]}
		;;
	fakeroot)
		list=''
		wrap=(fakeroot --)
		;;
	*)
		list=${so[faketime]}
		env=("FAKETIME=$what" FAKETIME_DONT_RESET=1)
		;;
	esac
	env+=("DLOCK_CONFIG=$RIG/A.conf")
	case $where in
	before)
		# shellcheck disable=SC2016 # the inner shell's
		on A env "${env[@]}" "${wrap[@]}" sh -c 'export \
			LD_PRELOAD="$0${1:+:$1}${LD_PRELOAD:+:$LD_PRELOAD}"
			shift; exec "$@"' "$shim" "$list" "$@"
		;;
	after)
		on A env "${env[@]}" LD_PRELOAD="${list:+$list:}$shim" \
			"${wrap[@]}" "$@"
		;;
	bare)
		on A env "${env[@]}" LD_PRELOAD="$list" "${wrap[@]}" "$@"
		;;
	esac
}

# holder NAME LOCKER WHAT WHERE FILE: a peer that says 'held' and 'free'.
holder()
{
	local name=$1 locker=$2

	shift 2
	case $locker in
	flock)
		# shellcheck disable=SC2016 # the inner shell's
		set -- "$1" "$2" sh -c 'flock "$0" sh -c \
			"echo held; read line"; echo free $?' "$3"
		;;
	python)
		set -- "$1" "$2" /usr/bin/python3 "$TOP/tests/programs/hold.py" "$3"
		;;
	perl)
		set -- "$1" "$2" /usr/bin/perl "$TOP/tests/programs/hold.pl" "$3"
		;;
	esac
	peer "$name" under "$@"
}

all=(eatmydata jemalloc fakeroot '+1d' '+0 x100' '+0 x0.01')
names=()
declare -A said
n=0
for what in "${all[@]}"; do
	for locker in flock python perl; do
		for where in bare before after; do
			n=$((n + 1))
			file=f$n.$locker
			holder "$file" "$locker" "$what" "$where" "$file"
			said["$what $locker $where"]=$file
			[ "$where" = bare ] || names+=("$file")
		done
	done
done
for key in "${!said[@]}"; do
	hear "${said[$key]}" 30
	said["$key heard"]=$HEARD
done
for what in "${all[@]}"; do
	for locker in flock python perl; do
		want=${said["$what $locker bare heard"]}
		like "$want" '^held' "$locker, $what: held, bare"
		for where in before after; do
			is "${said["$what $locker $where heard"]}" "$want" \
				"$locker, we are $where $what: the same"
		done
	done
done

declare -A lost
look_at_all()
{
	local file

	for file in "${names[@]}"; do
		[ -n "$(token_of "$file")" ] || lost[$file]=yes
	done
}
watch()
{
	local file

	throughout 18000 3 look_at_all
	for file in "${names[@]}"; do
		! dl B flock -n "$file" true || lost[$file]=granted
	done
}
watch
is "${!lost[*]}" '' 'all held, and refused to the other host'
for file in "${names[@]}"; do
	say "$file" go
	hear "$file"
	like "$HEARD" '^free' "$file: let go"
	! [ -s "$RIG/$file.err" ] || diag "$file: $(cat "$RIG/$file.err")"
done
rig_empty 8 'and all leases are gone'
is "$(cat "$RIG"/f*.err | grep -v 'ERROR: ld.so')" '' 'nobody said a word'

# --- times of ours that others read ----------------------------------------

# The holder dies; its `since` is an hour ago, or in an hour, by its own clock;
# the next on its host has the proof of death (L3) all the same.
rig_configs ttl=20s
for what in +1h -1h; do
	for where in before after; do
		holder dead perl "$what" "$where" dead
		hear dead
		is "$HEARD" 'held 0' "$what, $where: locked"
		pid=$(on A pgrep -o -f "hold.pl dead")
		on A kill -KILL "$pid"
		until_true 5 on A flock -n dead true
		is "$(dl A flock -n dead echo mine)" mine \
			"$what, $where: it died; its lease is replaced"
		peer_end dead
	done
done

# An unreachable Redis is waited for in real time.
proxy mute
ask mute hang
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=1s connect_timeout=150ms \
	timeout=600ms
for what in '+0 x0.01' '+0 x100'; do
	begin=$(now)
	under "$what" before flock -n unreached true 2>"$RIG/err"
	took=$((($(now) - begin) / 1000000))
	at_least "$took" 500 "unreachable, $what: waits $took ms"
	in_time "$took" 2500 "unreachable, $what: and no longer"
	like "$(cat "$RIG/err")" 'no answer.*ENOLCK' "unreachable, $what: and says so"
done
rig_end
