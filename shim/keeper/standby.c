/* SPDX-License-Identifier: MIT */
/*
 * Two keepers, so that no single death ends a lease (DESIGN L4, 9.7).
 *
 * The standby is a fork of the keeper, made once a lease is carried and its ADD
 * answered: so it has all that the keeper had then, the shim's socket among it,
 * and is told of what comes after that (mirror.h).  It renews nothing, waits for
 * no lock and hears no shim, until the keeper ends:
 *
 *	keeper			standby			shim, if it lives
 *	(killed)
 *				the socket is closed
 *				a thread for each file,
 *				all leases are due
 *				reads on		(notices nothing)
 *				forks
 *				keeper			standby
 *
 *  1. One acts at a time: the standby when the keeper is dead.  One that does
 *     not answer it, with a lease overdue or when the shim has had no answer, it
 *     kills first.  Dead is whose first thread is, for another one may have no core
 *     to end, and the files are open until it has: the kernel tells of that
 *     (PR_SET_PDEATHSIG).  Of what it had said by then nothing is lost.
 *  2. A message of the shim's that the keeper was amidst is still in the socket
 *     (hear.c), and what it was owed for the last one is known.
 *  3. The descriptions of locked files are common to both.  So a lock that the
 *     keeper had for an instant (file.c) when it was killed is the standby's.
 *  4. Neither has the other's threads: the fork waits until none of them has
 *     anything in hand.  A file server that does not answer may delay it.
 *  5. Both are one process group, by which the shim kills them.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "lease/store.h"
#include "keeper/mirror.h"
#include "os/log.h"
#include "os/proc.h"
#include "os/sys.h"
#include "model/timeline.h"

enum { AGAIN_MS = 20, FAILED_MS = 1000, END_MS = 100 };

/* --- the standby follows -------------------------------------------------- */

static struct {
	int fd;    /* of the socket to the keeper */
	pid_t pid; /* the keeper's */
	struct dlk_owed owed;
	uint64_t asked_ns; /* whether it lives, and no answer yet; 0: nothing */
	uint64_t look_ns;  /* when to ask that, or to doubt it */
	bool doubted;
	bool suspected; /* though no lease is overdue */
	bool dead;      /* by the kernel's word */
	int signals;    /* signalfd(2): of its death, and of the shim's
			   suspicion; -1 */
} parent = { .fd = -1, .signals = -1 };

static union {
	uint32_t type;
	uint64_t align;
	struct dlk_mirror_states states;
	struct dlk_mirror_lease lease;
	struct dlk_mirror_paused paused;
	char room[DLK_MIRROR_SIZE];
} in;

/* As they came, each to its place; -1 for the others. */
static void unpack(int *came, unsigned n, uint32_t set, int *fds)
{
	unsigned next = 0;

	for (unsigned i = 0; i < DLK_MIRROR_FDS; i++)
		fds[i] = (set >> i & 1) && next < n ? came[next++] : -1;
	dlk_close_all(came + next, n - next);
}

static bool adopt(const struct dlk_mirror_lease *m, const int *fds,
		  const struct dlk_watch_given *given)
{
	struct dlk_watch *w = dlk_watch_adopt(&m->add, given);
	struct dlk_guard guard = m->guard;
	struct dlk_shadow_copy *s = NULL;
	struct dlk_kept *k;

	if (!w)
		return false;
	dlk_guard_adopt(&guard, fds[DLK_MIRROR_TAKER]);
	if (m->shadow.slot >= 0) {
		s = dlk_shadow_copy_adopt(&m->shadow, fds + DLK_MIRROR_SHADOW);
		if (!s)
			return false;
	}
	k = dlk_carry_adopt(&m->add, w, &guard, s);
	if (k)
		dlk_carry_follow(k, &m->state);
	return k;
}

