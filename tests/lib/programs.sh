# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# An ordinary program, bare and under dlock, on the managed path of host A;
# after rig.sh, and rig_start:
#
#	programs_start [LINE...]	lines for the rule
#	program NAME none|locks|killed [SED] <<'END'
#	COMMAND (sh)
#	END
#	is_seen WHAT <<'END' ...	a control: the two runs must differ
#
# The command runs in a fresh directory, the same for both runs, that holds
# src/1 .. src/20.  Compared are exit status, standard output and error, and
# every file: type, mode, owner, size, link and content.  SED mends what the
# program itself makes different each time; the row says why.
#
#  1. Under `none` Redis MUST NOT even be connected to.
#  2. Under `locks` the program MUST have asked Redis for a lease, so that
#     alike does not mean that nothing was locked.
#  3. Nothing is left afterwards: no key, no process.  Under `killed`, which is
#     `locks` otherwise, the program is killed with a young lock in hand, of
#     which no keeper knows yet: its key may live as long as its ttl.
WORK=
TTL=5 # the rig's, seconds

# Programs that give up root need to reach library, configuration and files.
programs_start()
{
	mkdir "$RIG/lib"
	cp "$BUILD/libdlock-preload.so" "$BUILD/dlock-keeper" "$RIG/lib/"
	BUILD=$RIG/lib
	WORK=$MNT/work
	rig_config A path_more="$*"
	chmod 711 "$RIG"
	chmod -R go+rX "$RIG/lib" "$RIG/A.conf"
	setpriv --reuid 65534 --clear-groups test -r "$RIG/A.conf" ||
		rig_die "$RIG: user nobody must be able to go there"
}

# shellcheck disable=SC2016 # expanded on the host
fixture='umask 022; cd "$1" && rm -rf work && mkdir -p work/src && cd work/src &&
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	echo "line $i of the fixture" >$i
done && touch -d @1700000000 . *'

# shellcheck disable=SC2016
listing='cd "$1" && find . -mindepth 1 \
	-printf "%p %y %M %U:%G %l\n" | LC_ALL=C sort
find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum'

# captured on|dl COMMAND SED: to $RIG/on.txt or $RIG/dl.txt
captured()
{
	local how=$1 status=0

	on A sh -c "$fixture" sh "$MNT" || rig_die 'no fixture'
	"$how" A env -C "$WORK" HOME="$WORK" TMPDIR="$WORK" LC_ALL=C.UTF-8 \
		PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		timeout -k 2 400 sh -c "$2" </dev/null \
		>"$RIG/stdout" 2>"$RIG/stderr" || status=$?
	until_true 2 host_is_idle || status="$status, and a process is left"
	{
		printf 'status %s\n' "$status"
		echo '--- stdout' && cat "$RIG/stdout"
		echo '--- stderr' && cat "$RIG/stderr"
		echo '--- files' && on A sh -c "$listing" sh "$WORK"
	} | sed -E "$3" >"$RIG/$how.txt"
}

# Since the last `config resetstat`; our own redis-cli is one connection.
connections()
{
	echo $(($(stat_of stats total_connections_received) - 1))
}

program()
{
	local name=$1 leases=$2 mend=${3-} command until=2

	[ "$leases" != killed ] || until=$TTL
	command=$(cat)
	captured on "$command" "$mend"
	if grep -q ': not found$' "$RIG/on.txt"; then
		fail "$name: is installed"
	fi
	rr config resetstat >/dev/null
	captured dl "$command" "$mend"
	if [ "$leases" = none ]; then
		is "$(connections)" 0 "$name: Redis is left alone"
	else
		at_least "$(scripts_called)" 1 "$name: takes a lease"
	fi
	# An empty database is the end of every row, so it is asked first.
	if ! until_true "$until" db_is_empty; then
		fail "$name: as bare, and nothing is left"
		diag "$(rr keys '*')"
		rr flushall >/dev/null
	elif cmp -s "$RIG/on.txt" "$RIG/dl.txt"; then
		pass "$name: as bare, and nothing is left"
	else
		fail "$name: as bare, and nothing is left"
		diag "$(diff "$RIG/on.txt" "$RIG/dl.txt" | head -40)"
	fi
	if grep -qE '^dlock|ld\.so: object' "$RIG/dl.txt"; then
		fail "$name: no message of ours"
	fi
}

is_seen()
{
	local command

	command=$(cat)
	captured on "$command" ''
	captured dl "$command" ''
	if cmp -s "$RIG/on.txt" "$RIG/dl.txt"; then
		fail "control: $1 is seen"
	else
		pass "control: $1 is seen"
	fi
}
