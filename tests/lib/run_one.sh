#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Run one test for prove(1), a copy of its TAP and its status kept in $CHECK_DIR.
# Its time ('# timeout: SECONDS' in the script, 60 without) is that of a quiet
# machine; what takes ten times as long hangs.  (In a virtual machine without
# nested paging a new page cost 20 us, and a fork 1 ms: tests that mostly make
# processes took five times as long there.)
# What it says on standard error comes in one piece when it has ended, for
# others may run beside it.
#
# Nor does it have what a caller may have handed down: descriptors (tap.sh),
# signals that are ignored, as by nohup(1), a umask.
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh
umask 022
test=$1
limit=60
copy=$CHECK_DIR/${test//\//_}
case $test in
*.t)
	set -- bash "$test"
	limit=$(sed -n 's/^# timeout: //p;40q' "$test")
	;;
*)
	set -- "$PWD/$test"
	;;
esac
limit=$((10 * ${limit:-60}))
timeout -k 20 "$limit" env --default-signal "$@" 2>"$copy.err" | tee "$copy.tap"
status=${PIPESTATUS[0]}
[ "$status" != 124 ] || echo "# out of time ($limit s)" >>"$copy.err"
echo "$status" >"$copy.status"
[ ! -s "$copy.err" ] || sed "1i# --- $test" "$copy.err" >&2
exit "$status"
