/* SPDX-License-Identifier: MIT */
/* The socket to the keeper; see keeper_client.h. */
#include "hold/keeper_client.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "config/config.h"
#include "os/log.h"
#include "os/number.h"
#include "os/proc.h"
#include "os/spawn.h"
#include "os/spawn_own.h"
#include "os/sys.h"
#include "hold/hold.h"
#include "hold/self.h"
#include "hold/thread.h"
#include "model/timeline.h"

/*
 * IN_FLIGHT: more are not sent before answers were read.  Each has two answers
 * at most, and our queue must have room for all (dlk_shim_answer()): the
 * kernel's default is 212,992 bytes, of which one takes 768.
 */
enum {
	LET_GO = 4,
	WAIT_MS = 1000,
	DYING_MS = 1000,
	HEARD_MS = 5,
	YOUNG_MS = 1000,
	IN_FLIGHT = 128
};

/* What the keeper of a process may is what the process could when it began. */
struct rights {
	uid_t uid;
	gid_t gid;
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
};

pthread_mutex_t dlk_keeper_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct dlk_own socket;
	struct rights rights;
	/* The process group of the keeper and its standby, by the pid of the
	 * first one (dlk_spawn(): a session of its own); 0: none. */
	pid_t group, unreaped;
	pid_t acting; /* the one of them that has answered last */
	uint32_t sent, heard;
	uint32_t born;        /* what was sent before this one began */
	uint64_t begun_ns;    /* when it was to be started */
	uint64_t since_ns;    /* sent != heard: nothing was answered since */
	uint64_t doubt_ns;    /* it was found to hang first; 0: it was not */
	uint32_t ttl_ms;      /* the least that depends on it; 0: none does */
	unsigned told;        /* its standby, so often, that it hangs */
	uint64_t told_ns;     /* the last time */
	struct dlk_own dying; /* the socket to one that was killed */
	atomic_bool starting; /* one thread is; waits() tells when it is done */
	int failed;           /* the last start, and nobody was told: -errno */
	bool reading;         /* one thread sleeps on the socket */
	_Atomic unsigned words; /* futex: what the others sleep on */
	struct dlk_own let_go[LET_GO];
	char *room;
} keeper = {
	.socket = { .fd = -1 },
	.dying = { .fd = -1 },
	.let_go = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, { .fd = -1 } },
};

void dlk_keeper_forget(void)
{
	pthread_mutex_init(&dlk_keeper_mutex, NULL);
	dlk_own_close(&keeper.socket);
	for (int i = 0; i < LET_GO; i++)
		dlk_own_close(&keeper.let_go[i]);
	dlk_own_close(&keeper.dying);
	keeper.group = keeper.unreaped = 0;
	keeper.heard = keeper.sent;
	keeper.ttl_ms = 0;
	keeper.told = 0;
	keeper.failed = 0;
	keeper.starting = keeper.reading = false;
	dlk_keepers_have_nothing();
}

bool dlk_keeper_is_there(void)
{
	return keeper.socket.fd >= 0 && dlk_own_check(&keeper.socket);
}

/* --- waiting -------------------------------------------------------------- */

static void wake_all(void)
{
	atomic_fetch_add(&keeper.words, 1);
	dlk_futex_wake(&keeper.words, INT32_MAX);
}

/* (lock) There is nothing to come any more of what it sleeps for, perhaps. */
static void wake_reader(void)
{
	if (keeper.reading)
		wake_all();
}

bool dlk_keeper_is_starting(void)
{
	return atomic_load(&keeper.starting);
}

/* (lock) Until somebody calls wake_all(). */
static void sleep_on_words(uint64_t ns)
{
	const unsigned seen = atomic_load(&keeper.words);

	pthread_mutex_unlock(&dlk_keeper_mutex);
	dlk_futex_wait(&keeper.words, seen, ns);
	pthread_mutex_lock(&dlk_keeper_mutex);
}

