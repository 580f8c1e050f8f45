#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# A prefix covers where it leads now, too: links are made, and made to lead
# elsewhere, while programs run.  And a share that does not answer holds up
# neither the start of a program nor locks elsewhere.
. "${0%/*}/../../lib/rig.sh"

CTL=$BUILD/dlockctl
rig_start disks
for h in A B; do
	on $h mkdir five six own
	on $h ln -s five current
done

# config PATH-SECTION...: of both hosts, of one line each
config()
{
	local h

	for h in A B; do
		{
			echo "host_id = \"$h\""
			echo "redis \"main\" { restart_delay = \"0s\"" \
				"url = \"redis://127.0.0.1:$PORT\" }"
			printf '%s\n' "$@"
		} >"$RIG/$h.conf"
	done
}

# locks NAME PATH KEY: the holder gets it, under that key, and B is refused
locks()
{
	ask holder "open h $2"
	ask holder 'lock h EX NB'
	is "$RESULT $(rr keys '*')" "0 $3" "$1: locked by its key"
	is "$(dl B flock -n "${4-$2}" echo runs 2>&1)" '' "$1: B is refused"
	ask holder 'lock h UN'
	rig_empty 2 "$1: and it ends"
	ask holder 'close h'
}

# point TARGET: "current" leads there, on both hosts
point()
{
	local h

	for h in A B; do
		on $h ln -sfn "$1" current
	done
}

config "path \"$MNT/current/\" { exclude = { \"*.tmp\" } }" \
	"path \"$MNT/late/\" { key = \"late:%r\" }"
locker holder dl A
locks 'as it was at the start' current/f "dlock:$MNT/current/f"
point six
locks 'a link that leads elsewhere by now' current/f "dlock:$MNT/current/f"
locks 'by the name that it leads to' six/sub "dlock:$MNT/current/sub"
locks 'what it led to at the start' five/f "dlock:$MNT/current/f" current/f
ask holder 'open x six/x.tmp'
ask holder 'lock x EX NB'
is "$RESULT $(rr dbsize)" '0 0' 'an excluded file stays local'
ask holder 'open o own/f'
ask holder 'lock o EX NB'
is "$RESULT $(rr dbsize)" '0 0' 'and so does one of no rule'
for h in A B; do
	on $h ln -s own/deep late
	on $h mkdir own/deep
done
locks 'a link that was made since' late/f late:f
ask holder 'open r late/r'
ask holder 'record r F_WRLCK'
is "$RESULT $(rr keys '*%rec')" '0 late:r%rec' 'record locks likewise'
ask holder 'close r'
rig_empty
is "$(cat "$RIG/holder.err")" '' 'nothing is wrong with that'
peer_end holder

# Of two rules that cover it, the one that a program started now would take.
config "path \"$MNT/\" { key = \"all:%r\" }" "path \"$MNT/current/\" { }"
point five
locker holder dl A
point six
locks 'the longest prefix wins, as it leads now' six/n "dlock:$MNT/current/n"
locks 'the other covers the rest (control)' own/n all:own/n
peer_end holder

# --- a share that does not answer -------------------------------------------

mkdir -p "$RIG/share/real" "$RIG/share/sub"
ln -s real "$RIG/share/link"
config "path \"$MNT/share/link/\" { key = \"link:%r\" }" \
	"path \"$MNT/share/sub/deeper/\" { }"
for h in A B; do
	share_at $h "$MNT/share" -o attr_timeout=0,entry_timeout=0
done
server=$(on A pgrep -x bindfs)
peer holder dl A "$BIN/locker"
locks 'a link on a share' share/link/f link:f
locks 'by the name that it leads to' share/real/f link:f
like "$(on A "$CTL" -c "$RIG/A.conf" explain share/real/f)" \
	'flock key +link:f' 'explain agrees'
on A kill -STOP "$server"
status=0
on A timeout -s KILL 1 stat share/sub >/dev/null 2>&1 || status=$?
at_least "$status" 124 'the share does not answer (control)'
before=$(now)
is "$(dl A timeout -s KILL 20 sh -c 'echo runs' 2>&1)" runs \
	'a program starts all the same'
is "$(dl A timeout -s KILL 20 flock -n own/g echo runs 2>&1)" runs \
	'and locks what is elsewhere'
note "in $((($(now) - before) / 1000000)) ms"
ask holder 'open o own/h'
ask holder 'lock o EX NB'
is "$RESULT" 0 'so does one that runs'
on A kill -CONT "$server"
locks 'and when it answers again' share/link/f link:f
peer_end holder
rig_end
