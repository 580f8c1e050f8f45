/* SPDX-License-Identifier: MIT */
// link: shim/keeper/hear.c shim/keeper/carry.c shim/keeper/losses.c shim/keeper/file.c
// link: shim/keeper/look.c shim/keeper/locks.c shim/keeper/list.c
// link: shim/keeper/records.c shim/keeper/shadow_copy.c
// link: shim/keeper/description.c shim/keeper/errand.c
// link: shim/keeper/settle.c shim/keeper/obey.c shim/keeper/mirror.c
// link: shim/keeper/section.c shim/keeper/paused.c shim/keeper/victims.c
// link: shim/keeper/watchdog.c
/*
 * Mutated messages to the keeper, with too many descriptors, or odd ones: each
 * is answered once, and leaves no descriptor behind (tests/fuzz/keeper.c: and is
 * read within its bounds).  The generator is seeded: every run is alike.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/protocol.h"
#include "os/sys.h"
#include "model/timeline.h"
#include "tests/unit/lcg.h"
#include "tests/lib/keeper_rest.h"

enum { ROUNDS = 5000, WARM = 1024, MOST_FDS = 6, SIZE = 4096 };

#define TOKEN                                                                  \
	"dlock1 0123456789abcdef0123456789abcdef boot:id 8:1:2.00ff "          \
	"00000000000000000042 4711 host job"

static int shim, keeper; /* the ends of the socket */
static int file, path_only, pipe_end;
static struct stat st;

struct message {
	struct lcg g;
	size_t len;
	union {
		struct dlk_keep head;
		struct dlk_keep_add add;
		struct dlk_keep_renewed renewed;
		struct dlk_keep_cut cut;
		uint64_t align;
		char bytes[SIZE];
	} u;
};

/* --- messages ------------------------------------------------------------- */

static void make_add(struct message *m)
{
	static const char texts[] = "key\0" TOKEN "\0";
	const bool records = lcg_below(&m->g, 2);

	m->u.add = (struct dlk_keep_add){
		.head.type = DLK_KEEP_ADD,
		.key_len = 3,
		.token_len = sizeof(TOKEN) - 1,
		.ranges_key_len = records ? 3 : 0,
		.ttl_ms = 60000,
		.kind = records ? DLK_KEPT_POSIX + lcg_below(&m->g, 2)
				: DLK_KEPT_FLOCK,
		.shared = lcg_below(&m->g, 2),
		.revalidates = lcg_below(&m->g, 2),
		.remote = lcg_below(&m->g, 8) == 0,
		.pid = (uint32_t)getpid(),
		.on_lost = lcg_below(&m->g, DLK_LOST_REPORT + 1),
		.dev = st.st_dev,
		.node = st.st_ino,
		.granted_ns = dlk_now_ns(),
		.deadline_ns = dlk_now_ns() + 60000 * DLK_MS,
		.renew_ns = dlk_now_ns() + 20000 * DLK_MS,
	};
	memcpy(m->u.add.bytes, texts, sizeof(texts));
	memcpy(m->u.add.bytes + sizeof(texts) - 1, "pla", 4);
	m->len = sizeof(m->u.add) + sizeof(texts) + m->u.add.ranges_key_len;
	m->u.bytes[m->len - 1] = '\0';
}

static void make_renewed(struct message *m, uint32_t seq)
{
	const size_t n = lcg_below(&m->g, 8);

	m->u.head.type = DLK_KEEP_RENEWED;
	for (size_t i = 0; i < n; i++)
		m->u.renewed.renewals[i] = (struct dlk_keep_renewal){
			.lease = seq - (uint32_t)lcg_below(&m->g, 64),
			.deadline_ns = dlk_now_ns() + lcg_u32(&m->g),
		};
	m->len = sizeof(m->u.renewed) + n * sizeof(*m->u.renewed.renewals);
}

/* A ttl of 0 is none. */
static void make_cut(struct message *m)
{
	m->u.cut.ttl_ms = (uint32_t)lcg_below(&m->g, 3) * 1000;
	m->len = sizeof(m->u.cut);
}

static void make(struct message *m, uint32_t seq)
{
	static const uint32_t ends[] = { DLK_KEEP_DROP,
					 DLK_KEEP_DROP,
					 DLK_KEEP_OWE,
					 DLK_KEEP_LEFT,
					 DLK_KEEP_CLOSED,
					 DLK_KEEP_CUT,
					 DLK_KEEP_STAY,
					 DLK_KEEP_START,
					 0,
					 77 };

	memset(&m->u, 0, sizeof(m->u));
	m->len = sizeof(m->u.head);
	switch (lcg_below(&m->g, 4)) {
	case 0:
	case 1:
		make_add(m);
		break;
	case 2:
		make_renewed(m, seq);
		break;
	default:
		m->u.head.type = ends[lcg_below(&m->g, 10)];
		m->u.head.lease = seq - (uint32_t)lcg_below(&m->g, 64);
		if (m->u.head.type == DLK_KEEP_CUT)
			make_cut(m);
	}
	m->u.head.magic = DLK_KEEP_MAGIC;
	m->u.head.seq = seq;
}

