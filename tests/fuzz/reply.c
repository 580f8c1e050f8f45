/* SPDX-License-Identifier: MIT */
/*
 * What a server may answer to each thing that is asked of it.  The first byte
 * chooses the question; the rest is what comes back, and then the end.  A grant is
 * none without the words for it, and no answer is larger than its room.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "lease/lease.h"
#include "lease/queue.h"
#include "lease/ranges.h"
#include "lease/records.h"
#include "lease/upkeep.h"
#include "lease/waits.h"
#include "model/timeline.h"
#include "redis/script.h"
#include "tests/fuzz/fuzz.h"

#define TOKEN                                                                  \
	"dlock1 0123456789abcdef0123456789abcdef boot:id 8:1:2.00ff "          \
	"00000000000000000042 4711 host job"
#define WHAT                                                                   \
	"W00000000000000000000000000000000000009"                              \
	"0123456789abcdef0123456789abcdef+"

enum { SOON_MS = 1000, MANY = 4 };

static struct dlk_endpoint ep = { .scheme = DLK_UNIX,
				  .restart_delay_ms = 30000,
				  .connect_timeout_ms = 100,
				  .name = "fuzz" };
static const struct dlk_lease whole = { .key = "k",
					.key_len = 1,
					.token = TOKEN,
					.token_len = sizeof(TOKEN) - 1,
					.ttl_ms = 9000 };
static struct dlk_conn *c;
static struct dlk_answer answer;

static struct dlk_lease records(void)
{
	struct dlk_lease l = whole;

	l.ranges_key = "{k}%r";
	l.ranges_key_len = 5;
	return l;
}

/* A connection whose other end has said all of it, and hears. */
static int listener(const uint8_t *bytes, size_t n)
{
	int ends[2];

	if (!c)
		c = dlk_conn_new(&ep);
	must(c &&
	     socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	dlk_conn_close(c);
	memset(&c->server, 0, sizeof(c->server));
	must(dlk_own_take(&c->own, ends[0]) == 0);
	must(send(ends[1], bytes, n, 0) == (ssize_t)n);
	shutdown(ends[1], SHUT_WR);
	return ends[1];
}

static void check(int err)
{
	must(answer.holder_len < sizeof(answer.holder));
	must(err <= DLK_SUSPECTED);
}

static void ask(uint8_t which, uint64_t by)
{
	struct dlk_lease l = records();
	struct dlk_waiter w = { .claim = TOKEN,
				.claim_len = sizeof(TOKEN) - 1,
				.channel = DLK_NO_CHANNEL,
				.what = WHAT,
				.claim_ttl_ms = 500 };
	const struct dlk_range all = { 0, DLK_RANGE_MAX, DLK_WRITE };
	const struct dlk_records_ask range = {
		.range = all, .seq = 1, .since_ns = 42, .waiter = &w
	};

	switch (which) {
	case 0:
		check(dlk_lease_acquire(c, by, &whole, false, NULL, &w,
					&answer));
		break;
	case 1:
		check(dlk_records_acquire(c, by, &l, &range, &answer));
		break;
	case 2:
		check(dlk_records_get(c, by, &l, &all, 42, &answer));
		break;
	case 3:
		check(dlk_queue_say(c, by, "heartbeat", &whole, &w, &answer));
		break;
	default:
		check(dlk_queue_say(c, by, "heartbeat", &l, &w, &answer));
	}
}

static void keep_up(bool release, uint64_t by)
{
	struct dlk_lease leases[MANY] = { whole, records(), whole, records() };
	struct dlk_renewal u[MANY] = { 0 };

	for (int i = 0; i < MANY; i++) {
		u[i].lease = &leases[i];
		u[i].deadline_ns = by;
	}
	if (release)
		dlk_release_batch(c, by, u, MANY);
	else
		dlk_renew_batch(c, by, u, MANY);
	for (int i = 0; i < MANY; i++)
		must(u[i].result <= DLK_SUSPECTED);
}

static int more(struct dlk_ranges *set, size_t n)
{
	struct dlk_range *v = realloc(set->v, n * sizeof(*v));

	must(v);
	set->v = v;
	set->room = n;
	return 0;
}

static void list(uint64_t by)
{
	struct dlk_lease l = records();
	struct dlk_ranges held = { .grow = more };
	uint64_t seq = 0;

	if (dlk_records_list(c, by, &l, &held, &seq) == 0)
		for (size_t i = 0; i < held.n; i++)
			must(held.v[i].start <= held.v[i].end &&
			     held.v[i].end <= DLK_RANGE_MAX);
	free(held.v);
}

static void wait_for(uint8_t which, uint64_t by)
{
	static struct dlk_wait wait;
	dlk_process blockers[DLK_BLOCKERS_MAX];
	uint64_t clock = 0;
	int n;

	memset(&wait, 0, sizeof(wait));
	strcpy(wait.process, "0123456789abcdef");
	strcpy(wait.owner, "-");
	wait.key_len = 5;
	strcpy(wait.key, "k%rec");
	switch (which) {
	case 0:
		dlk_wait_tell(c, by, &wait);
		break;
	case 1:
		dlk_wait_confirm(c, by, wait.process, 7, NULL, &clock);
		break;
	case 2:
		if (dlk_wait_read(c, by, "0123456789abcdef", 0, &wait) == 1)
			must(wait.key_len <= DLK_KEY_MAX &&
			     wait.range.start <= wait.range.end);
		break;
	default:
		n = dlk_wait_blockers(c, by, &wait, blockers);
		must(n <= DLK_BLOCKERS_MAX);
		for (int i = 0; i < n; i++)
			must(strlen(blockers[i]) == DLK_PROCESS_LEN);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	const uint64_t by = dlk_now_ns() + SOON_MS * DLK_MS;
	struct dlk_youth youth;
	int fd;

	if (n < 1 || n > 65536)
		return 0;
	memset(&answer, 0, sizeof(answer));
	fd = listener(bytes + 1, n - 1);
	switch (bytes[0] % 13) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
		ask(bytes[0] % 13, by);
		break;
	case 5:
	case 6:
		keep_up(bytes[0] % 13 == 5, by);
		break;
	case 7:
		list(by);
		break;
	case 8:
		if (dlk_script_young(c, by, &youth) == 0)
			must(youth.left_ms ||
			     (!youth.emptied && !youth.since_ns));
		break;
	default:
		wait_for(bytes[0] % 13 - 9, by);
	}
	dlk_conn_close(c);
	close(fd);
	return 0;
}
