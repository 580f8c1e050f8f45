#!/bin/sh
# SPDX-License-Identifier: MIT
# Print a C header with each script as a string and its SHA-1, which is the
# name that EVALSHA calls it by (Redis: EVALSHA).  A line "--include FILE"
# stands for the text of FILE, beside the script.
whole()
{
	awk -v dir="$(dirname "$1")" '$1 == "--include" {
		while ((getline line <(dir "/" $2)) > 0)
			print line
		next
	} { print }' "$1"
}

echo '/* Generated from shim/lease/scripts/; do not edit. */'
for f; do
	name=$(basename "$f" .lua)
	sha=$(whole "$f" | sha1sum | cut -d' ' -f1)
	printf '#define DLK_SHA_%s "%s"\n' "$name" "$sha"
	printf '#define DLK_LUA_%s \\\n' "$name"
	whole "$f" | sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/\t"&\\n" \\/'
	echo
done