/* False: there is no memory for it. */
static bool hear_lease(const struct dlk_mirror_lease *m, int *came, unsigned n)
{
	struct dlk_kept *k = dlk_carried_find(m->add.head.seq);
	int fds[DLK_MIRROR_FDS];
	struct dlk_watch_given given;

	unpack(came, n, m->fds, fds);
	given = (struct dlk_watch_given){
		.fd = fds[DLK_MIRROR_FILE],
		.bell = fds[DLK_MIRROR_BELL],
		.wd = m->wd,
		.has_thread = m->has_thread,
	};
	if (!k)
		return adopt(m, fds, &given);
	dlk_watch_complete(k->watch, &given);
	dlk_close_all(fds + DLK_MIRROR_TAKER,
		      DLK_MIRROR_FDS - DLK_MIRROR_TAKER);
	return true;
}

static void hear_states(const struct dlk_mirror_states *m)
{
	parent.owed = m->owed;
	for (uint32_t i = 0; i < m->n; i++) {
		struct dlk_kept *k = dlk_carried_find(m->states[i].number);

		if (k)
			dlk_carry_follow(k, &m->states[i]);
	}
	dlk_carry_bury();
}

static void hear_paused(const int *came, unsigned n)
{
	in.paused.victim.fd = n > 0 ? came[0] : -1;
	in.paused.victim.lock = n > 1 ? came[1] : -1;
	dlk_paused_adopt(&in.paused.victim);
}

/* Whoever lacks anything is no standby: the keeper makes another one. */
static void act(int *came, unsigned n)
{
	if (in.type == DLK_MIRROR_END)
		_exit(0);
	if (in.type == DLK_MIRROR_STATES)
		hear_states(&in.states);
	else if (in.type == DLK_MIRROR_PAUSED)
		hear_paused(came, n);
	else if (in.type == DLK_MIRROR_GO_ON)
		dlk_victims_free(&dlk_paused, 0);
	else if (in.type != DLK_MIRROR_LEASE || !hear_lease(&in.lease, came, n))
		_exit(1);
}

/* (ECONNRESET: it has not read all of ours; what it has said comes after that.) */
static ssize_t receive(struct msghdr *msg)
{
	ssize_t size;

	do
		size = recvmsg(parent.fd, msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (size < 0 && (errno == ECONNRESET || errno == EINTR));
	return size;
}

/* 1; 0: there is none; -1: the keeper has ended. */
static int hear_one(void)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(DLK_MIRROR_FDS * sizeof(int))];
	} control;
	struct iovec iov = { &in, sizeof(in) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	int came[DLK_MIRROR_FDS];
	const struct cmsghdr *c;
	unsigned n = 0;
	const ssize_t size = receive(&msg);

	if (size <= 0)
		return size < 0 ? 0 : -1;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS) {
		n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(came, CMSG_DATA(c), n * sizeof(int));
	}
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		_exit(1);
	act(came, n);
	parent.asked_ns = 0;
	parent.doubted = false;
	parent.suspected = parent.dead;
	return 1;
}

/* --- it doubts ------------------------------------------------------------ */

/*
 * Its first thread is the one that hears and says: killed, it may be amidst that
 * yet, which is not waited for when a lease is overdue.
 */
static bool has_died(bool overdue)
{
	const enum dlk_death death = getppid() == parent.pid
					     ? dlk_kernel_death(parent.pid)
					     : DLK_DEAD;

	return parent.dead || death == DLK_DEAD ||
	       (death == DLK_KILLED && overdue);
}

