/* SPDX-License-Identifier: MIT */
// link: shim/keeper/hear.c shim/keeper/carry.c shim/keeper/losses.c shim/keeper/file.c
// link: shim/keeper/look.c shim/keeper/locks.c shim/keeper/list.c
// link: shim/keeper/records.c shim/keeper/shadow_copy.c
// link: shim/keeper/description.c shim/keeper/errand.c
// link: shim/keeper/settle.c shim/keeper/obey.c shim/keeper/mirror.c
// link: shim/keeper/section.c shim/keeper/paused.c shim/keeper/victims.c
// link: shim/keeper/watchdog.c
/*
 * Messages to the keeper, as the shim makes them but for some bytes.  Of each:
 *
 *	1	bits 0 to 2 which it is, 3 a descriptor comes with it, 4 it is cut
 *		off; the rest: the lease that it is about
 *	1	where, in fours, it differs
 *	1	how many bytes do
 *	...	each of them is xored with these
 *
 * Each is read within its bounds, and taken or refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/keeper_rest.h"

static int file = -1;

static void begin(void)
{
	struct {
		struct dlk_keep head;
		struct dlk_keep_server server;
	} start = {
		{ .magic = DLK_KEEP_MAGIC, .type = DLK_KEEP_START },
		{ .ep = { .scheme = DLK_UNIX,
			  .path = "/nonexistent",
			  .connect_timeout_ms = 100 } },
	};
	char name[] = "/tmp/dlock-fuzz.XXXXXX";
	int ends[2], on = 1;

	must(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	file = mkstemp(name);
	unlink(name);
	must(file >= 0 && send(ends[0], &start, sizeof(start), 0) > 0);
	must(dlk_watch_init() && dlk_errands_init() && dlk_obey_begin(ends[1]));
}

/* --- messages ------------------------------------------------------------- */

#define TOKEN                                                                  \
	"dlock1 0123456789abcdef0123456789abcdef boot:id 8:1:2.00ff "          \
	"00000000000000000042 4711 host job"

enum { SIZE = 2048 };

static struct {
	size_t len;
	union {
		struct dlk_keep head;
		struct dlk_keep_add add;
		struct dlk_keep_renewed renewed;
		struct dlk_keep_cut cut;
		uint64_t align;
		char bytes[SIZE];
	} u;
} m;

static void make_add(bool records)
{
	static const char texts[] = "key\0" TOKEN "\0";
	struct stat st;

	must(fstat(file, &st) == 0);
	m.u.add = (struct dlk_keep_add){
		.key_len = 3,
		.token_len = sizeof(TOKEN) - 1,
		.ranges_key_len = records ? 3 : 0,
		.ttl_ms = 60000,
		.kind = records ? DLK_KEPT_POSIX : DLK_KEPT_FLOCK,
		.pid = (uint32_t)getpid(),
		.dev = st.st_dev,
		.node = st.st_ino,
		.granted_ns = dlk_now_ns(),
		.deadline_ns = dlk_now_ns() + 60000 * DLK_MS,
		.renew_ns = dlk_now_ns() + 20000 * DLK_MS,
	};
	memcpy(m.u.add.bytes, texts, sizeof(texts));
	memcpy(m.u.add.bytes + sizeof(texts) - 1, "pla", 4);
	m.len = sizeof(m.u.add) + sizeof(texts) + m.u.add.ranges_key_len;
	m.u.bytes[m.len - 1] = '\0';
}

static void make(unsigned which, uint32_t lease, uint32_t seq)
{
	static const uint32_t types[] = {
		DLK_KEEP_ADD,  DLK_KEEP_ADD,  DLK_KEEP_RENEWED, DLK_KEEP_CUT,
		DLK_KEEP_DROP, DLK_KEEP_LEFT, DLK_KEEP_OWE,     DLK_KEEP_CLOSED,
	};

	memset(&m, 0, sizeof(m));
	m.len = sizeof(m.u.head);
	if (which <= 1)
		make_add(which);
	m.u.head.magic = DLK_KEEP_MAGIC;
	m.u.head.type = types[which];
	m.u.head.seq = seq;
	m.u.head.lease = lease;
	if (which == 2) {
		m.u.renewed.renewals[0].lease = lease;
		m.u.renewed.renewals[0].deadline_ns = dlk_now_ns();
		m.len = sizeof(m.u.renewed) + sizeof(*m.u.renewed.renewals);
	} else if (which == 3) {
		m.u.cut.ttl_ms = 1000;
		m.len = sizeof(m.u.cut);
	}
}

static void say(bool with_file)
{
	int fds[DLK_KEEP_FDS] = { -1, -1, -1 };
	/* (Aligned as a message is.) */
	void *box = malloc(m.len);

	must(box);
	memcpy(box, m.u.bytes, m.len);
	if (with_file)
		fds[0] = dup(file);
	dlk_obey_message(box, m.len, fds);
	for (int i = 0; i < DLK_KEEP_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(box);
	dlk_errands_back();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	uint32_t seq = 0;

	if (file < 0)
		begin();
	while (n >= 3 && seq < 16) {
		size_t at = bytes[1] * 4u, count = bytes[2];
		const unsigned what = bytes[0];

		bytes += 3;
		n -= 3;
		if (count > n)
			count = n;
		make(what & 7, what >> 5, ++seq);
		if ((what & 16) && at >= sizeof(struct dlk_keep) && at < m.len)
			m.len = at;
		for (size_t i = 0; i < count && at + i < m.len; i++)
			m.u.bytes[at + i] =
				(char)(m.u.bytes[at + i] ^ bytes[i]);
		bytes += count;
		n -= count;
		say(!(what & 8));
	}
	drop_all();
	return 0;
}