/*
 * One thread sleeps on the socket, and wakes the others when it has woken.  An
 * answer that somebody else has read meanwhile, who does not wait, wakes nobody
 * there: so it looks every HEARD_MS whether there was one.  (To leave what comes to
 * the one who sleeps would make the renewing thread wait for his core.)
 */
void dlk_keeper_wait(uint64_t until_ns)
{
	struct pollfd p = { .fd = keeper.socket.fd, .events = POLLIN };
	const unsigned seen = atomic_load(&keeper.words);
	const uint64_t now = dlk_now_ns();

	if (now >= until_ns)
		return;
	if (until_ns > now + WAIT_MS * DLK_MS)
		until_ns = now + WAIT_MS * DLK_MS;
	if (keeper.reading || keeper.starting) {
		sleep_on_words(until_ns - now);
		return;
	}
	keeper.reading = true;
	pthread_mutex_unlock(&dlk_keeper_mutex);
	while (dlk_poll(&p, 1, HEARD_MS) == 0 && dlk_now_ns() < until_ns &&
	       atomic_load(&keeper.words) == seen)
		;
	pthread_mutex_lock(&dlk_keeper_mutex);
	keeper.reading = false;
	wake_all();
}

/* --- start ---------------------------------------------------------------- */

static bool read_rights(struct rights *r)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};

	/* fakeroot(1) answers for libc's functions. */
	r->uid = (uid_t)dlk_syscall(DLK_SYS_GETEUID);
	r->gid = (gid_t)dlk_syscall(DLK_SYS_GETEGID);
	return dlk_syscall(SYS_capget, &head, r->caps) == 0;
}

/*
 * Whose it is, by one of the names that the process may use (unix(7)): the one that
 * the keeper has.  Without it the real one is said, and one that differs is refused.
 */
static struct cmsghdr *add_credentials(struct cmsghdr *c,
				       const struct rights *r)
{
	const struct ucred who = {
		.pid = dlk_pid(),
		.uid = r->uid,
		.gid = r->gid,
	};

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_CREDENTIALS;
	c->cmsg_len = CMSG_LEN(sizeof(who));
	memcpy(CMSG_DATA(c), &who, sizeof(who));
	return (struct cmsghdr *)(void *)((char *)c + CMSG_SPACE(sizeof(who)));
}

/*
 * Ids that are not mapped in this user namespace (user_namespaces(7)) cannot be said:
 * EINVAL.  Unsaid, they come as they are read, by us and by the keeper.
 */
static int send_as(int fd, struct msghdr *msg)
{
	const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
	const size_t said = CMSG_SPACE(sizeof(struct ucred));

	if (dlk_syscall(SYS_sendmsg, fd, msg, flags) >= 0)
		return 0;
	if (errno != EINVAL)
		return -errno;
	msg->msg_control = (char *)msg->msg_control + said;
	msg->msg_controllen -= said;
	return dlk_syscall(SYS_sendmsg, fd, msg, flags) < 0 ? -errno : 0;
}

static pid_t spawn(int their_end)
{
	return dlk_spawn_own("dlock-keeper", dlk_self.keeper_path,
			     DLK_LIBEXECDIR "/dlock-keeper", their_end);
}

/* Those that it connects to, and those that say where they are. */
static unsigned servers_of(const struct dlk_redis *r)
{
	return r->n_endpoints + r->endpoints->n_sentinels;
}

/*
 * Passwords are sent from where they stand.  A section whose servers have no
 * room any more, and those after it, are none of the keeper's.
 */
