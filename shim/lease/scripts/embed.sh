#!/bin/sh
# SPDX-License-Identifier: MIT
# Print a C header with each script as a string and its SHA-1, which is the
# name that EVALSHA calls it by (Redis: EVALSHA).
echo '/* Generated from shim/lease/scripts/; do not edit. */'
for f; do
	name=$(basename "$f" .lua)
	sha=$(sha1sum <"$f" | cut -d' ' -f1)
	printf '#define DLK_SHA_%s "%s"\n' "$name" "$sha"
	printf '#define DLK_LUA_%s \\\n' "$name"
	sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/\t"&\\n" \\/' "$f"
	echo
done
