/* SPDX-License-Identifier: MIT */
/*
 * The shim's side of the keeper (DESIGN L4): started on first need, one a
 * process, told of leases over a socket.
 *
 * One thread talks to it at a time.  `talking` is no mutex, for the answer is
 * waited for: whoever finds it taken pauses, with nothing in hand.
 */
#include "lock/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "keeper/protocol.h"
#include "lease/log.h"
#include "lease/shadowdir.h"
#include "lock/trace.h"
#include "model/timeline.h"

static struct {
	_Atomic bool talking;
	struct dlk_own socket;
	pid_t pid, unreaped; /* see dlk_spawn(); 0: none */
	uint32_t seq;
	struct dlk_keep *msg;
} keeper = { .socket = { .fd = -1 } };

static void begin(void)
{
	while (atomic_exchange(&keeper.talking, true))
		dlk_pause_ns(DLK_MS / 10);
}

static void end(void)
{
	atomic_store(&keeper.talking, false);
}

void dlk_handover_forget(void)
{
	dlk_own_close(&keeper.socket);
	keeper.pid = 0;
	keeper.unreaped = 0;
	end();
}

/* What it carried, if it was killed, another must have. */
static void lose_keeper(void)
{
	dlk_own_close(&keeper.socket);
	if (keeper.pid > 0 && !dlk_reap(keeper.pid, "dlock-keeper"))
		keeper.unreaped = keeper.pid;
	keeper.pid = 0;
	pthread_mutex_lock(&dlk.mutex);
	for (struct dlk_held *h = dlk.held; h; h = h->next) {
		if (h->state == DLK_HELD && h->kept) {
			h->kept = false;
			h->handover_ns = dlk_now_ns();
		}
	}
	pthread_mutex_unlock(&dlk.mutex);
}

