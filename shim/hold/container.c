/* SPDX-License-Identifier: MIT */
/*
 * The end of a process in a container (pid_namespaces(7)).
 *
 * With its process 1 all of a pid namespace is killed, a keeper too, so nobody
 * releases what a process that ends there leaves (DESIGN 9.6):
 *
 *	the program		its process 1	the keeper	another host
 *	exit(3)
 *	(stdio is flushed)
 *	(its lock ends)
 *				exits
 *						is killed	waits: the ttl
 *
 * It cannot be released before, for what is flushed would come after that.  So
 * the ttl is cut to CUT_MS at the beginning of the end; the thread, and the
 * keeper, go on by that, for the end may take its time.  Once the process is
 * gone and the keeper is not, it is no container that ended, and the keeper
 * carries on by the whole ttl what is locked still.
 *
 *  1. What another process holds as well MUST keep its whole ttl: a second is
 *     little time for a keeper that is to be scheduled.  But not where we are
 *     process 1: whoever shares it, in here, ends with us.
 *  2. No telling is "another has it".
 *  3. A server that does not answer MUST NOT be asked to cut: whether it has
 *     would not be known, and who holds a lease of a second is stopped after
 *     that second (DESIGN L6), with what it has not written yet.
 */
#include "hold/container.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "os/proc.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/delegation.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/owner.h"
#include "hold/shadow.h"
#include "hold/thread.h"
#include "model/fdinfo.h"
#include "model/text.h"
#include "model/timeline.h"

enum { CUT_MS = 1000, PATIENCE_MS = 200, LOOKS = 5000, BATCH = 64 };

/* The first pid namespace is always this file: PROC_PID_INIT_INO. */
static bool in_container(void)
{
	struct stat st;

	return dlk_stat("/proc/self/ns/pid", &st, 0) == 0 &&
	       st.st_ino != 0xEFFFFFFCU;
}

/* --- does another process have it? ---------------------------------------- */

struct search {
	int fd; /* one of the description */
	struct dlk_file file;
	enum dlk_kind kind;
	unsigned left; /* descriptors to look at */
	uint64_t pid;  /* whose */
	bool found;
};

/* What a look at a process that has ended, or closed it, says: proc(5). */
static bool is_gone(long result)
{
	return result < 0 && (errno == ENOENT || errno == ESRCH);
}