static int send_servers(int fd, const struct rights *rights)
{
	struct dlk_keep head = { .magic = DLK_KEEP_MAGIC,
				 .type = DLK_KEEP_START };
	struct {
		uint32_t section, mode;
	} what[DLK_KEEP_SERVERS];
	struct iovec iov[1 + 2 * DLK_KEEP_SERVERS] = { { &head,
							 sizeof(head) } };
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} control = { 0 };
	struct msghdr msg = { .msg_iov = iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	const struct dlk_redis *r = dlk_self.config->redis;
	unsigned n = 0;

	_Static_assert(offsetof(struct dlk_keep_server, ep) == sizeof(*what),
		       "a server is sent in two parts");
	for (unsigned i = 0; i < dlk_self.config->n_redis &&
			     n + servers_of(&r[i]) <= DLK_KEEP_SERVERS;
	     i++) {
		for (unsigned k = 0; k < servers_of(&r[i]); k++, n++) {
			what[n].section = i;
			what[n].mode = r[i].mode;
			iov[msg.msg_iovlen++] =
				(struct iovec){ &what[n], sizeof(what[n]) };
			iov[msg.msg_iovlen++] = (struct iovec){
				(void *)(uintptr_t)&r[i].endpoints[k],
				sizeof(*r[i].endpoints),
			};
		}
	}
	add_credentials(&control.align, rights);
	return send_as(fd, &msg);
}

/* Both ends, so that each message says whose it is, from the first on. */
static int make_socket(struct dlk_own *ours, struct dlk_own *theirs)
{
	const int on = 1;
	int ends[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	/* At once: a low number would be in the program's way. */
	err = dlk_own_take_pair(ours, theirs, ends);
	if (err)
		return err;
	setsockopt(ours->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	setsockopt(theirs->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	return 0;
}

/* It takes as many as the program may (setrlimit(2)): fewer are no use. */
static bool has_room(void)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_NOFILE, &rl) < 0 ||
	       rl.rlim_max >= DLK_KEEP_DESCRIPTORS;
}

static pid_t start(struct dlk_own *ours, const struct rights *rights)
{
	struct dlk_own theirs = { .fd = -1 };
	int err = has_room() ? make_socket(ours, &theirs) : -EMFILE;
	pid_t pid;

	if (err)
		return err;
	err = send_servers(ours->fd, rights);
	pid = err ? err : spawn(theirs.fd);
	dlk_own_close(&theirs);
	if (pid < 0)
		dlk_own_close(ours);
	return pid;
}

/* (lock) By this thread, which is suspended until the keeper's exec(2). */
static int start_here(void)
{
	const uint64_t now = dlk_now_ns();
	struct dlk_own ours = { .fd = -1 };
	struct rights rights = { 0 };
	pid_t pid;

	pthread_mutex_unlock(&dlk_keeper_mutex);
	pid = read_rights(&rights) ? start(&ours, &rights) : -errno;
	pthread_mutex_lock(&dlk_keeper_mutex);
	keeper.starting = false;
	if (pid > 0) {
		keeper.socket = ours;
		keeper.group = keeper.acting = pid;
		keeper.rights = rights;
		keeper.heard = keeper.born = keeper.sent;
		keeper.begun_ns = now;
		keeper.doubt_ns = 0;
		keeper.told = 0;
		keeper.ttl_ms = 0;
		keeper.failed = 0;
		dlk_keepers_have_nothing();
	}
	wake_all();
	return pid < 0 ? pid : 0;
}

static void start_beside(void)
{
	DLK_GUARD(&dlk_keeper_mutex);
	keeper.failed = start_here();
}

/*
 * (lock) The thread that renews is not suspended for it: on a machine that has
 * no core to spare, or whose disk is slow, an exec(2) takes longer than a lease.
 * What came of it is found at a later try.
 */
static int begin_beside(void)
{
	int err = keeper.failed;

	keeper.failed = 0;
	if (!err)
		err = dlk_thread_beside(start_beside);
	keeper.starting = !err;
	return err == 0 || err == -EBUSY ? DLK_KEEPER_LATER : err;
}

int dlk_keeper_start(bool wait)
{
	while (keeper.starting && wait)
		sleep_on_words(1000 * DLK_MS);
	if (keeper.starting)
		return DLK_KEEPER_LATER;
	if (dlk_keeper_is_there())
		return 0;
	dlk_keeper_lose(false);
	if (!wait)
		return begin_beside();
	keeper.starting = true;
	return start_here();
}

/* --- messages ------------------------------------------------------------- */

void *dlk_keeper_room(void)
{
	const size_t size = sizeof(struct dlk_keep_add) + DLK_KEEP_BYTES;

	if (!keeper.room)
		keeper.room = dlk_pages(size);
	return keeper.room;
}

static int send_it(const struct dlk_keep *m, size_t size, const int *fds,
		   unsigned n)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct ucred)) +
			  CMSG_SPACE(DLK_KEEP_FDS * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)m, size };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(sizeof(struct ucred)),
	};
	struct cmsghdr *c = add_credentials(&control.align, &keeper.rights);

	if (n > 0) {
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
		msg.msg_controllen += CMSG_SPACE(n * sizeof(int));
	}
	/* Else what is meant for the program would be written to. */
	if (!dlk_keeper_is_there())
		return -EPIPE;
	return send_as(keeper.socket.fd, &msg);
}