static void notice_its_end(void)
{
	ssize_t n;
	char byte;

	/* Else what is meant for the program would be looked at. */
	if (keeper.socket.fd < 0 || !dlk_own_check(&keeper.socket))
		return;
	n = recv(keeper.socket.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		lose_keeper();
}

static pid_t spawn(int their_end)
{
	char name[] = "dlock-keeper", env[600] = "DLOCK_LOG=";
	char fallback[] = DLK_LIBEXECDIR "/dlock-keeper";
	char *argv[] = { name, NULL };
	char *envp[] = { env, NULL };
	const int log = dlk_log_fd();
	pid_t pid;

	strncat(env, dlk_log_setting(), sizeof(env) - strlen(env) - 1);
	pid = dlk_spawn(dlk.keeper_path, argv, envp, their_end, log, false);
	if (pid == -ENOENT || pid == -EACCES)
		pid = dlk_spawn(fallback, argv, envp, their_end, log, false);
	return pid;
}

static int start(void)
{
	struct timeval second = { .tv_sec = 1 };
	struct dlk_own theirs = { .fd = -1 };
	int ends[2], err;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	/* At once: a low number would be in the program's way. */
	err = dlk_own_take(&keeper.socket, ends[0]);
	if (err) {
		dlk_close(ends[1]);
		return err;
	}
	err = dlk_own_take(&theirs, ends[1]);
	if (err) {
		dlk_own_close(&keeper.socket);
		return err;
	}
	setsockopt(keeper.socket.fd, SOL_SOCKET, SO_RCVTIMEO, &second,
		   sizeof(second));
	setsockopt(keeper.socket.fd, SOL_SOCKET, SO_SNDTIMEO, &second,
		   sizeof(second));
	pid = spawn(theirs.fd);
	dlk_own_close(&theirs);
	if (pid < 0) {
		dlk_own_close(&keeper.socket);
		return pid;
	}
	keeper.pid = pid;
	return 0;
}

static enum dlk_kept_kind kept_kind(const struct dlk_held *h)
{
	return h->kind == DLK_POSIX ? DLK_KEPT_POSIX
	       : h->kind == DLK_OFD ? DLK_KEPT_OFD
				    : DLK_KEPT_FLOCK;
}

/* The message of a lease, or of none, but for its server; or -ENOMEM. */
static ssize_t compose(const struct dlk_held *h, uint32_t type)
{
	struct dlk_keep *m = keeper.msg;

	if (!m) {
		m = mmap(NULL, sizeof(*m) + DLK_KEEP_BYTES,
			 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
		if (m == MAP_FAILED)
			return -ENOMEM;
		keeper.msg = m;
	}
	if (!h) {
		*m = (struct dlk_keep){ .magic = DLK_KEEP_MAGIC,
					.type = type,
					.seq = ++keeper.seq };
		memset(m->bytes, 0, 3);
		return (ssize_t)sizeof(*m) + 3;
	}
	*m = (struct dlk_keep){
		.magic = DLK_KEEP_MAGIC,
		.type = type,
		.seq = ++keeper.seq,
		.dev = h->file.dev,
		.ino = h->file.ino,
		.key_len = (uint32_t)h->lease.key_len,
		.token_len = (uint32_t)h->lease.token_len,
		.ttl_ms = h->lease.ttl_ms,
		.places_len = (uint32_t)h->lease.places_len,
		.shared = h->lease.shared,
		.fair = h->lease.fair,
		.interop = h->lease.interop,
		.kind = kept_kind(h),
		.coherent = h->coherent,
		.pid = (uint32_t)dlk_pid(),
		.granted_ns = h->granted_ns,
		.deadline_ns = h->deadline_ns,
		.renew_ns = h->renew_ns,
	};
	memcpy(m->bytes, h->lease.key, h->lease.key_len + 1);
	memcpy(m->bytes + h->lease.key_len + 1, h->lease.token,
	       h->lease.token_len + 1);
	memcpy(m->bytes + h->lease.key_len + h->lease.token_len + 2,
	       h->lease.places ? h->lease.places : "", h->lease.places_len + 1);
	return (ssize_t)(sizeof(*m) + h->lease.key_len + h->lease.token_len +
			 h->lease.places_len + 3);
}

static int send_message(const struct dlk_held *h, uint32_t type, const int *fds,
			unsigned n)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(DLK_KEEP_FDS * sizeof(int))];
	} control = { 0 };
	struct iovec iov[3];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };
	ssize_t size = compose(h, type);
	struct dlk_keep *m = keeper.msg;

	if (size < 0)
		return (int)size;
	/* The server's password is sent from where it stands. */
	iov[0] = (struct iovec){ m, offsetof(struct dlk_keep, ep) };
	iov[1] = (struct iovec){ &m->ep, sizeof(m->ep) };
	if (h)
		iov[1].iov_base = (void *)(uintptr_t)h->rule->redis->endpoints;
	iov[2] = (struct iovec){ m->bytes, (size_t)size - sizeof(*m) };
	if (n > 0) {
		struct cmsghdr *c = &control.align;

		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	if (!dlk_own_check(&keeper.socket))
		return -EPIPE;
	if (dlk_syscall(SYS_sendmsg, keeper.socket.fd, &msg, MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

/* The lock's descriptor; a shadow's goes with the file that it stands for. */
static int send_add(const struct dlk_held *h)
{
	int fds[DLK_KEEP_FDS] = { h->fd, -1, -1 };
	struct dlk_shadow_why why;
	int err;

	if (h->program_fd < 0)
		return send_message(h, DLK_KEEP_ADD, fds, 1);
	fds[1] = dlk_shadow_program(h->fd);
	if (fds[1] < 0)
		return -EBADF;
	fds[2] = dlk_shadowdir_open(dlk.config->state_dir, false, &why);
	err = send_message(h, DLK_KEEP_ADD, fds, fds[2] < 0 ? 2 : 3);
	if (fds[2] >= 0)
		dlk_close(fds[2]);
	return err;
}

/* --- handing over, many at a time ----------------------------------------- */

/*
 * A round trip each would be long for a process that ends with a thousand
 * locks: as many as the socket surely takes are sent before the first answer
 * is read.
 */
enum { WINDOW = 32, NO_ANSWER = 1 };

struct handing {
	struct dlk_held *h; /* pinned by the caller */
	uint32_t seq;
	int err; /* NO_ANSWER, 0 or -errno */
	bool wanted;
};

static int send_all(struct handing *all, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		int err;

		if (all[i].err != NO_ANSWER)
			continue;
		err = send_add(all[i].h);
		all[i].seq = keeper.seq;
		/* Its descriptor is gone: that is its own affair. */
		if (err == -EBADF)
			all[i].err = err;
		else if (err)
			return err;
	}
	return 0;
}

/* The answers; an older one came too late for its asker. */
static int receive_all(struct handing *all, unsigned n)
{
	for (unsigned i = 0; i < n;) {
		struct dlk_keep_answer a;
		ssize_t got;

		if (all[i].err != NO_ANSWER) {
			i++;
			continue;
		}
		/* Else what is meant for the program would be lost to it. */
		if (!dlk_own_check(&keeper.socket))
			return -EPIPE;
		got = recv(keeper.socket.fd, &a, sizeof(a), 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got != sizeof(a))
			return got < 0 ? -errno : -EPIPE;
		if (a.seq == all[i].seq)
			all[i].err = a.status;
	}
	return 0;
}

static int start_if_need_be(void)
{
	if (keeper.socket.fd >= 0 && dlk_own_check(&keeper.socket))
		return 0;
	lose_keeper();
	return start();
}

/* The next one has nothing of what the last one took, and was asked here. */
static void ask_again(struct handing *all, unsigned n)
{
	lose_keeper();
	for (unsigned i = 0; i < n; i++)
		if (all[i].wanted && all[i].err == 0)
			all[i].err = NO_ANSWER;
}

/* A keeper that has ended with its last lock is started anew, once. */
static void add_all(struct handing *all, unsigned n)
{
	int err = -EPIPE;

	for (int tries = 0; tries < 2 && err == -EPIPE; tries++) {
		err = start_if_need_be();
		if (err)
			break;
		err = send_all(all, n);
		if (!err)
			err = receive_all(all, n);
		if (err == -ECONNRESET || err == -ENOTCONN)
			err = -EPIPE;
		if (err == -EPIPE)
			ask_again(all, n);
	}
	for (unsigned i = 0; i < n; i++)
		if (all[i].err == NO_ANSWER)
			all[i].err = err;
}

static void tell_failure(const struct dlk_held *h, int err)
{
	struct dlk_line l;

	dlk_line_begin(&l, DLK_WARNING);
	dlk_text_str(&l.text, "no keeper for the lease ");
	dlk_text_quoted(&l.text, h->lease.key, h->lease.key_len);
	dlk_text_str(&l.text, ": ");
	if (err == -EXDEV) {
		dlk_text_str(&l.text,
			     "this process' children are of another pid "
			     "namespace, whose process 1 it would be");
		dlk_line_end(&l);
		return;
	}
	dlk_text_str(&l.text, strerrordesc_np(-err) ?: "unknown error");
	dlk_text_str(&l.text,
		     "; it ends by its ttl when this process ends.  "
		     "Is dlock-keeper installed beside libdlock-preload.so?");
	dlk_line_end(&l);
}

/* (mutex taken) Nobody has handed it over, or given it back, before us. */
static bool wanted(const struct dlk_held *h)
{
	bool yes;

	pthread_mutex_lock(&dlk.mutex);
	yes = h->state == DLK_HELD && !h->kept;
	pthread_mutex_unlock(&dlk.mutex);
	return yes;
}

/* The keeper has said yes or no. */
static void settle(struct handing *it)
{
	struct dlk_held *h = it->h;
	bool over, tell;

	pthread_mutex_lock(&dlk.mutex);
	over = h->state != DLK_HELD || h->leaving;
	if (it->err)
		h->refused_ns = dlk_now_ns();
	else
		h->kept = !over;
	h->handover_ns = it->err ? dlk_now_ns() + 1000 * DLK_MS : UINT64_MAX;
	tell = it->err && !over && !h->told_no_keeper;
	h->told_no_keeper |= tell;
	pthread_mutex_unlock(&dlk.mutex);
	if (!it->err && !over)
		dlk_trace_lease(h, "the keeper's to carry on, too", NULL);
	/* Given back while we were talking: nobody else has said so. */
	if (!it->err && over)
		send_message(h, DLK_KEEP_DROP, NULL, 0);
	if (tell)
		tell_failure(h, it->err);
}

static void hand_over(struct handing *all, unsigned n)
{
	unsigned still = 0;

	for (unsigned i = 0; i < n; i++) {
		/* By a descriptor that is surely the lock's. */
		all[i].wanted = dlk_lock_is_there(all[i].h) != 0;
		if (!all[i].wanted)
			dlk_lock_ended(all[i].h);
	}
	begin();
	notice_its_end();
	for (unsigned i = 0; i < n; i++) {
		all[i].wanted = all[i].wanted && wanted(all[i].h);
		all[i].err = all[i].wanted ? NO_ANSWER : 0;
		still += all[i].wanted;
	}
	if (still)
		add_all(all, n);
	for (unsigned i = 0; i < n; i++)
		if (all[i].wanted)
			settle(&all[i]);
	end();
}

bool dlk_handover(struct dlk_held *h)
{
	struct handing one = { .h = h };

	hand_over(&one, 1);
	return one.err == 0;
}

/*
 * Those due by `due_ns` that the keeper has not got, pinned; but not what it
 * has refused since.
 */
static unsigned collect_unkept(struct handing *all, uint64_t due_ns,
			       uint64_t since_ns)
{
	unsigned n = 0;

	pthread_mutex_lock(&dlk.mutex);
	for (struct dlk_held *h = dlk.held; h && n < WINDOW; h = h->next) {
		/*
		 * One that a conversion gives up just now is no lock of its
		 * mode any more; its successor is handed over.  The
		 * thread leaves alone what others work on, too.
		 */
		if (h->state != DLK_HELD || h->kept || h->leaving ||
		    (h->pins && due_ns != UINT64_MAX) ||
		    h->handover_ns > due_ns || h->refused_ns >= since_ns)
			continue;
		h->pins++;
		all[n++] = (struct handing){ .h = h };
	}
	pthread_mutex_unlock(&dlk.mutex);
	return n;
}

static void hand_over_pinned(struct handing *all, unsigned n)
{
	if (n)
		hand_over(all, n);
	for (unsigned i = 0; i < n; i++)
		dlk_unpin(all[i].h);
}

void dlk_handover_all(void)
{
	uint64_t began = dlk_now_ns();
	struct handing all[WINDOW];
	struct dlk_call call;
	unsigned n;

	if (atomic_load(&dlk.n_held) == 0)
		return;
	dlk_enter(&call);
	begin();
	notice_its_end();
	end();
	while ((n = collect_unkept(all, UINT64_MAX, began)) > 0)
		hand_over_pinned(all, n);
	dlk_leave(&call);
}

bool dlk_handover_due(void)
{
	struct handing all[WINDOW];
	unsigned n = collect_unkept(all, dlk_now_ns(), UINT64_MAX);

	hand_over_pinned(all, n);
	return n > 0;
}

static void say(const struct dlk_held *h, uint32_t type)
{
	begin();
	if (keeper.socket.fd >= 0)
		send_message(h, type, NULL, 0);
	end();
}

void dlk_handover_drop(const struct dlk_held *h)
{
	say(h, DLK_KEEP_DROP);
}

void dlk_handover_left(const struct dlk_held *h)
{
	say(h, DLK_KEEP_LEFT);
}

/* The keeper knows no such lease, if it is not the one that got it. */
bool dlk_handover_owe(const struct dlk_held *h)
{
	bool told;

	begin();
	told = keeper.socket.fd >= 0 &&
	       send_message(h, DLK_KEEP_OWE, NULL, 0) == 0;
	end();
	return told;
}

void dlk_handover_stay(void)
{
	struct handing one = { .err = NO_ANSWER };

	begin();
	notice_its_end();
	if (start_if_need_be() == 0 &&
	    send_message(NULL, DLK_KEEP_STAY, NULL, 0) == 0) {
		one.seq = keeper.seq;
		receive_all(&one, 1);
	}
	end();
}

void dlk_handover_dismiss(void)
{
	begin();
	lose_keeper();
	end();
}

void dlk_handover_tick(void)
{
	begin();
	notice_its_end();
	if (keeper.unreaped > 0 && dlk_reap(keeper.unreaped, "dlock-keeper"))
		keeper.unreaped = 0;
	end();
}

void dlk_leave_to_keeper(struct dlk_held *h)
{
	pthread_mutex_lock(&dlk.mutex);
	if (h->state == DLK_HELD && h->kept)
		dlk_held_drop(h);
	pthread_mutex_unlock(&dlk.mutex);
}