static void ask_it(uint64_t now)
{
	const char ask = 0;

	(void)!send(parent.fd, &ask, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	parent.asked_ns = now;
}

/*
 * A keeper that is stopped, or hangs, is as good as dead: with a lease overdue
 * it is asked, and has as much time as the shim gives it.  Twice, for both may
 * have been frozen.  True: it is dead, and its socket only is open yet.
 */
static bool doubt(void)
{
	const uint64_t now = dlk_now_ns();
	uint32_t ttl_ms = 0;
	const bool overdue = dlk_carry_overdue_ns(&ttl_ms) <= now;

	if ((!overdue && !parent.suspected) || now < parent.look_ns)
		return false;
	if (has_died(overdue))
		return true;
	if (!parent.asked_ns) {
		ask_it(now);
		parent.look_ns = now + dlk_keeper_patience_ns(ttl_ms);
	} else if (!parent.doubted) {
		parent.doubted = true;
		parent.look_ns = now + DLK_KEEPER_DOUBT_MS * DLK_MS;
	} else if (getppid() == parent.pid) {
		/* Its child, and it has not ended: the number is its own. */
		kill(parent.pid, SIGKILL);
		parent.look_ns = now + DLK_KEEPER_DOUBT_MS * DLK_MS;
	}
	return false;
}

static int doubt_ms(void)
{
	const uint64_t now = dlk_now_ns();
	uint32_t ttl_ms;
	uint64_t at = parent.suspected ? now : dlk_carry_overdue_ns(&ttl_ms);

	if (at < parent.look_ns)
		at = parent.look_ns;
	return at <= now                   ? 0
	       : at > now + 60000 * DLK_MS ? 60000
					   : (int)((at - now) / DLK_MS) + 1;
}

/* It has left the shim without an answer for too long: it has a moment more. */
static void suspect(void)
{
	const uint64_t now = dlk_now_ns();

	if (parent.suspected)
		return;
	parent.suspected = parent.doubted = true;
	ask_it(now);
	parent.look_ns = now + DLK_KEEPER_DOUBT_MS * DLK_MS;
}

/* Its files are closed in a moment, if its other threads have a core. */
static void note_death(void)
{
	parent.suspected = parent.dead = true;
	parent.look_ns = dlk_now_ns() + DLK_KEEPER_DOUBT_MS * DLK_MS;
}

/* (Anybody may send these; one with the keeper's number is the kernel's word.) */
static void read_signals(void)
{
	struct signalfd_siginfo s;

	while (read(parent.signals, &s, sizeof(s)) == sizeof(s))
		if (s.ssi_signo == SIGUSR2 && (pid_t)s.ssi_pid == parent.pid)
			note_death();
		else
			suspect();
}

/* (All signals are blocked, as the keeper's.) */
static void listen_for_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	sigaddset(&set, SIGUSR2);
	parent.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	prctl(PR_SET_PDEATHSIG, SIGUSR2);
	if (has_died(false))
		note_death(); /* before that */
}

static void listen_no_more(void)
{
	prctl(PR_SET_PDEATHSIG, 0);
	dlk_close_all(&parent.signals, 1);
}

/* Until the keeper has ended. */
static void stand_by(void)
{
	bool died = false;
	int n = 0;

	listen_for_signals();
	while (n >= 0 && !died) {
		struct pollfd p[] = {
			{ .fd = parent.fd, .events = POLLIN },
			{ .fd = dlk_errands_bell(), .events = POLLIN },
			{ .fd = parent.signals, .events = POLLIN },
		};

		poll(p, 3, doubt_ms());
		if (p[1].revents)
			dlk_errands_back();
		while ((n = hear_one()) > 0)
			;
		if (p[2].revents)
			read_signals();
		died = n == 0 && doubt();
	}
	/* It may have said something before it died, while we had no core. */
	while (n == 0 && hear_one() > 0)
		;
	listen_no_more();
}

/* --- it takes over -------------------------------------------------------- */

static void take_over(void)
{
	struct dlk_line l;

	prctl(PR_SET_NAME, "dlock-keeper");
	dlk_close_all(&parent.fd, 1);
	dlk_watch_wake();
	dlk_shadow_copies_wake();
	dlk_carry_wake();
	dlk_survive_wake();
	dlk_obey_wake(&parent.owed);
	if (LIST_EMPTY(&dlk_carried))
		return;
	dlk_line_begin(&l, DLK_WARNING);
	dlk_text_str(&l.text, "dlock-keeper ");
	dlk_text_i64(&l.text, parent.pid);
	dlk_text_str(&l.text, " has ended while its leases have not: its "
			      "standby carries them on");
	dlk_line_end(&l);
}

