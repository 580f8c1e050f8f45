#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# While a keeper starts slowly nobody looks again and again whether it is there:
# one who ends or splits the process sleeps, and the thread goes on (DESIGN L4).
. "${0%/*}/../../lib/rig.sh"

# The library beside a keeper that begins when it is told to.
slow_keeper()
{
	mkdir "$RIG/lib"
	cp "$BUILD/libdlock-preload.so" "$RIG/lib/"
	cp_new waits goes
	cat >"$RIG/lib/dlock-keeper" <<-END
	#!/bin/sh
	echo >"$RIG/cp/waits"
	read x <"$RIG/cp/goes"
	exec "$BUILD/dlock-keeper"
	END
	chmod +x "$RIG/lib/dlock-keeper"
}

is_traced()
{
	! pgrep -f "$RIG/trace" >/dev/null
}

rig_start disks
rig_configs ttl=9s # longer than all of this takes
slow_keeper
peer a on A strace -f -qq -e trace=nanosleep,fork,vfork -e signal=none \
	-o "$RIG/trace" env LD_PRELOAD="$RIG/lib/libdlock-preload.so" \
	DLOCK_CONFIG="$RIG/A.conf" \
	/usr/bin/python3 "$TOP/tests/programs/obey.py"
ask a 'lock("f")'
# fork(2) waits for the keeper's word; 50 ms later the thread has it in mind.
say a 'took(child)'
ok 'a keeper is being started' cp_wait waits
sleep 0.5
ok 'and the call waits for it' eval '! hear a 0.01'
cp_reach goes
hear a
like "$RESULT" '^[0-9]+$' "it is there: after $RESULT ms"
naps=$(grep -c nanosleep "$RIG/trace")
at_most "$naps" 100 "there were $naps naps"
on A pkill -KILL -x python3
ok 'it ends' until_true 5 is_traced

# Its program is killed before it runs: it has nothing to say.
: >"$RIG/log"
peer b on A env LD_PRELOAD="$RIG/lib/libdlock-preload.so" \
	DLOCK_CONFIG="$RIG/A.conf" DLOCK_LOG="warning:$RIG/log" \
	/usr/bin/python3 "$TOP/tests/programs/obey.py"
ask b 'lock("g")'
say b 'took(child)'
ok 'another one is being started' cp_wait waits
on A pkill -KILL -x python3
peer_end b
cp_reach goes
ok 'and ends, for its program is dead' until_true 5 no_keeper A
is "$(cat "$RIG/log")" '' '... without a word'
like "$("$BUILD/dlock-keeper" 2>&1 </dev/null 3>&-)" \
	'is started by libdlock-preload.so only' 'by hand it says who starts it (control)'
# (Its lease has had no keeper.)
rig_empty 12
done_testing