/* From now on it has as much time as any. */
static void trust(void)
{
	keeper.since_ns = dlk_now_ns();
	keeper.doubt_ns = 0;
	keeper.told = 0;
}

uint32_t dlk_keeper_next(void)
{
	return keeper.sent + 1 ?: 1; /* 0 means none */
}

int dlk_keeper_send(struct dlk_keep *m, size_t size, const int *fds, unsigned n)
{
	int err;

	if (keeper.sent - keeper.heard >= IN_FLIGHT)
		return DLK_KEEPER_LATER;
	m->magic = DLK_KEEP_MAGIC;
	m->seq = dlk_keeper_next();
	err = send_it(m, size, fds, n);
	if (err == -ECONNRESET || err == -ENOTCONN)
		err = -EPIPE;
	if (err)
		return err == -EAGAIN ? DLK_KEEPER_LATER : err;
	if (keeper.sent == keeper.heard)
		trust();
	keeper.sent = m->seq;
	return 0;
}

/* As recv(2); and who says it, by the kernel's word (SO_PASSCRED). */
static ssize_t receive(struct dlk_keep_answer *a)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec iov = { a, sizeof(*a) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;
	const struct cmsghdr *c;
	struct ucred who;

	do
		n = dlk_syscall(SYS_recvmsg, keeper.socket.fd, &msg,
				MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	c = n == sizeof(*a) ? CMSG_FIRSTHDR(&msg) : NULL;
	if (c && c->cmsg_type == SCM_CREDENTIALS &&
	    c->cmsg_len == CMSG_LEN(sizeof(who))) {
		memcpy(&who, CMSG_DATA(c), sizeof(who));
		keeper.acting = who.pid;
	}
	return n;
}

int dlk_keeper_hear(struct dlk_keep_answer *a)
{
	ssize_t n;

	if (keeper.socket.fd < 0)
		return 0;
	/* Else what is meant for the program would be lost to it. */
	if (!dlk_own_check(&keeper.socket))
		return -EPIPE;
	n = receive(a);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n != sizeof(*a))
		return -EPIPE;
	wake_reader();
	if (a->status == DLK_KEEP_HELD)
		return 1;
	if ((int32_t)(a->seq - keeper.heard) > 0)
		keeper.heard = a->seq;
	trust();
	return 1;
}

/* --- it hangs ------------------------------------------------------------- */

/*
 * Both of them.  The group's number is its own for as long as their end of the
 * socket is open, for nobody else has that.  Not by recv(2): what they have
 * said, and what they have left unread (ECONNRESET), come before the end.
 */
static void signal_group(int signo)
{
	struct pollfd end = { .fd = keeper.socket.fd };

	if (dlk_own_check(&keeper.socket) && dlk_poll(&end, 1, 0) == 0)
		dlk_syscall(SYS_kill, -keeper.group, signo);
}

