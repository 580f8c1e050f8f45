#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# What the sample, the manuals and the README promise is there: no text names a
# verb that the tools do not have, or a section that no manual has.
cd "${0%/*}/../.." || exit 1
. tests/lib/tap.sh

# --- verbs ------------------------------------------------------------------

build/dlockctl help >/dev/null || exit 1
verbs=$(build/dlockctl help | sed -n 's/^  \([a-z]\{2,\}\)\( .*\)\?$/\1/p')
ok 'dlockctl has verbs' test "$(wc -l <<<"$verbs")" -ge 2

# named TEXT...: the verbs that follow the tool's name
named()
{
	grep -ohE \
		'dlockctl( (-c|--redis) [^ ]+| --json| \[--json\])* [a-z]{2,}' "$@" |
		sed 's/.* //' | sort -u
}

texts=(config/dlock.conf config/dlock.7 README.md tests/hosts/tools/demo.sh)
wrong=$(comm -13 <(printf '%s\nhelp\n' "$verbs" | sort) \
	<(named "${texts[@]}" | grep -vxE 'and|is|for|reads|of|manual'))
is "$wrong" '' 'every verb that is named is there'
is "$(named <(echo 'Check it with: dlockctl --json doctor'))" doctor \
	'a verb is seen (control)'
like "$(named config/dlock.conf)" explain 'the sample names one'

# --- the front page ---------------------------------------------------------

# shellcheck disable=SC2016 # its own marks
at_most "$(wc -w <README.md)" 700 'the front page is read in minutes'
is "$(sh tools/picture.sh)" "$(cat tools/picture.svg)" \
	'its picture is what its script draws'
# shellcheck disable=SC2016 # its own marks
is "$(grep '^| `[a-z_]*` |' README.md)" '' \
	'and it has no table of options: dlock.conf(5) has it'
# shellcheck disable=SC2016 # its own marks
is "$(grep '^| `[a-z_]*` |' <<<'| `ttl` | 30s |')" '| `ttl` | 30s |' \
	'... which would be seen (control)'

# --- sections of the manuals --------------------------------------------------

# sections TEXT...: "PAGE.N SECTION", of each that is named
sections()
{
	cat "$@" | tr -s '\n ' ' ' |
		grep -oE '[a-z.]+\([1-8]\), [A-Z][A-Z ]*[A-Z]' |
		sed -E 's/\(([1-8])\), +/.\1 /'
}

# not_there: those, on standard input, that no page has
not_there()
{
	local page section

	while read -r page section; do
		grep -qxF ".Sh $section" config/"$page" tools/"$page" \
			2>/dev/null || echo "$page $section"
	done
}
texts=(README.md shim/DESIGN.md tests/bench/README.md)
ok 'texts name sections' test "$(sections "${texts[@]}" | wc -l)" -ge 4
is "$(sections "${texts[@]}" | not_there)" '' 'and each is in its page'
is "$(sections <(echo 'see dlock(7), MAGIC WORDS, and') | not_there)" \
	'dlock.7 MAGIC WORDS' 'a section is seen (control)'
done_testing