/* Each entry of a directory that is a number; false if it cannot be read. */
static bool each_number(const char *path, void (*fn)(struct search *, uint64_t),
			struct search *s)
{
	char buf[2048] __attribute__((aligned(8)));
	long dir = dlk_syscall(SYS_openat, AT_FDCWD, path,
			       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n = -1;
	bool fine;

	if (dir < 0)
		return is_gone(dir);
	while (!s->found &&
	       (n = dlk_syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		const struct dirent64 *e;
		uint64_t number;

		for (long at = 0; at < n && !s->found; at += e->d_reclen) {
			e = (const void *)(buf + at);
			if (dlk_number(e->d_name, 10, &number))
				fn(s, number);
		}
	}
	fine = n >= 0 || s->found || is_gone(n);
	dlk_close((int)dir);
	return fine;
}

static bool note_lock(void *arg, const char *line)
{
	struct search *s = arg;
	struct dlk_lock_line l;

	s->found |=
		strncmp(line, "lock:", 5) == 0 && dlk_lock_line(line, &l) &&
		l.kind == (s->kind == DLK_OFD ? DLK_LINE_OFD : DLK_LINE_FLOCK);
	return !s->found;
}

/* By kcmp(2), or where that is forbidden by the locks that it shows. */
static void look_at(struct search *s, uint64_t fd)
{
	char dir[DLK_NUMBERED_MAX], name[DLK_NUMBERED_MAX];
	struct stat st;
	long same;

	dlk_numbered(dir, "/proc/", (int64_t)s->pid, "/fd/");
	dlk_numbered(name, dir, (int64_t)fd, "");
	if (s->left == 0) {
		s->found = true;
		return;
	}
	s->left--;
	if (dlk_stat_known(AT_FDCWD, name, &st) < 0) {
		s->found = !is_gone(-1);
		return;
	}
	/* A node of FUSE may have another number by now. */
	if (st.st_dev != s->file.dev ||
	    (!s->file.handle && st.st_ino != s->file.ino))
		return;
	same = dlk_syscall(SYS_kcmp, dlk_syscall(SYS_gettid), (long)s->pid,
			   KCMP_FILE, (long)s->fd, (long)fd);
	if (same >= 0 || is_gone(same)) {
		s->found = same == 0;
		return;
	}
	dlk_numbered(dir, "/proc/", (int64_t)s->pid, "/fdinfo/");
	dlk_numbered(name, dir, (int64_t)fd, "");
	if (!dlk_each_line(name, note_lock, s))
		s->found = !is_gone(-1);
}

static void look_at_process(struct search *s, uint64_t pid)
{
	char name[DLK_NUMBERED_MAX];

	s->pid = pid;
	/* A keeper has it for a moment, and ends with us or goes on. */
	if (pid == (uint64_t)dlk_pid() || dlk_holder_of(pid) == DLK_KEEPER)
		return;
	dlk_numbered(name, "/proc/", (int64_t)pid, "/fd");
	if (!each_number(name, look_at, s))
		s->found = true;
}

/* Its number may be another file's by now: no telling, then. */
static bool others_have(const struct dlk_hold *h)
{
	const bool shadow = h->program_fd >= 0;
	struct search s = {
		.fd = shadow ? dlk_shadow_program(h->fd) : h->fd,
		.kind = h->kind,
		.left = LOOKS,
	};

	if (dlk_kernel_file(s.fd, &s.file) < 0 ||
	    (!shadow && !dlk_same_file(&s.file, &h->file)))
		return true;
	return !each_number("/proc", look_at_process, &s) || s.found;
}

static bool ends_with_us(const struct dlk_hold *h)
{
	return h->kind == DLK_POSIX || dlk_pid() == 1 ||
	       !dlk_shared(dlk_hold_program_fd(h)) || !others_have(h);
}

/* --- the cut -------------------------------------------------------------- */

/*
 * To CUT_MS; but what stays for hold_at_least outlives the end by what is left
 * of that, for then there is no keeper that could release it so.  (It is held
 * all the same, for the end may take longer.)
 */
static uint32_t cut_to_ms(const struct dlk_hold *h, uint64_t now_ns)
{
	const uint64_t from = now_ns + CUT_MS * DLK_MS;
	const uint64_t stays = h->lease.stays_until_ns;

	return CUT_MS + (uint32_t)(stays > from ? (stays - from) / DLK_MS : 0);
}

static bool may_be_cut(const struct dlk_hold *h, const void *unused)
{
	const uint32_t ttl_ms = cut_to_ms(h, dlk_now_ns());

	(void)unused;
	return h->state == HOLD_HELD &&
	       (h->lease.ttl_ms > ttl_ms || ttl_ms > CUT_MS);
}

/* From here on whoever renews it renews it by this. */
static void shorten(struct dlk_hold *h)
{
	const uint64_t now = dlk_now_ns();
	const uint32_t ttl_ms = cut_to_ms(h, now);
	uint64_t renew_ns;
	uint32_t told;

	dlk_holds_lock();
	dlk_hold_cut(h, now, ttl_ms);
	/* What it is told by CUT: each renewal is news to it from here on. */
	h->keeper.known_until_ns = h->valid.deadline_ns;
	renew_ns = h->valid.renew_ns;
	told = h->keeper.number;
	dlk_holds_unlock();
	dlk_delegation_cut(told, ttl_ms);
	dlk_thread_need(renew_ns);
}

/* Those that end with us and are to be cut; the others are unpinned. */
static unsigned shorten_some(struct dlk_hold **all, unsigned n)
{
	unsigned cut = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!ends_with_us(all[i]) || !dlk_hold_is_held(all[i])) {
			dlk_unpin(all[i]);
			continue;
		}
		shorten(all[i]);
		all[cut++] = all[i];
	}
	return cut;
}

static bool answers(struct dlk_store *s, uint64_t deadline_ns)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_attempt at = { .timeout_ns = PATIENCE_MS * DLK_MS,
				  .until_ns = deadline_ns };

	return now < deadline_ns && s->ops->ping(s, &at) == 0;
}

/* Those of one server. */
static void cut_at_server(struct dlk_hold **all, unsigned n,
			  uint64_t deadline_ns)
{
	struct dlk_renewal r[BATCH];
	struct dlk_store *s = dlk_store_of(all[0]->rule->redis);
	struct dlk_attempt at = { .timeout_ns = dlk_left_ns(deadline_ns) };

	for (unsigned i = 0; i < n; i++)
		r[i] = (struct dlk_renewal){
			.lease = &all[i]->lease,
			.deadline_ns = all[i]->valid.deadline_ns,
		};
	s->ops->renew(s, &at, r, n);
}

void dlk_cut_short(void)
{
	const uint64_t deadline = dlk_now_ns() + PATIENCE_MS * DLK_MS;
	struct dlk_hold *all[BATCH], *h;

	if (!dlk_any_held() || !in_container())
		return;
	h = dlk_hold_next(NULL, may_be_cut, NULL);
	while (h) {
		struct dlk_store *s = dlk_store_of(h->rule->redis);
		unsigned n = dlk_hold_next_some(&h, may_be_cut, all, BATCH);

		if (answers(s, deadline)) {
			n = shorten_some(all, n);
			if (n)
				cut_at_server(all, n, deadline);
		}
		dlk_unpin_all(all, n);
	}
}