void dlk_keeper_depends(uint32_t ttl_ms)
{
	if (keeper.ttl_ms == 0 || ttl_ms < keeper.ttl_ms)
		keeper.ttl_ms = ttl_ms;
}

/* What was left to it, should it renew nothing either, has ended by then. */
static uint64_t last_chance_ns(void)
{
	return keeper.since_ns + dlk_keepers_ttl_ms() * DLK_MS;
}

/*
 * It would answer, but for a core, or for a lock of the kernel's: that which the
 * list of locks is read under is everybody's who locks a file.  Its first thread
 * is the one that answers.
 */
static bool is_starved(uint64_t now)
{
	const uint64_t waited = now - keeper.since_ns;
	char name[DLK_NUMBERED_MAX], state;

	state = dlk_kernel_task_state(
		dlk_numbered(name, "/proc/", keeper.acting, "/stat"));
	if (state == 'R' && keeper.heard == keeper.born && dlk_thread_here())
		return waited < DLK_KEEPER_BORN_MS * DLK_MS;
	return (state == 'R' || state == 'D') &&
	       waited < dlk_keeper_starved_ns(keeper.ttl_ms);
}

/*
 * Both may have been frozen until this moment (SIGSTOP to the group, a cgroup,
 * a suspended machine): so it must be found twice, a little apart.  With both
 * keepers would die what was left to them: then the standby is told, which has
 * all of that, and takes over.
 */
bool dlk_keeper_hangs(void)
{
	const uint64_t now = dlk_now_ns();

	if (keeper.socket.fd < 0 || keeper.sent == keeper.heard ||
	    now < dlk_keeper_look_ns())
		return false;
	if (!keeper.doubt_ns || (!keeper.told && is_starved(now))) {
		keeper.doubt_ns = now;
		return false;
	}
	if (now >= last_chance_ns())
		return true;
	signal_group(SIGURG);
	keeper.told++;
	keeper.told_ns = now;
	return false;
}

bool dlk_keeper_is_silent(void)
{
	return keeper.told > 1;
}

/* It may have had none the last time, or one without a core. */
static uint64_t told_again_ns(void)
{
	return keeper.told_ns + dlk_keeper_patience_ns(keeper.ttl_ms) +
	       DLK_KEEPER_DOUBT_MS * DLK_MS;
}

uint64_t dlk_keeper_look_ns(void)
{
	if (keeper.socket.fd < 0 || keeper.sent == keeper.heard)
		return UINT64_MAX;
	if (keeper.told)
		return told_again_ns() < last_chance_ns() ? told_again_ns()
							  : last_chance_ns();
	if (keeper.doubt_ns)
		return keeper.doubt_ns + DLK_KEEPER_DOUBT_MS * DLK_MS;
	/* It carries nothing before it has answered. */
	if (keeper.heard == keeper.born)
		return keeper.since_ns + DLK_KEEPER_START_MS * DLK_MS;
	return keeper.since_ns + dlk_keeper_patience_ns(keeper.ttl_ms);
}

/* --- its end -------------------------------------------------------------- */

static void kill_them(void)
{
	if (!dlk_own_check(&keeper.socket))
		return;
	signal_group(SIGKILL);
	keeper.dying = keeper.socket;
	keeper.socket.fd = -1;
}

/* Their end is closed, and what lay in it has been let go of. */
static bool is_dead(const struct dlk_own *dying)
{
	struct pollfd p = { .fd = dying->fd };
	int unread = 0;

	return dlk_poll(&p, 1, 0) != 0 &&
	       (dlk_syscall(SYS_ioctl, dying->fd, SIOCOUTQ, &unread) < 0 ||
		unread == 0);
}

