#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# fair = true: a reader that comes after a writer waits behind it, so that a
# stream of readers cannot keep it out.  Without, it passes, as in the kernel.
# So does, of record locks, who holds something: there is no deadlock, under
# fair, that is none in the kernel.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/herd.sh"

all_read()
{
	[ "$(grep '^+' "$RIG/herd.out" | cut -d' ' -f2 | sort -u | wc -l)" = 6 ]
}

# Readers on two hosts whose locks overlap, and then a writer, who has two seconds
# until they are told to end.  (They hold it for so long that there is always one.)
stream()
{
	local one two

	herd_new
	herd one dl A
	herd two dl B
	drive one 3 SH 200000 600s h
	one=("${PIDS[@]}")
	drive two 3 SH 200000 600s h
	two=("${PIDS[@]}")
	until_true 10 all_read || rig_die 'not all of them read'
	drive one 1 EX 1000 1 h
	writer=one.${PIDS[0]}
	until_true 2 done_by 1
	told_to_end A "${one[@]}"
	told_to_end B "${two[@]}"
	ok "$1: all are done" each_done 7 10
	herd_report
	waited=$(awk -v w="$writer" '$1 == "+" && $2 == w {
		printf "%d", ($5 - $4) / 1000000 }' "$RIG/herd.out")
	note "$1: $GRANTS grants; the writer waited $waited ms"
	is "$OVERLAPS" 0 "$1: no reader beside the writer"
	rig_empty 2 "$1: no key is left"
}

# A reader has it, a writer waits; then a reader comes.
late_reader()
{
	locker r dl B
	ask r 'open f f'
	ask r 'lock f SH'
	is "$RESULT" 0 "$1: a reader has it"
	herd one dl A
	herd_new
	drive one 1 EX 1000 1 h
	until_true 5 queue_is 1 || rig_die 'the writer does not wait'
	locker l dl A
	ask l 'open f f'
}

# order RUN [one]: a holds f, c reads g, b waits to write g, c waits for f; may a
# read g?
order()
{
	local p host=${2:+A}

	for p in a@A c@A "b@${host:-B}"; do
		locker "${p%@*}" "$1" "${p#*@}"
		ask "${p%@*}" 'open f f'
		ask "${p%@*}" 'open g g'
	done
	ask a 'range f F_WRLCK 0 1'
	ask c 'range g F_RDLCK 0 1'
	say b 'range g F_WRLCK 0 1 WAIT'
	[ "$1" != dl ] || until_true 5 queue_is 1 || rig_die 'b does not wait'
	[ "$1" = dl ] || until_true 5 waits_here 1 || rig_die 'b does not wait'
	say c 'range f F_WRLCK 0 1 WAIT'
	until_true 5 waits_here "$([ "$1" = dl ] && echo 1 || echo 2)" ||
		rig_die 'c does not wait'
	ask a 'range g F_RDLCK 0 1 WAIT' 5
	note "$1: a gets $RESULT after $(((END - START) / 1000)) us"
}

waits_here()
{
	[ "$(on A grep -c -e '->' /proc/locks)" -ge "$1" ]
}

order_ends()
{
	local p

	ask a 'range f F_UNLCK 0 1'
	hear c
	is "$RESULT" 0 "$1: c goes on"
	for p in a c; do
		ask "$p" 'range g F_UNLCK 0 1'
	done
	hear b
	is "$RESULT" 0 "$1: and b"
	peer_end a b c
}

rig_start disks
KEY=dlock:$MNT/f

rig_configs ttl=5s connect_timeout=300ms
late_reader 'not fair'
ask l 'lock f SH'
is "$RESULT" 0 'not fair: the late reader passes the writer'
ask r 'lock f UN'
is "$(grep -c '^+' "$RIG/herd.out")" 0 '... and keeps it out'
ask l 'lock f UN'
ok 'not fair: and then has it' each_done 1 5
rig_empty 2 'not fair: no key is left'

rig_configs ttl=5s connect_timeout=300ms 'path_more=fair = true'
late_reader fair
ask l 'lock f SH NB'
is "$RESULT" EAGAIN 'fair: the late reader is refused'
say l 'lock f SH'
ok 'fair: the late reader waits' until_true 5 queue_is 2
ask r 'lock f UN'
ok 'fair: the writer has it first' each_done 1 5
hear l
is "$RESULT" 0 'fair: and then the late reader'
ask l 'lock f UN'
rig_empty 2 'fair: no key is left'

stream fair
in_time "${waited:-99999}" 500 'fair: the writer is not kept out (ms)'
rig_configs ttl=5s connect_timeout=300ms
is_soon()
{
	stream 'not fair'
	[ "${waited:-0}" -lt 1000 ]
}
# (Readers who have no core may leave a gap.)
RUN='not fair'
ok 'not fair: the readers keep the writer out (control)' fails_once is_soon

order on one
is "$RESULT" 0 'one host, bare: who holds something passes who only waits'
order_ends 'one host, bare'
KEY=dlock:$MNT/g%rec
rig_configs ttl=5s connect_timeout=300ms 'path_more=fair = true'
order dl
is "$RESULT" 0 'fair: who holds something passes who only waits'
locker n dl A
ask n 'open g g'
ask n 'range g F_RDLCK 0 1'
is "$RESULT" EAGAIN 'fair: who holds nothing does not'
peer_end n
order_ends fair
rig_empty 4 'fair: no key is left'

# --- beside a reader of the same host, and by its description -------------------

g_waits()
{
	[ "$(rr hlen "{dlock:$MNT/g}%q")" -gt 0 ]
}

# shellcheck disable=SC2016 # expanded by that shell
peer w dl A bash -c 'exec 9>>"$1/g"; flock -s 9; echo $?
	while read -r how; do flock -n $how 9; echo $?; done' _ "$MNT"
hear w
locker h dl B
locker l dl A
ask h 'open g g'
ask l 'open g g'
say h 'lock g EX'
ok 'a writer waits for a reader' until_true 5 g_waits
ask l 'lock g SH NB' 3
is "$RESULT" EAGAIN 'fair: a late reader of the same host is refused, at once'
ask w -s
is "$HEARD" 0 '... but not who shares the description that has it'
ask w -u
hear h
is "$RESULT" 0 '... and the writer is next'
ask h 'lock g UN'
ask w -x
say h 'lock g EX'
ok 'a writer waits for a writer' until_true 5 g_waits
ask w -s
is "$HEARD" 0 'who shares its description makes it a shared lock'
ask w -u
hear h
is "$RESULT" 0 '... and the writer is next'
ask h 'lock g UN'
peer_end w l h
rig_end
