#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 400
#
# What dlockctl shows on a terminal of 80 and of 200 columns, looked at in tmux:
# no line is longer than the terminal is wide, columns stand below their headings,
# who holds what and for how long can be read, and no byte of a name does anything.
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

LINES=60 RUNS=0
tmux_on()
{
	on A env DLOCK_CONFIG="$RIG/A.conf" LC_ALL=C.UTF-8 tmux -u -S "$RIG/tmux" \
		-f /dev/null "$@"
}

# run ARG...: begins dlockctl ARG... on a terminal that is cleared before, and has a
# title when all is drawn that it wrote
run()
{
	RUNS=$((RUNS + 1))
	rm -f "$RIG/ended"
	printf '%q ' "$CTL" "$@" >"$RIG/command"
	# shellcheck disable=SC2028 # the printf of that shell expands them
	echo "; echo \$? >$RIG/ended; printf '\\033]2;ended $RUNS\\033\\\\'
		read -r _" >>"$RIG/command"
	tmux_on resize-window -x "$COLUMNS" -y $LINES \; \
		respawn-pane -k -t look "sh $RIG/command"
}

# What stands there; a line that the terminal wrapped is one (-J).
capture()
{
	SCREEN=$(tmux_on capture-pane -pJ)
}

has_title()
{
	[ "$(tmux_on display-message -p -t look '#{pane_title}')" = "$1" ]
}

# screen COLUMNS ARG...: what dlockctl ARG... shows on so many, in $SCREEN
screen()
{
	COLUMNS=$1
	shift
	run "$@"
	until_true 20 has_title "ended $RUNS"
	capture
}

# column HEADING: where it stands in the first line that has it
column()
{
	awk -v h="$1" 'index($0, h) { print index($0, h); exit }' <<<"$SCREEN"
}

# below HEADING LINE-PATTERN: what stands there in that line, until a blank
below()
{
	awk -v at="$(column "$1")" -v pattern="$2" \
		'$0 ~ pattern { $0 = substr($0, at); print $1; exit }' <<<"$SCREEN"
}

# unwrapped LABEL: no line goes on to the next one
unwrapped()
{
	at_most "$(awk '{ sub(/ *$/, "") } 1' <<<"$SCREEN" | LC_ALL=C.UTF-8 wc -L)" \
		$((COLUMNS - 1)) "$1: no line is too long"
}

# (Paths of which explain fits 80 columns.)
TMPDIR=/tmp
rig_start disks
rig_configs ttl=30s connect_timeout=5s
on A touch nightly.lock db

tmux_on new-session -d -s look -x 80 -y $LINES 'read -r _'

# --- what is locked -------------------------------------------------------
locker holder dl A
locker second dl B
for p in holder second; do
	ask "$p" 'open f nightly.lock'
	ask "$p" 'open d db'
done
ask holder 'lock f EX'
say second 'lock f EX'
ask holder 'range d F_WRLCK 1073741824 512'
peer job dl A flock -n long sh -c 'echo runs; read -r _ # and many words more of
	what it does, and to whom, and why'
hear job
waits()
{
	[ "$(rr hlen "{dlock:$MNT/nightly.lock}%q")" -gt 0 ]
}
ok 'one waits' until_true 10 waits
long=$(printf 'd%.0s' {1..120})
far=db-server-with-a-long-name.example.org
rr set "dlock:$MNT/$long/$long/end.lock" "$(made_token elsewhere 65 $far)" \
	px 600000 >/dev/null
rr set "dlock:$MNT/n%0A%1B[2Jred%1B]0;title%07" "$(made_token elsewhere 65 \
	$'w\x1b[m')" px 600000 >/dev/null
rr set "dlock:$MNT/"$'\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22.lock' \
	"$(made_token elsewhere 65 web1)" px 600000 >/dev/null
rr set "dlock:$MNT/foreign" $'redlock\x1b[31m-abcdef' >/dev/null
rr rpush "dlock:$MNT/list" x >/dev/null

# --- list, and watch ------------------------------------------------------
for columns in 80 200; do
	for verb in list 'watch --count 1'; do
		# shellcheck disable=SC2086 # words
		screen $columns $verb
		what="${verb%% *}, $columns columns"
		is "$(cat "$RIG/ended")" 0 "$what: it is shown"
		unwrapped "$what"
		is "$(below HOST 'nightly.lock +EX') $(below PID 'nightly.lock +EX')" \
			"$(hostname -s) $(on A pgrep -ox locker)" \
			"... host and pid stand below their headings"
		like "$(below HELD 'nightly.lock +EX')" '^[0-9.]+(ms|s)$|^[0-9]+m' \
			"... for how long"
		is "$(below WAITERS 'nightly.lock +EX')" 1 "... and how many wait"
		like "$(below MODE 'db +WRITE')" ^WRITE '... a range'
		is "$(below PID "end.lock +EX")" 42 "... of a long path"
		like "$SCREEN" $'\u6f22.lock +EX +web1 +42 +nightly' \
			"... of wide characters"
		like "$SCREEN" 'w\\x1b\[m +42' '... of a hostile name'
		like "$SCREEN" $'foreign: "redlock\\\\x1b\\[31m-abcdef"; no ttl: this' \
			'... and what is odd about one is readable'
	done
