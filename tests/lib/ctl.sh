# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT
#
# For tests of dlockctl in a rig: the program, and leases that nobody holds.
CTL=$BUILD/dlockctl
unset DLOCK_CONFIG DLOCK_DISABLE LD_PRELOAD NO_COLOR
export TERM=xterm

# ctl ARG...: with host A's configuration; $STATUS, $OUT, $ERR
ctl()
{
	STATUS=0
	DLOCK_CONFIG=$RIG/A.conf "$CTL" "$@" >"$RIG/out" 2>"$RIG/err" </dev/null ||
		STATUS=$?
	OUT=$(cat "$RIG/out")
	ERR=$(cat "$RIG/err")
}

# ctl_on HOST ARG...: there
ctl_on()
{
	local h=$1

	shift
	STATUS=0
	on "$h" env DLOCK_CONFIG="$RIG/$h.conf" "$CTL" "$@" >"$RIG/out" \
		2>"$RIG/err" </dev/null || STATUS=$?
	OUT=$(cat "$RIG/out")
	ERR=$(cat "$RIG/err")
}

# json FILTER: jq of $OUT, on one line
json()
{
	jq -c "$1" <<<"$OUT" 2>&1
}

# A fifo as standard input: it has asked, and does not know yet.
ctl_has_asked()
{
	grep -qs 'yes or no' "$RIG/err"
}
# meanwhile FILE COMMAND...: run while dlockctl break FILE waits for its answer on
# host A; then yes
meanwhile()
{
	local file=$1 pid go

	shift
	rm -f "$RIG/go" "$RIG/err"
	mkfifo "$RIG/go"
	exec {go}<>"$RIG/go"
	on A env DLOCK_CONFIG="$RIG/A.conf" ${CTL_LOG:+DLOCK_LOG="warning:$CTL_LOG"} \
		"$CTL" --json break "$file" <"$RIG/go" >"$RIG/out" \
		2>"$RIG/err" {go}>&- &
	pid=$!
	until_true 5 ctl_has_asked
	"$@"
	echo yes >&"$go"
	STATUS=0
	wait "$pid" || STATUS=$?
	exec {go}>&-
	OUT=$(cat "$RIG/out")
	ERR=$(cat "$RIG/err")
}

# made_token HOST SECONDS NAME: of a lock that a process 42 of that host_id took
# so long ago; of host "elsewhere", of another kernel.
made_token()
{
	local boot since word=$3

	boot=$(tr -d - </proc/sys/kernel/random/boot_id)
	[ "$1" != elsewhere ] || boot=${boot//[0-9]/f}
	since=$(taken "$2")
	word=${word//%/%25}
	word=${word//$'\x1b'/%1B}
	printf 'dlock1 %032x %s:%s 1:1:- %s 42 %s nightly\n' 7 "$boot" "$1" \
		"$since" "$word"
}

# queue_entry SECONDS: of a waiter whose place is believed for so long
queue_entry()
{
	printf '%015d 600000 - EX %s' $((($(date +%s) + $1) * 1000)) \
		"$(made_token elsewhere 0 web3)"
}

# The user of dlock.conf(5), with what it adds for dlockctl; in $RIG/dlock.conf.
manual_user()
{
	local words

	read -ra words <<<"$(manual_acl) $(sed -n 's/^\.Cm \(+scan.*\)/\1/p' \
		"$TOP/config/dlock.conf.5")"
	rr "${words[@]}" '>x' >/dev/null
	sed "s,redis://,&dlock:x@," "$RIG/A.conf" >"$RIG/dlock.conf"
}
