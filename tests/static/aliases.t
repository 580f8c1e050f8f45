#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# No name of libc that locks, closes, duplicates, passes a descriptor, makes a
# child, execs or ends is missed: what libc exports and what the programs and
# libraries of this machine import is in the table, or an exception with its
# reason.
cd "${0%/*}/../.." || exit 1
. tests/lib/tap.sh

# What a name of each family has in it; that is more than it is.
families='lock|fcntl
close|reopen|endmntent
dup
(send|recv)m?msg|pidfd
fork|clone|spawn|system|popen|daemon|pty|wordexp
exec
exit|abort
syscall|_IO_proc'

# REGEX of whole names, and why they are not in the table.
exceptions()
{
	cat <<-'END'
	(_IO_)?f(try|un)?lockfile|__fsetlocking	a stream's mutex
	_IO_list_(un|reset)?lock|_IO_peekc_locked	a stream's mutex
	(__)?[a-z]+_unlocked(_chk)?	a stream's mutex
	(__)?pthread_(mutex|rwlock|spin|cond|attr|clockjoin|getcpu).*	threads'
	mtx_.*|sem_clockwait|__lll_lock_.*	threads' locks
	clock(_.*)?	clocks
	mun?lock(all)?|mlock(2|all)?	memory
	(__)?(str|wcs)n?dup|(__)?duplocale	copies of strings, of locales
	lckpwdf|ulckpwdf	a lock inside of libc, on a file of its own
	sig(block|(is)?emptyset)|regexec|re_exec	other words
	argp_err_exit_status|obstack_exit_failure|svc.*	other words
	xdr_.*|__cyg_profile_func_exit|unlockpt	other words
	rexec|rexec_af|rexecoptions	a command on another machine
	fork|__fork|forkpty|daemon	pthread_atfork(3) sees these
	pthread_atfork|__register_atfork	what tells us of them
	posix_spawn(attr|_file_actions)_.*	say what posix_spawn(3) is to do
	exit|on_exit|__cxa_.*atexit.*|__cxa_at_quick_exit	our destructor runs
	abort	a death by signal: the keeper sees it, or the ttl ends it
	fcloseall	flushes, and closes nothing (flock/lock-ends-with-last-close.t)
	_IO_file_close(_it)?|_IO_proc_(open|close)	steps of what we wrap
	(cat|iconv_|dl|mq_|sem_|fts_|fts64_)close	no file that a program locks
	sem_close|fts(64)?_close|closelog|__res_i?n?close	nor these
	openpty|login_tty	opens; onto 0, 1, 2 after a fork: the keeper
	pidfd_open|pidfd_send_signal	pass no descriptor
	__close_nocancel	glibc's own libraries', on files of theirs
	END
}

# Names with older versions, of which dlsym(3) gives us the newest, and what a
# program that was built for the older would miss.
older='posix_spawn	before 2.15 it gave a script without #! to the shell
posix_spawnp	the same
quick_exit	before 2.24 it ran thread-local destructors
thrd_exit	the same function'

table=$(sed -n 's/^[[:space:]]*X(\([A-Za-z0-9_]*\),.*/\1/p' \
	shim/os/table.h | sort -u)
if grep -qx setuid <<<"$table"; then # entry/privileges.c
	families+=$'\nset(e|re|res)?[ug]id|setgroups|initgroups'
	families+='|capset|unshare|setns'
fi
libc=$(ldd /usr/bin/env | sed -n 's,.*=> \(/.*/libc\.so\.6\) .*,\1,p')
# "address type name@version"
exported=$(nm -D --defined-only "$libc" | awk '$2 != "A"')
at_least "$(wc -l <<<"$exported")" 1000 "libc's exported names: $libc"

# The programs and libraries of this machine: "name@version".  Those who read
# them at once write a file each: their lines would mix in one pipe.
imports()
{
	local dir

	dir=$(mktemp -d) || return
	# shellcheck disable=SC2016 # expanded there
	find /usr/bin /usr/sbin /usr/lib /usr/libexec /usr/local -xdev \
		-type f \( -perm /111 -o -name '*.so*' \) -print0 2>/dev/null |
		xargs -0 -P "$(nproc)" -n 32 sh -c '
			dir=$0
			nm -D -u "$@" 2>/dev/null |
				awk "\$2 ~ /@GLIBC_/ { print \$2 }" >"$dir/$$"' "$dir"
	cat "$dir"/* | sort -u
	rm -rf "$dir"
}
began=$SECONDS
imported=$(imports)
note "the imports of this machine: $((SECONDS - began)) s"
at_least "$(wc -l <<<"$imported")" 500 'what the machine imports of libc'

# in_families: those of the names on standard input
in_families()
{
	sed 's/@.*//' | sort -u | grep -E "${families//$'\n'/|}"
}

# missed EXCEPTIONS: names that are in neither list
missed()
{
	{
		awk '$3 !~ /GLIBC_PRIVATE/ { print $3 }' <<<"$exported"
		echo "$imported"
	} | in_families | grep -vxF "$table" | grep -vxE "$1"
}

# Of another name of the same function, its address tells.
aliases()
{
	awk 'NR == FNR { table[$1]; next }
		{ name = $3; sub(/@.*/, "", name); at[name] = $1
		  if ($3 !~ /PRIVATE/) names[$1] = names[$1] " " name }
		END { for (n in at) if (n in table) print names[at[n]] }' \
		<(echo "$table") <(echo "$exported") |
		tr -s ' ' '\n' | sort -u | grep . | grep -vxF "$table"
}

regex=$(exceptions | cut -f1 | paste -sd'|')
is "$(exceptions | awk -F'\t' 'NF != 2 || !$2')" '' 'each exception has a reason'
is "$(missed "$regex")" '' 'no name of a family is missed'
is "$(aliases)" '' 'no other name of a function in the table is missed'
like "$(missed "${regex//|fork|/|}")" '(^|[[:space:]])fork' \
	'control: without its exception, fork() is found'
table_of_all=$table
table=$(grep -vxF __dup2 <<<"$table_of_all")
is "$(missed "$regex")" '__dup2' 'control: by its family, an alias is found'
is "$(aliases)" '__dup2' 'control: and by its address'
table=$table_of_all

# An old version that somebody here imports would get the new one's ways.
known=$(cut -f1 <<<"$older")
is "$(awk '{ print $3 }' <<<"$exported" | grep -v '@@' |
	grep -v PRIVATE | sed 's/@.*//' | grep -xF "$table" |
	grep -vxF "$known")" '' 'names in the table with older versions are known'
old=$(awk '{ print $3 }' <<<"$exported" | grep -v '@@' |
	grep -E "^(${known//$'\n'/|})@" | grep -v '^thrd_exit@')
is "$(grep -xF "$old" <<<"$imported")" '' 'nobody here imports those'
done_testing
