# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: MIT
#
# Least privilege (DESIGN 5.5), in whatever mode the rig is; after rig.sh and
# herd.sh.
#
#	user_of_manual NAME [WORD...]	the user of dlock.conf(5), and these words
#				more, at each server; its password is x
#	manual_words COMMAND	the words of dlock.conf(5) that begin with this one
#	nothing_refused WHAT	no server has refused anything, nor does a log say
#	refused			what was: "WHO WHAT", a line each
#	does_everything		flock, ranges, waits, a deadlock, and what follows
#				when the scripts are gone
#	may_not USER COMMAND...	it is refused that

# Every node of a cluster has users of its own, replicas too.
at_each_server()
{
	local i n=$N_MASTERS

	[ "${RIG_MODE-}" != sentinel ] || n=2
	for ((i = 1; i <= n; i++)); do
		"$@" "$i"
	done
}

manual_words()
{
	sed -n "s/^\.Cm \\($1.*\\)/\\1/p" "$TOP/config/dlock.conf.5" |
		sed 's/\\&//g'
}

make_user()
{
	is "$(m "$i" "${words[@]}")" OK "the user $name of dlock.conf(5), server $i"
	m "$i" acl log reset >/dev/null
}

user_of_manual()
{
	local name=$1 words

	read -ra words <<<"$(manual_acl | sed "s/dlock on >PASSWORD/$name on >x/") ${*:2}"
	note "${words[*]}"
	at_each_server make_user
	(umask 077 && echo x >"$RIG/pass")
}

log_of()
{
	m "$1" acl log | awk '
		$0 == "object" { getline; what = $0 }
		$0 == "username" { getline; print $0, what }'
}

refused()
{
	at_each_server log_of
}

forget_log()
{
	m "$1" acl log reset >/dev/null
}

nothing_refused()
{
	is "$(refused)" '' "$1: nothing was refused"
	at_each_server forget_log
	is "$(cat "$RIG"/*.err | grep -c NOPERM)" 0 '... nor said to be'
}

may_not()
{
	local user=$1

	shift
	like "$(redis-cli -s "$RIG/redis.sock" --no-auth-warning --user "$user" \
		--pass x "$@" 2>&1)" NOPERM "$user may not: $*"
	at_each_server forget_log
}

does_everything()
{
	local mode

	KEY=dlock:$MNT/f
	for mode in EX SH; do
		herd_new
		herd one dl A
		herd two dl B
		drive one 3 "$mode" 1000 20 h
		drive two 3 EX 1000 20 h
		drive one 2 EX 1000 10 hu
		drive two 2 EX 1000 10 he
		ok "flock, $mode and EX: all have it" each_done 10 20
		herd_report
		is "$OVERLAPS" 0 '... one at a time'
		nothing_refused "flock, $mode and EX"
	done
	does_ranges
	does_without_scripts
	peer_end c b a
	ok 'no key is left' until_true 10 nothing_left
}

wait_told()
{
	[ -n "$(rr -n "${DB:-0}" keys 'dlock%wait:*')" ]
}

nothing_left()
{
	[ "$(rr -n "${DB:-0}" --scan | grep -vc '^dlock%run:')" = 0 ]
}

# Split and shared; a wait, and a cycle of waits.
does_ranges()
{
	local p

	locker a dl A
	locker b dl B
	for p in a b; do
		ask "$p" 'open f f'
		ask "$p" 'open g g'
	done
	ask a 'range f F_WRLCK 0 10'
	ask a 'range f F_RDLCK 2 4'
	ask b 'range g F_WRLCK 0 10'
	say a 'range g F_WRLCK 5 1 WAIT'
	ok 'ranges: one waits' until_true 5 wait_told
	ask b 'range f F_WRLCK 0 1 WAIT'
	is "$RESULT" EDEADLK 'ranges: the other one closes a cycle'
	ask b 'range g F_UNLCK 0 10'
	hear a
	is "$RESULT" 0 'ranges: the first one has it'
	ask b 'range f F_RDLCK 100 10 OFD'
	is "$RESULT" 0 'ranges: another owner'
	ask b 'range f F_UNLCK 100 10 OFD'
	nothing_refused 'ranges'
}

# Of the one reader.
expiry_of_h()
{
	rr -n "${DB:-0}" hvals "dlock:$MNT/h" | sort -n | tail -n 1
}

is_renewed()
{
	[ "$(expiry_of_h)" -gt "$expiry" ]
}

# The server forgets the scripts while one of each is held: a release by EVAL, a
# renewal, an ask.
does_without_scripts()
{
	local expiry

	locker c dl B
	ask c 'open h h'
	ask c 'lock h EX'
	rr script flush >/dev/null
	ask c 'lock h UN'
	ask a 'range f F_UNLCK 0 10'
	ask c 'lock h SH'
	is "$RESULT" 0 'the scripts are forgotten: they are taught again'
	expiry=$(expiry_of_h)
	ok '... the lease is renewed' until_true 10 is_renewed
	ask c 'lock h UN'
	nothing_refused 'renewals'
}
