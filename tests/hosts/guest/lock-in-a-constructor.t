#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# A library of the program locks in its constructor, before dlock has begun: it is
# granted or refused as any other (L7).
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/held.sh"

rig_start disks
cat >"$RIG/early.c" <<'END'
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

int early_result(void);

static int result;

__attribute__((constructor)) static void early(void)
{
	int fd = open("early", O_RDWR | O_CREAT, 0666);

	result = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
}

int early_result(void)
{
	return result;
}
END
cat >"$RIG/main.c" <<'END'
#include <stdio.h>
#include <string.h>

int early_result(void);

int main(void)
{
	int err = early_result();

	puts(err ? strerrorname_np(err) : "0");
	return 0;
}
END
ok 'a library and a program' "${CC:-cc}" -D_GNU_SOURCE -fPIC -shared \
	-o "$RIG/libearly.so" "$RIG/early.c"
ok 'the program is linked to it' "${CC:-cc}" -D_GNU_SOURCE -o "$RIG/early" \
	"$RIG/main.c" -L"$RIG" -learly -Wl,-rpath,"$RIG"
locker b dl B
ask b 'open e early'
ask b 'lock e EX'
is "$RESULT" 0 'early: the other host locks'
is "$(on A "$RIG/early")" 0 'early: without dlock it is granted (control)'
is "$(dl A "$RIG/early")" EAGAIN 'early: refused in the constructor'
ask b 'lock e UN'
is "$(dl A "$RIG/early")" 0 'early: granted when free'
prompt early "$(now)"
rig_end