/* In the child. */
static void begin(int fd, pid_t keeper)
{
	dlk_watchdog_forget();
	prctl(PR_SET_NAME, "dlock-standby");
	parent.owed = *dlk_mirror_owed();
	dlk_mirror_use(-1);
	parent.fd = fd;
	parent.pid = keeper;
	parent.asked_ns = parent.look_ns = 0;
	parent.doubted = parent.suspected = parent.dead = false;
	dlk_stores_forget();
	dlk_shadow_copies_stand_by();
	if (!dlk_errands_begin_anew() || !dlk_watch_stand_by())
		_exit(1);
	stand_by();
	take_over();
}

/* --- the keeper sees to it ------------------------------------------------ */

static struct {
	pid_t pid;       /* 0: there is none */
	uint64_t due_ns; /* when to start the next one, at the earliest */
	bool failed;     /* said already */
} standby;

static void say_failure(int err)
{
	if (!standby.failed)
		dlk_log(DLK_WARNING, "dlock-keeper has no standby: ",
			strerrordesc_np(err) ?: "unknown error",
			"; its leases end by their ttl if it is killed", NULL);
	standby.failed = true;
}

static void start(void)
{
	const pid_t self = getpid();
	int ends[2];
	pid_t pid;

	standby.due_ns = dlk_now_ns() + AGAIN_MS * DLK_MS;
	pid = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0
		      ? -2
		      : fork();
	if (pid == 0) {
		close(ends[0]);
		standby.pid = 0;
		dlk_unreaped = 0;
		standby.failed = false;
		begin(ends[1], self);
		return;
	}
	if (pid < 0) {
		const int err = errno;

		if (pid == -1)
			dlk_close_all(ends, 2);
		standby.due_ns = dlk_now_ns() + FAILED_MS * DLK_MS;
		say_failure(err);
		return;
	}
	close(ends[1]);
	standby.pid = pid;
	dlk_unreaped++;
	standby.failed = false;
	dlk_mirror_use(ends[0]);
}

/* One that ends is seen by its socket; or it does not listen. */
static void end_broken(void)
{
	if (!standby.pid || dlk_mirror_works())
		return;
	kill(standby.pid, SIGKILL); /* not reaped: the number is its own */
	standby.pid = 0;
	dlk_mirror_use(-1);
}

static void reap(void)
{
	while (dlk_unreaped && waitpid(-1, NULL, WNOHANG | __WALL) > 0)
		dlk_unreaped--;
}

/* Who is to stay without a lease could not be replaced by the process. */
static bool is_wanted(void)
{
	return !standby.pid &&
	       (!LIST_EMPTY(&dlk_carried) || dlk_shim_wants_us());
}

void dlk_standby_keep(void)
{
	dlk_mirror_flush();
	end_broken();
	reap();
	if (is_wanted() && dlk_now_ns() >= standby.due_ns &&
	    dlk_errands_open() == 0 && dlk_watch_is_quiet())
		start();
}

uint64_t dlk_standby_due_ns(void)
{
	return is_wanted() && dlk_errands_open() == 0 ? standby.due_ns
						      : UINT64_MAX;
}

/* It, and the watchdogs, are reaped here: else process 1 would see orphans. */
void dlk_standby_end(void)
{
	int fd = -1;

	if (standby.pid) {
		dlk_mirror_end();
		fd = (int)dlk_syscall(SYS_pidfd_open, standby.pid, 0);
	}
	if (fd >= 0)
		dlk_polled(fd, POLLIN, END_MS);
	reap();
}
