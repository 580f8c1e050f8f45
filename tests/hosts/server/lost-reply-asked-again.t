#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# The request arrives, the reply is lost: the client asks again with the same
# token, and holds what it was granted (DESIGN section 5, ambiguity).
. "${0%/*}/../../lib/rig.sh"

# What the server sees, as it executes it.
monitored()
{
	grep -c "$1" "$RIG/monitor"
}

# tokens [N]: of all questions, or of the first N
tokens()
{
	grep "$sha_acquire\"" "$RIG/monitor" | head -n "${1:--0}" |
		grep -oE 'dlock1 [0-9a-f]{32}' | sort -u | wc -l
}

is_monitored()
{
	rr echo "$1" >/dev/null
	grep -q "$1" "$RIG/monitor"
}

script_text()
{
	awk -v name="DLK_LUA_$1" '
		/^#define / { on = $2 == name; next }
		on {
			sub(/^\t"/, "")
			sub(/\\n"( \\)?$/, "")
			gsub(/\\"/, "\"")
			gsub(/\\\\/, "\\")
			print
		}' "$BUILD/gen/scripts.h"
}

# script_sha NAME [GUARD]: shim/redis/script.h
script_sha()
{
	{ script_text "$1"; printf '%s' "${2-}"; } | sha1sum | cut -d' ' -f1
}
GUARD=$'-- restart_delay 0ms, db 0\n'

rig_start disks
sha_acquire=$(script_sha acquire "$GUARD")
sha_release=$(script_sha release "$GUARD")
sha_renew=$(script_sha renew)
KEY=dlock:$MNT/f
proxy p
rig_config A url="redis://127.0.0.1:$PROXY/0" ttl=12s timeout=5s

locker a dl A
ask a 'open a f'
# The script is in the server's cache, the connection open.
ask a 'lock a EX'
is "$RESULT" 0 'first lock'
ask a 'lock a UN'
rig_empty 2

redis-cli -s "$RIG/redis.sock" monitor >"$RIG/monitor" &
MONITOR=$!
disown "$MONITOR"
until_true 2 is_monitored begin

# --- acquire --------------------------------------------------------------
ask p "lose $sha_acquire"
ask a 'lock a EX'
is "$RESULT" 0 'acquire: held in spite of the lost reply'
in_time $(((END - START) / 1000000)) 5200 'within the timeout (ms)' 200
ask p lost
is "$RESULT" 1 'a reply was lost indeed'
until_true 2 is_monitored acquired
at_least "$(monitored "$sha_acquire\"")" 2 'it was asked again'
# (Further attempts, where that is not answered in 200 ms, have others.)
is "$(tokens 2)" 1 'with the same token'
locker b dl B
ask b 'open a f'
ask b 'lock a EX NB'
is "$RESULT" EAGAIN 'it excludes'
is "$(cat "$RIG/a.err")" '' 'nothing to log'

# --- release --------------------------------------------------------------
ask p "lose $sha_release"
ask a 'lock a UN'
is "$RESULT" 0 'release: the unlock succeeds at once'
rig_empty 2 'release: the key is gone'
ask a 'lock a EX'
is "$RESULT" 0 'release, reply lost: the next lock works'
ask a 'lock a UN'
rig_empty 2 'nothing is left'

# --- given up -------------------------------------------------------------
until_true 2 is_monitored given
before=$(tokens)
ask p "strand $sha_acquire"
ask a 'lock a EX'
is "$RESULT" ENOLCK 'no reply at all: ENOLCK'
in_time $(((END - START) / 1000000)) 5200 'within the timeout (ms)' 200
is "$(rr dbsize)" 1 'though the server has granted it'
ask p pass
rig_empty 5 'what was given up is released when the server answers again'
until_true 2 is_monitored stranded
is "$(tokens)" $((before + 1)) 'it was asked for by one token'

# --- renewal --------------------------------------------------------------
ask a 'lock a EX'
token=$(rr get "$KEY")
ask p "lose $sha_renew"
lost_renewal()
{
	ask p lost
	[ "$RESULT" = 3 ]
}
ok 'a reply to a renewal is lost' until_true 8 lost_renewal
is_the_same()
{
	[ "$(rr get "$KEY")" = "$token" ]
}
ok 'renewal: the lease stays' throughout 1000 1 is_the_same
is_renewed()
{
	[ "$(rr pttl "$KEY")" -gt 9000 ]
}
ok 'and is renewed' until_true 5 is_renewed
ask a 'lock a UN'
kill "$MONITOR"
rig_end
