#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 40
#
# While a server's name is asked for, which may take long, nothing of ours is in
# the program's way (DESIGN L7): its descriptors have the numbers that they have
# bare, it may close all that there are, and nothing is read from what it opens
# then.
. "${0%/*}/../../lib/rig.sh"

rig_start disks
rig_configs ttl=20s connect_timeout=3s timeout=5s \
	url="redis://the-server:$PORT/0"

# One that answers when $RIG/answer is there.
cat >"$RIG/getent" <<-END
	#!/bin/sh
	echo >"$RIG/asked"
	until [ -e "$RIG/answer" ]; do sleep 0.02; done
	echo "127.0.0.1 STREAM the-server"
END
chmod +x "$RIG/getent"
on A mount --bind "$RIG/getent" /usr/bin/getent

is_asked()
{
	[ -e "$RIG/asked" ]
}

# A thread locks; then all is closed, and each number is another file's.
thread='__import__("threading").Thread(target=lambda: fcntl.flock(9, 2))'
files='[os.open("data", os.O_RDWR) for _ in range(20)]'
on A sh -c 'echo 0123456789 >data'

# scene NAME PRELOAD...: what the program sees
scene()
{
	local way=$1

	rm -f "$RIG/asked" "$RIG/answer"
	peer "$way" "$@" A /usr/bin/python3 "$TOP/tests/programs/obey.py"
	ask "$way" 'os.dup2(os.open("f", 66), 9)'
	ask "$way" "[t for t in [$thread] if not t.start()].append"
	if [ "$way" = dl ]; then
		ok "$way: the name is asked for" until_true 5 is_asked
	fi
	ask "$way" '(os.closerange(3, 9), os.open("data", os.O_RDWR))[1]'
	SAW=$RESULT
	ask "$way" "str((os.closerange(3, 64), $files)[1]).replace(' ', '')"
	SAW+=" $RESULT"
	touch "$RIG/answer"
	ask "$way" 'sleep(0.5)'
	ask "$way" '"".join(str(os.lseek(fd, 0, 1)) for fd in range(3, 23))'
	SAW+=" $RESULT"
	peer_end "$way"
}

scene on
bare=$SAW
scene dl
is "${bare##* }" 00000000000000000000 'bare: nothing is read'
is "$SAW" "$bare" 'its descriptors are those that it has bare'
rig_end
