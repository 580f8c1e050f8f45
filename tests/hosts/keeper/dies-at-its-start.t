#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# A keeper that ends as soon as it is started, and answers nothing, is told of, and
# another one is started a second later: not as many as can be.
. "${0%/*}/../../lib/rig.sh"

has_started()
{
	[ "$(wc -l <"$RIG/starts")" -ge "$1" ]
}

rig_start disks
rig_configs ttl=6s
mkdir "$RIG/lib"
cp "$BUILD/libdlock-preload.so" "$RIG/lib/"
cat >"$RIG/lib/dlock-keeper" <<-END
#!/bin/sh
echo >>"$RIG/starts"
END
chmod +x "$RIG/lib/dlock-keeper"
: >"$RIG/starts"
peer a on A env LD_PRELOAD="$RIG/lib/libdlock-preload.so" \
	DLOCK_CONFIG="$RIG/A.conf" DLOCK_LOG="warning:$RIG/log" \
	/usr/bin/python3 "$TOP/tests/programs/obey.py"
from=$(now)
ask a 'lock("f")'
ok 'keepers are started' until_true 20 has_started 3
took=$((($(now) - from) / 1000000))
ok "... the third one after two seconds ($took ms)" test "$took" -ge 1900
like "$(cat "$RIG/log")" \
	'no keeper for the lease [^ ]*/f: .*: it has ended as soon as it was started' \
	'... which is said'
is "$(wc -l <"$RIG/log")" 1 '... once'
peer_end a
rig_end