/* A bit, a word, or the length: half of the messages stay as they are. */
static void mutate(struct message *m)
{
	static const uint32_t words[] = { 0,          1,          0x7fffffff,
					  0x80000000, 0xffffffff, 0xfffffffd,
					  DLK_KEY_MAX };

	for (size_t i = lcg_below(&m->g, 2) * lcg_below(&m->g, 4); i > 0; i--) {
		const size_t at = lcg_below(&m->g, m->len / 4) * 4;

		switch (lcg_below(&m->g, 3)) {
		case 0:
			m->u.bytes[at] ^= (char)(1 << lcg_below(&m->g, 8));
			break;
		case 1:
			memcpy(m->u.bytes + at, &words[lcg_below(&m->g, 7)], 4);
			break;
		default:
			m->len = 4 + lcg_below(&m->g, SIZE - 4);
		}
	}
}

/* --- descriptors ---------------------------------------------------------- */

static unsigned pick_fds(struct lcg *g, int fds[MOST_FDS])
{
	const int all[] = { file, file, file, file, path_only, pipe_end, shim };
	unsigned n =
		(unsigned)(lcg_below(g, 3) ? 1 : lcg_below(g, MOST_FDS + 1));

	for (unsigned i = 0; i < n; i++)
		fds[i] = all[lcg_below(g, 7)];
	return n;
}

/* Of descriptors or threads; of either list two entries are "." and "..". */
static size_t count(const char *list)
{
	DIR *d = opendir(list);
	size_t n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static bool is_alone(void)
{
	return count("/proc/self/task") == 2 + 1;
}

/* The descriptors that are open when nothing is carried or under way. */
static size_t fds_at_rest(void)
{
	for (int i = 0, rests = 0; i < 5000 && rests < 3; i++) {
		const bool alone = is_alone();

		/* What has come back may send an errand once more. */
		drop_all();
		dlk_errands_back();
		rests = alone && is_alone() ? rests + 1 : 0;
		if (!rests)
			dlk_pause_ns(DLK_MS);
	}
	assert_true(is_alone());
	return count("/proc/self/fd");
}

/* --- tests ---------------------------------------------------------------- */

static void send_it(const struct message *m, const int *fds, unsigned n)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(MOST_FDS * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)m->u.bytes, m->len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		control.align = (struct cmsghdr){ CMSG_LEN(n * sizeof(int)),
						  SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	assert_int_equal(sendmsg(shim, &msg, 0), m->len);
}

/* Who counts answers, by number; a second one only takes the first one back. */
static unsigned read_answers(unsigned *good)
{
	struct dlk_keep_answer a;
	unsigned n = 0;

	while (recv(shim, &a, sizeof(a), MSG_DONTWAIT) == sizeof(a)) {
		n++;
		*good += a.status == 0;
	}
	return n;
}

static void a_message_is_answered_once(void **state)
{
	struct message m = { .g = { 201 } };
	unsigned answers = 0, good = 0;
	size_t before = 0;

	(void)state;
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		int fds[MOST_FDS];
		unsigned n = pick_fds(&m.g, fds);

		make(&m, i);
		mutate(&m);
		send_it(&m, fds, n);
		dlk_obey();
		assert_false(dlk_shim_speaks());
		dlk_errands_back();
		answers += read_answers(&good);
		if (i % 64 == 0)
			drop_all();
		/* What is opened once, on first need, is by now. */
		if (i == WARM)
			before = fds_at_rest();
	}
	assert_int_equal(fds_at_rest(), before);
	answers += read_answers(&good);
	/* A late error is a second answer: there are few. */
	assert_in_range(answers, ROUNDS, ROUNDS + ROUNDS / 20);
	assert_in_range(good, ROUNDS / 10, ROUNDS - ROUNDS / 10);
}

/* --- the keeper's beginning ----------------------------------------------- */

static int begin(void **state)
{
	static const struct dlk_keep_server nowhere = {
		.ep = { .scheme = DLK_UNIX,
			.path = "/nonexistent",
			.connect_timeout_ms = 100 },
	};
	struct {
		struct dlk_keep head;
		struct dlk_keep_server server;
	} start = { { .magic = DLK_KEEP_MAGIC, .type = DLK_KEEP_START },
		    nowhere };
	char name[] = "/tmp/dlock-fuzz.XXXXXX";
	int ends[2], pipes[2], on = 1;

	(void)state;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ||
	    pipe(pipes))
		return -1;
	shim = ends[0];
	keeper = ends[1];
	pipe_end = pipes[0];
	setsockopt(shim, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	setsockopt(keeper, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	file = mkstemp(name);
	path_only = open(name, O_PATH | O_CLOEXEC);
	unlink(name);
	if (file < 0 || path_only < 0 || fstat(file, &st))
		return -1;
	return send(shim, &start, sizeof(start), 0) < 0 || !dlk_watch_init() ||
	       !dlk_errands_init() || !dlk_obey_begin(keeper);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_is_answered_once),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