void dlk_keeper_wait_dead(void)
{
	struct dlk_own dying = keeper.dying;
	const uint64_t until = dlk_now_ns() + DYING_MS * DLK_MS;

	keeper.dying.fd = -1;
	if (dying.fd >= 0 && !dlk_in_thread()) {
		pthread_mutex_unlock(&dlk_keeper_mutex);
		while (dlk_own_check(&dying) && !is_dead(&dying) &&
		       dlk_now_ns() < until)
			dlk_pause_ns(DLK_MS);
		pthread_mutex_lock(&dlk_keeper_mutex);
	}
	dlk_own_close(&dying);
}

/* A standby that took over was orphaned as well. */
void dlk_keeper_reap(void)
{
	if (keeper.unreaped > 0 && dlk_reap_group(keeper.unreaped, "dlock-"))
		keeper.unreaped = 0;
	if (keeper.group > 0)
		dlk_reap_group(keeper.group, "dlock-");
}

static void forget_group(void)
{
	if (keeper.group > 0 && !dlk_reap_group(keeper.group, "dlock-"))
		keeper.unreaped = keeper.group;
	keeper.group = 0;
}

/*
 * It has ended as soon as it was started, and answered nothing: the next one
 * would do the same, and there would be as many as can be started.  (One that was
 * told nothing, for the lock was given back meanwhile, stays for a second.)
 */
static bool has_failed(void)
{
	return keeper.heard == keeper.born && dlk_keeper_is_there() &&
	       dlk_now_ns() < keeper.begun_ns + YOUNG_MS * DLK_MS;
}

void dlk_keeper_lose(bool kill)
{
	if (!kill && has_failed())
		keeper.failed = -ESRCH;
	if (kill && keeper.group > 0)
		kill_them();
	dlk_own_close(&keeper.socket);
	forget_group();
	keeper.heard = keeper.sent;
	wake_reader();
}

void dlk_keeper_let_go(void)
{
	struct dlk_own *last = &keeper.let_go[LET_GO - 1];

	if (keeper.socket.fd < 0)
		return;
	if (dlk_own_check(&keeper.socket))
		shutdown(keeper.socket.fd, SHUT_WR);
	/* The oldest sees our end in it. */
	dlk_own_close(last);
	memmove(keeper.let_go + 1, keeper.let_go, (LET_GO - 1) * sizeof(*last));
	keeper.let_go[0] = keeper.socket;
	keeper.socket.fd = -1;
	keeper.heard = keeper.sent;
	forget_group();
	wake_reader();
}

bool dlk_keeper_let_go_ended(void)
{
	bool ended = false;

	for (int i = 0; i < LET_GO; i++) {
		struct dlk_own *own = &keeper.let_go[i];
		struct pollfd p = { .fd = own->fd };

		if (own->fd < 0 ||
		    (dlk_own_check(own) && dlk_poll(&p, 1, 0) == 0))
			continue;
		dlk_own_close(own);
		ended = true;
	}
	return ended;
}

/* May it claim to be who the keeper is?  unix(7), SCM_CREDENTIALS */
static bool may_be(uid_t uid, gid_t gid)
{
	uid_t u[3];
	gid_t g[3];

	if (dlk_syscall(DLK_SYS_GETRESUID, &u[0], &u[1], &u[2]) < 0 ||
	    dlk_syscall(DLK_SYS_GETRESGID, &g[0], &g[1], &g[2]) < 0)
		return false;
	return (u[0] == uid || u[1] == uid || u[2] == uid) &&
	       (g[0] == gid || g[1] == gid || g[2] == gid);
}

bool dlk_keeper_may_more(void)
{
	const uint32_t set_id[] = { 1U << CAP_SETUID | 1U << CAP_SETGID, 0 };
	struct rights now;

	if (keeper.socket.fd < 0)
		return false;
	if (!read_rights(&now))
		return true;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		if (keeper.rights.caps[i].permitted & ~now.caps[i].permitted)
			return true;
	return !may_be(keeper.rights.uid, keeper.rights.gid) &&
	       (now.caps[0].effective & set_id[0]) != set_id[0];
}
