#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The picture of the front page, as SVG: two hosts, the kernel's lock in each, and
# the lease at Redis.  tools/picture.svg is what this prints.
#
# It has no colours of its own but two, so that it can be read on a page of either
# kind, and no script, style sheet or font from anywhere.
set -eu

# box X Y WIDTH HEIGHT TEXT [FILL]
box()
{
	echo "  <rect x=\"$1\" y=\"$2\" width=\"$3\" height=\"$4\" rx=\"6\"" \
		"fill=\"${6-none}\" stroke=\"#777\"/>"
	text $(($1 + $3 / 2)) $(($2 + $4 / 2 + 5)) "$5" middle
}

# text X Y TEXT [ANCHOR]
text()
{
	echo "  <text x=\"$1\" y=\"$2\" text-anchor=\"${4-start}\">$3</text>"
}

# arrow X1 Y1 X2 Y2
arrow()
{
	echo "  <line x1=\"$1\" y1=\"$2\" x2=\"$3\" y2=\"$4\"" \
		"stroke=\"#777\" marker-end=\"url(#head)\"/>"
}

# host X NAME KERNEL
host()
{
	echo "  <rect x=\"$1\" y=\"10\" width=\"210\" height=\"190\" rx=\"10\"" \
		"fill=\"none\" stroke=\"#777\" stroke-dasharray=\"4 3\"/>"
	text $(($1 + 12)) 30 "$2"
	box $(($1 + 25)) 42 160 34 'flock -n f ./job'
	arrow $(($1 + 105)) 76 $(($1 + 105)) 97
	box $(($1 + 25)) 100 160 34 'libdlock-preload.so'
	arrow $(($1 + 105)) 134 $(($1 + 105)) 155
	box $(($1 + 25)) 158 160 34 "$3" "$4"
}

cat <<'END'
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 210" width="720" height="210" font-family="sans-serif" font-size="13" fill="#888" role="img">
  <title>Two hosts; a program's lock is taken in its kernel, then in Redis</title>
  <defs>
    <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#777"/></marker>
  </defs>
END
host 10 'host A' '1. kernel lock' none
host 500 'host B' '1. kernel lock: given back' none
echo '  <ellipse cx="360" cy="117" rx="62" ry="34" fill="none" stroke="#2a7"/>'
text 360 113 'Redis' middle
text 360 130 'lease: A' middle
arrow 195 117 294 117
text 258 108 '2. granted' middle
arrow 525 117 426 117
text 462 108 '2. refused' middle
echo '</svg>'
