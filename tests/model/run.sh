#!/bin/bash
# SPDX-License-Identifier: MIT
#
# make model: the protocol's models, searched through.  Status 0 only if every
# clean model keeps its properties and every seeded bug breaks one.
#
#	run.sh			all rows
#	run.sh --quick		the short ones (tests/static/model.t)
#	run.sh --trail MODEL PROPERTY FLAGS...	one row, with its trail: what
#				each client did, in a column of its own
#
# A row: MODEL PROPERTY BUG FLAGS.  The flags bound what may go wrong, and who
# takes part (model.h); within them every order of events is looked at, none
# is skipped by hashing.  Properties:
#	exclusion	never two owners inside their deadlines
#	served		nobody waits for ever while holders finish
#	forgotten	no key outlives its last user
set -u
cd "$(dirname "$0")" || exit 1
sources=$PWD
quick=${1-}
optimize=-O2 by=(nice)
if [ "$quick" = --quick ]; then
	optimize=-O0 by=()
	work=$(mktemp -d "${TMPDIR:-/tmp}/dlock-model.XXXXXX") || exit 1
	trap 'rm -rf "$work"' EXIT
else
	work=${B:-build}/model
	[ "${work#/}" != "$work" ] || work=../../$work
	mkdir -p "$work"
fi
cd "$work" || exit 1
cp "$sources"/*.pml "$sources"/model.h .

# A row that is marked so is one of the quick ones, too.
rows()
{
	cat <<-'END'
	lease	exclusion	-	NEIGHBOUR=1 CRASHES=1 COPIES=1 RENEWALS=0
	lease	exclusion	-	TTL=3 CRASHES=1 COPIES=1 LOSSES=1
	lease	exclusion	-	RESTARTS=1 COPIES=1 LOSSES=1
	lease	exclusion	-	RESTARTS=1 PROMOTED=1 COPIES=1
	lease	exclusion	-	RESTARTS=1 OLD=1 quick
	lease	exclusion	-	RESTARTS=1 OLD=1 TTL=3 RENEWALS=2 COPIES=1
	lease	exclusion	-	RESTARTS=1 OLD=1 PROMOTED=1 LOSSES=1
	lease	exclusion	-	RESTARTS=1 OLD=1 KEEPERS=1 CRASHES=1
	lease	exclusion	-	RESTARTS=1 OLD=1 NEIGHBOUR=1 TTL=3
	lease	exclusion	-	NEIGHBOUR=1 UNSHARES=1 COPIES=1 RENEWALS=0
	lease	exclusion	-	KEEPERS=1 CRASHES=1 COPIES=1
	lease	exclusion	-	KEEPERS=1 CRASHES=1 quick
	lease	exclusion	-	KEEPERS=1 NEIGHBOUR=1 RENEWALS=0
	lease	served		-	CRASHES=1 LOSSES=1 RENEWALS=0
	lease	served		-	RESTARTS=1 LOSSES=1
	lease	served		-	NEIGHBOUR=1 RENEWALS=0
	lease	forgotten	-	CRASHES=1 COPIES=1
	lease	forgotten	-	KEEPERS=1 CRASHES=1
	lease	exclusion	BUG_SINCE	NEIGHBOUR=1 CRASHES=1 COPIES=1 RENEWALS=0
	lease	exclusion	BUG_LOOK	NEIGHBOUR=1 UNSHARES=1 RENEWALS=0
	lease	exclusion	BUG_REPLY	quick
	lease	exclusion	BUG_RESEND	TTL=3 LOSSES=1
	lease	exclusion	BUG_DELAY	RESTARTS=1 quick
	lease	exclusion	BUG_LOAD	RESTARTS=1
	lease	exclusion	BUG_STRANGER	RESTARTS=1
	lease	exclusion	BUG_UPTIME	RESTARTS=1 PROMOTED=1
	lease	exclusion	BUG_KEEP	RESTARTS=1 OLD=1 TTL=3 quick
	lease	exclusion	BUG_HANDOVER	KEEPERS=1 CRASHES=1
	lease	forgotten	BUG_BLIND	KEEPERS=1
	stop	exclusion	-	STOPS=3 RENEWALS=3 LOSSES=2 quick
	stop	exclusion	-	TTL=6 STOPS=3 RENEWALS=3 LOSSES=2
	stop	exclusion	-	TTL=6 KEEPERS=1 STOPS=2 RENEWALS=2 LOSSES=2
	stop	exclusion	-	TTL=6 KEEPERS=1 SHARERS=1 STOPS=2 RENEWALS=3 LOSSES=2
	stop	exclusion	BUG_NO_TIMER	quick
	stop	exclusion	BUG_COUNT
	stop	exclusion	BUG_LATE
	stop	exclusion	BUG_HELD	KEEPERS=1
	stop	exclusion	BUG_SHARER	KEEPERS=1 SHARERS=1
	queue	exclusion	-	ROUNDS=2 quick
	queue	exclusion	-	ROUNDS=2 COPIES=1
	queue	exclusion	-	TTL=3 C=2 ROUNDS=2 COPIES=1 COPY=ASK
	queue	exclusion	-	NEIGHBOUR=1
	queue	exclusion	-	NEIGHBOUR=1 SPREAD=1
	queue	exclusion	-	NEIGHBOUR=2
	queue	exclusion	-	ROUNDS=2 LOSSES=1 CRASHES=1
	queue	exclusion	-	ROUNDS=2 RESTARTS=1 CANCELS=1
	queue	exclusion	-	ROUNDS=2 DEAF=1 CANCELS=1
	queue	exclusion	-	FAR=3 STRANGERS=1 COPIES=1 COPY=YIELD
	queue	served		-	PROMPT TTL=3 C=2 NEIGHBOUR=1
	queue	served		-	PROMPT TTL=3 C=2 CRASHES=1
	queue	served		-	PROMPT TTL=3 C=2 FOREVER=1
	queue	served		-	PROMPT NEIGHBOUR=1 CRASHES=1 VICTIM=1
	queue	forgotten	-	PROMPT CRASHES=1
	queue	exclusion	BUG_COUNT	ROUNDS=2 quick
	queue	exclusion	BUG_WAKE	ROUNDS=2 quick
	queue	exclusion	BUG_PASS	FAR=3 STRANGERS=1 COPIES=1 COPY=YIELD
	queue	exclusion	BUG_PROOF	NEIGHBOUR=2
	queue	exclusion	BUG_CONFIRM	ROUNDS=2 COPIES=1 LOSSES=1
	queue	exclusion	BUG_STAY	ROUNDS=2 COPIES=1
	queue	exclusion	BUG_EXTEND	TTL=3 C=2 ROUNDS=2 COPIES=1 COPY=ASK
	queue	exclusion	BUG_DELAY	ROUNDS=2 RESTARTS=1
	queue	served		BUG_REFRESH	PROMPT TTL=3 C=2 CRASHES=1 NEIGHBOUR=1
	queue	served		BUG_NEWCOMER	PROMPT TTL=3 C=2 FOREVER=1
	queue	forgotten	BUG_FORGET	PROMPT CRASHES=1
	END
}

# What happened in a trail, a column for each client.
trail()
{
	spin -t -T "$@" | awk -v names="tick ASK HEARTBEAT RENEW/CONFIRM RELEASE \
CANCEL YIELD RECLAIM SERVE reads-WAKE OWNS dies" '
		BEGIN { split(names, name, " ") }
		/say [0-9]+ [0-9]+/ {
			sub(/.*say /, "")
			if ($2 == 0)
				print "        -- tick"
			else
				printf "%*s%d.%d %s\n", 8 + ($2 - 1) % 4 * 24,
					"", ($2 - 1) % 4, int(($2 - 1) / 4),
					name[$1 + 1]
		}'
}

# search MODEL PROPERTY FLAGS...: pan's words are in pan.out
search()
{
	local model=$1 property=$2 compile=(-DCOLLAPSE -DMEMLIM=2800) flags
	local how=(-m1000000)

	shift 2
	flags=("${@/#/-D}")
	case $property in
	exclusion) flags+=(-DEXCLUSION) compile+=(-DSAFETY) ;;
	served)	   flags+=(-DFINISH) ;;
	forgotten) flags+=(-DEMPTY) ;;
	esac
	[ "$property" = exclusion ] || how+=(-a -f) compile+=(-DNFAIR=3)
	rm -f pan pan.out "$model.pml.trail"
	spin -a "${flags[@]}" "$model.pml" >pan.out 2>&1 &&
		gcc "$optimize" -w "${compile[@]}" -o pan pan.c >>pan.out 2>&1 &&
		"${by[@]}" timeout "${MODEL_TIMEOUT:-900}" ./pan "${how[@]}" >pan.out 2>&1
	[ -z "${show-}" ] || [ ! -e "$model.pml.trail" ] ||
		trail "${flags[@]}" "$model.pml"
}

# The verdict on pan.out: clean, broken (of two owners, or for ever), or none.
judge()
{
	if ! grep -q '^State-vector.*errors: ' pan.out ||
	   grep -qE 'too small|not completed|memory bound' pan.out; then
		grep -q 'errors: 1$' pan.out || { echo incomplete; return; }
	fi
	if grep -q 'errors: 0$' pan.out; then
		echo clean
	elif grep -qE 'acceptance cycle|assertion violated .*holding' pan.out; then
		echo broken
	else
		echo incomplete
	fi
}

if [ "$quick" = --trail ]; then
	shift
	show=1 search "$@"
	cat pan.out
	exit 0
fi

bad=0 runs=0
form='%-6s %-10s %-13s %11s %7s %6s  %-10s %s\n'
# shellcheck disable=SC2059 # the table's form
printf "$form" model property bug states depth sec verdict bounds
while read -r model property bug flags; do
	case " $flags " in
	*' quick '*) flags=${flags%quick} ;;
	*) [ "$quick" != --quick ] || continue ;;
	esac
	words=()
	read -ra words <<<"$flags"
	if [ "$bug" = - ]; then
		want=clean
		[ "$property" != exclusion ] || words+=(INTEGRITY)
	else
		want=broken
		words+=("$bug")
	fi
	search "$model" "$property" "${words[@]}"
	got=$(judge)
	case $got:$want in
	clean:clean)	verdict=ok ;;
	broken:broken)	verdict=found ;;
	*)		verdict="BAD:$got"; bad=$((bad + 1)) ;;
	esac
	runs=$((runs + 1))
	# shellcheck disable=SC2059
	printf "$form" "$model" "$property" "$bug" \
		"$(awk '/states, stored/ { print $1 }' pan.out)" \
		"$(sed -n 's/.*depth reached \([0-9]*\),.*/\1/p' pan.out)" \
		"$(sed -n 's/.*elapsed time \([0-9.]*\).*/\1/p' pan.out)" \
		"$verdict" "$flags"
done < <(rows)
echo "$runs searches, $bad bad (a trail: tests/model/run.sh --trail MODEL PROPERTY BOUNDS...)"
[ "$bad" = 0 ] && [ "$runs" -gt 0 ]