done
screen 80 list
is "$(grep -c '^    foreign: ' <<<"$SCREEN")" 1 'where there is no room, beneath'
like "$(below COMMAND 'long +EX')" '^floc' 'of a command not where it lies'
screen 30 list
unwrapped '30 columns'
like "$SCREEN" $'^PATH +MODE +HOST' 'what tells most is left'

# More than there is room for is told; and a terminal that changes meanwhile.
for n in {1..60}; do
	rr set "dlock:$MNT/many$n" "$(made_token elsewhere 65 web1)" px 600000
done >/dev/null
screen 80 watch --count 2 --interval 100ms
like "$SCREEN" $'\n[0-9]+ lines more; ' 'more rows than lines: it is said'
is "$(head -1 <<<"$SCREEN" | cut -d' ' -f3-)" '68 locks, every 100ms' \
	'... and nothing scrolls'
rr eval 'for i = 1, 60 do redis.call("DEL", ARGV[1] .. i) end' 0 \
	"dlock:$MNT/many" >/dev/null
COLUMNS=200
run watch --interval 100ms
# drawn PATTERN: it, and nothing of an earlier look (tmux has wrapped that anew)
drawn()
{
	SCREEN=$(tmux_on capture-pane -p)
	[ "$(grep -c "$1" <<<"$SCREEN")" = 1 ] &&
		[ "$(grep -c WAITERS <<<"$SCREEN")" = 1 ] &&
		[ "$(sed '/^ *$/d' <<<"$SCREEN" | wc -l)" = 12 ]
}
ok 'watch, 200 columns' until_true 10 drawn "^$MNT/nightly.lock  "
COLUMNS=80
tmux_on resize-window -x 80
ok '... which are 80 now' until_true 10 drawn '^\.\.\..*nightly.lock  '

# --- a server that cannot be asked ----------------------------------------
sed "s/:$PORT/:1/" "$RIG/A.conf" >"$RIG/away.conf"
screen 80 -c "$RIG/away.conf" watch --count 2 --interval 100ms
unwrapped 'no server'
like "$SCREEN" '0 locks, NOT ALL ARE KNOWN, .*refused' \
	'watch: that nobody knows them is not cleared away'

# --- one file, and the others ---------------------------------------------
rr xadd "{dlock:$MNT/nightly.lock}%h" '*' what lost host $'w\x1b[31m' who \
	"flock-with-many-words-that-tell-what-it-is-about" pid 4242 lasted 90000 \
	token 0123456789abcdef0123456789abcdef >/dev/null
for columns in 80 200; do
	screen $columns show nightly.lock
	unwrapped "show, $columns columns"
	is "$(grep -cE '^(held at Redis|waiting for flock|in this host)' \
		<<<"$SCREEN")" 3 '... all of it is there'
	screen $columns show db
	unwrapped "show of a range, $columns columns"
	like "$SCREEN" '[0-9a-f]{32}' '... with the whole token'
	screen $columns explain nightly.lock
	unwrapped "explain, $columns columns"
	is "$(awk '!/^[a-z]/ && NF { print match($0, /[^ ]/) }' <<<"$SCREEN" |
		sort -u)" "$([ $columns = 200 ] || echo 17)" \
		'... and what is continued stands below'
	screen $columns history nightly.lock
	unwrapped "history, $columns columns"
	like "$SCREEN" 'lost +w[^ ]* +4242 +flock' '... and a hostile word does nothing'
done
screen 80 doctor
like "$SCREEN" '[0-9]+ checks, [0-9]+ findings' 'doctor'
is "$(awk '!/^(WARN|CRIT|UNKN|  why|  do|       |[0-9]+ checks|$)/' <<<"$SCREEN")" '' \
	'... continued below what it belongs to'
ask holder 'lock f UN'
hear second
ask second 'lock f UN'
ask holder 'range d F_UNLCK 0 0'
say job go
peer_end job
tmux_on kill-server
rr del "dlock:$MNT/foreign" "dlock:$MNT/list" >/dev/null
done_testing
