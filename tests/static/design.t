#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# shim/DESIGN.md is true of the tree in what can be compared: each citation of
# it names a section, each script and each message of the keeper's has its entry
# and each entry one of those, each duration is named, and each name that it uses
# is one of the tree.
cd "${0%/*}/../.." || exit 1
. tests/lib/tap.sh
shopt -s nullglob

doc=shim/DESIGN.md
sections=$(sed -nE 's/^#+ (L?[0-9]+(\.[0-9]+)*)\.? .*/\1/p' "$doc")
ok 'it has sections' test "$(wc -l <<<"$sections")" -ge 40
is "$(sort <<<"$sections" | uniq -d)" '' 'no two of one number'
is "$(grep -E '^L' <<<"$sections" | tr '\n' ' ')" \
	'L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 ' 'the laws are L1 to L10'
at_most "$(wc -l <"$doc")" 1350 'it can be read in an hour'

# citations FILE...: "FILE SECTION" of each, or "FILE ?" for one of nothing.  A
# citation may go over the end of a comment's line.
citations()
{
	perl -0777 -ne '
		s/\n[ \t]*(?:\*|--|#|\/\/)?[ \t]*/ /g;
		while (/\bDESIGN\b(?!\.md|_)(?=(.{0,80}))/g) {
			my $rest = $1;
			my $ref = qr/L\d+|\d+(?:\.\d+)*/;
			if ($rest =~ /^ (?:section )?($ref(?:(?:,| and) $ref)*)/) {
				print "$ARGV $_\n" for $1 =~ /$ref/g;
			} else {
				print "$ARGV ?\n";
			}
		}' "$@"
}

# unknown: the citations, on standard input, of what is no section.
unknown()
{
	awk -v sections="$sections" '
		BEGIN {
			n = split(sections, list, "\n")
			for (i = 1; i <= n; i++)
				known[list[i]] = 1
		}
		!($2 in known) { print $1 ": DESIGN " $2 }' | sort -u
}

mapfile -t sources < <(find Makefile README.md config shim tools tests -type f \
	\( -name '*.[chst157]' -o -name '*.lua' -o -name '*.inc' \
	-o -name '*.sh' -o -name '*.py' -o -name '*.pml' -o -name '*.md' \
	-o -name '*.conf' -o -name Makefile \) \
	! -path "$doc" ! -path tests/static/design.t)
cited=$(citations "${sources[@]}")
ok 'comments cite it' test "$(wc -l <<<"$cited")" -ge 100
is "$(unknown <<<"$cited")" '' 'each citation is of a section that there is'

# --- scripts, messages, durations ------------------------------------------
scripts=shim/lease/scripts
entries=$(sed -nE 's/^### 7\.[0-9]+ ([a-z_]+\.lua).*/\1/p' "$doc" | sort)
is "$entries" "$(cd "$scripts" && printf '%s\n' *.lua | sort)" \
	'each script has its entry, and each entry is a script'
for part in "$scripts"/*.inc; do
	grep -qF "\`${part##*/}\`" "$doc" || echo "${part##*/}"
done >"${TMPDIR:-/tmp}/design.$$"
is "$(cat "${TMPDIR:-/tmp}/design.$$")" '' 'so has each part of scripts'
rm -f "${TMPDIR:-/tmp}/design.$$"

# The last argument that a script uses, against the last that its entry counts.
# (An entry that says "as 7.3" has none.)
counts()
{
	local script

	for script; do
		awk -v name="${script##*/}" '
			{
				sub(/--.*/, "")
				for (rest = $0; match(rest, /(KEYS|ARGV)\[[0-9]+\]/);
				     rest = substr(rest, RSTART + RLENGTH)) {
					what = substr(rest, RSTART, 4)
					n = substr(rest, RSTART + 5) + 0
					if (n > most[what])
						most[what] = n
				}
			}
			END { print name, most["ARGV"] + 0 }' "$script"
	done
}
said()
{
	awk '
		/^### 7\./ { name = $3 }
		/^## / { name = "" }
		name && /^    / {
			text = $0
			if (sub(/.*ARGV/, "", text))
				in_argv[name] = 1
			else if ($0 ~ /^    (\{|[01] |now|KEYS)/)
				in_argv[name] = 0
			if (in_argv[name])
				while (match(text, /(^|  +|: )[0-9]+ /)) {
					n = substr(text, RSTART, RLENGTH)
					gsub(/[^0-9]/, "", n)
					if (n + 0 == most[name] + 1)
						most[name] = n + 0
					text = substr(text, RSTART + RLENGTH - 1)
				}
		}
		END { for (name in most) print name, most[name] }' "$doc"
}
differ=$(join <(counts "$scripts"/*.lua | sort) <(said | sort) |
	awk '$2 > $3 { print $1 " uses ARGV " $2 ", its entry has " $3 }')
is "$differ" '' 'and no script takes an argument that its entry has not'

named()
{
	grep -qE "\`([^\`]*[^A-Za-z0-9_\`])?$1([^A-Za-z0-9_\`][^\`]*)?\`" "$doc"
}

missing()
{
	local name

	while read -r name; do
		named "$name" || echo "$name"
	done
}

messages=$(sed -n '/^struct dlk_keep {/q;p' shim/keeper/protocol.h |
	grep -oE '^[[:space:]]*DLK_KEEP_[A-Z_]+' | tr -d '[:blank:]' |
	grep -vE '_(MAGIC|FDS|BYTES|SIZE|SERVERS|RENEWALS)$')
ok 'the keeper is told things' test "$(wc -l <<<"$messages")" -ge 4
is "$(missing <<<"$messages")" '' 'each message to the keeper is there'
durations=$(grep -oE '\b(dlk_[a-z_]+_(ns|ms)\(|DLK_[A-Z_]*MS\b)' \
	shim/model/timeline.h | tr -d '(' | sort -u
grep -rhoE '\b[A-Z_]+_MS = ' shim --include='*.[ch]' | sed 's/ = //' | sort -u)
ok 'there are durations' test "$(wc -l <<<"$durations")" -ge 20
is "$(missing <<<"$durations")" '' 'each duration is there'

# --- and nothing else -------------------------------------------------------
# strangers: names in backticks, and files, that the tree does not have.
strangers()
{
	local name tree=$1

	perl -ne 'for (/`([^`]+)`/g) {
		print "$_\n" for /\b(?:dlk|DLK)_\w+/g;
		print "$_\n" if /^[A-Z]+_MS$|^[a-z_]+$/;
	}' "$doc" | sort -u | comm -23 - "$tree"
	grep -oE '\b(shim|tests|config|tools|keeper|lease|model)/[A-Za-z0-9_./-]*[a-z0-9]\b' \
		"$doc" | sort -u |
		while read -r name; do
			[ -e "$name" ] || [ -e "shim/$name" ] || echo "$name"
		done
	grep -oE '\b[a-z_]+\.(c|h|inc|lua|pml|sh)\b' "$doc" | sort -u |
		while read -r name; do
			[ -n "$(find shim tests config tools -name "$name")" ] ||
				echo "$name"
		done
}
words=$(mktemp)
printf '%s\n' "${sources[@]}" | grep -v '\.md$' | xargs cat | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | LC_ALL=C sort -u >"$words"
export LC_ALL=C
is "$(strangers "$words")" '' 'each name and file in it is one of the tree'

# The test can see.
is "$(citations /dev/stdin <<<$' * (DESIGN\n * L99, 4.1 and 98) DESIGN of old' |
	unknown)" $'/dev/stdin: DESIGN 98\n/dev/stdin: DESIGN ?\n/dev/stdin: DESIGN L99' \
	'control: it sees a citation of nothing'
is "$(missing <<<DLK_KEEP_NONE)" DLK_KEEP_NONE 'control: and what is not named'
printf 'dlk_nothing\n' >"$words"
ok 'control: and a name that the tree has not' test -n "$(strangers "$words")"
rm -f "$words"
done_testing
