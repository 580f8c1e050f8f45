#!/bin/sh
# SPDX-License-Identifier: MIT
# Print a C header with each script as a string and its SHA-1, which is the
# name that EVALSHA calls it by (Redis: EVALSHA).  A line "--include FILE"
# stands for the text of FILE, beside the script, and what that includes, where
# it stands first.
whole()
{
	awk -v dir="$(dirname "$1")" 'function show(file, line) {
		if (seen[file]++)
			return
		while ((getline line <file) > 0)
			if (line ~ /^--include /)
				show(dir "/" substr(line, 11))
			else
				print line
		close(file)
	} BEGIN { show(ARGV[1]) }' "$1"
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
