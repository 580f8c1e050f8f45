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
#include "model/timeline.h"

static struct {
	_Atomic bool talking;
	struct dlk_own socket;
	pid_t pid, unreaped;
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

static void lose_keeper(void)
{
	dlk_own_close(&keeper.socket);
	if (keeper.pid > 0 && !dlk_reap(keeper.pid, "dlock-keeper"))
		keeper.unreaped = keeper.pid;
	keeper.pid = 0;
}

static pid_t spawn(int their_end)
{
	char name[] = "dlock-keeper", env[600] = "DLOCK_LOG=";
	char fallback[] = DLK_LIBEXECDIR "/dlock-keeper";
	char *argv[] = { name, NULL };
	char *envp[] = { env, NULL };
	pid_t pid;

	strncat(env, dlk_log_setting(), sizeof(env) - strlen(env) - 1);
	pid = dlk_spawn(dlk.keeper_path, argv, envp, their_end, false);
	if (pid == -ENOENT || pid == -EACCES)
		pid = dlk_spawn(fallback, argv, envp, their_end, false);
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
	if (err)
		return err;
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

/* The message of a lease, or of none; its size, or -ENOMEM. */
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
		memset(m->bytes, 0, 2);
		return (ssize_t)sizeof(*m) + 2;
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
		.shared = h->lease.shared,
		.granted_ns = h->granted_ns,
		.deadline_ns = h->deadline_ns,
		.renew_ns = h->renew_ns,
		.ep = *h->rule->redis->endpoints,
	};
	memcpy(m->bytes, h->lease.key, h->lease.key_len + 1);
	memcpy(m->bytes + h->lease.key_len + 1, h->lease.token,
	       h->lease.token_len + 1);
	return (ssize_t)(sizeof(*m) + h->lease.key_len + h->lease.token_len +
			 2);
}

static int send_message(const struct dlk_held *h, uint32_t type, int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t size = compose(h, type);

	if (size < 0)
		return (int)size;
	iov = (struct iovec){ keeper.msg, (size_t)size };
	if (fd >= 0) {
		struct cmsghdr *c = &control.align;

		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	if (!dlk_own_check(&keeper.socket))
		return -EPIPE;
	if (dlk_syscall(SYS_sendmsg, keeper.socket.fd, &msg, MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

/* The answer to the last message; an older one came too late for its asker. */
static int answer(void)
{
	struct dlk_keep_answer a;
	ssize_t n;

	do {
		/* Else what was meant for the program would be lost to it. */
		if (!dlk_own_check(&keeper.socket))
			return -EPIPE;
		n = recv(keeper.socket.fd, &a, sizeof(a), 0);
	} while ((n < 0 && errno == EINTR) ||
		 (n == sizeof(a) && a.seq != keeper.seq));
	if (n < 0)
		return -errno;
	return n == sizeof(a) ? a.status : -EPIPE;
}

/* A keeper that has ended with its last lock is started anew, once. */
static int converse(const struct dlk_held *h, uint32_t type)
{
	int err = -EPIPE;

	for (int tries = 0; tries < 2 && err == -EPIPE; tries++) {
		if (keeper.socket.fd < 0 || !dlk_own_check(&keeper.socket)) {
			lose_keeper();
			err = start();
			if (err)
				break;
		}
		err = send_message(h, type, h ? h->fd : -1);
		if (!err)
			err = answer();
		if (err == -ECONNRESET || err == -ENOTCONN)
			err = -EPIPE;
		if (err == -EPIPE)
			lose_keeper();
	}
	return err;
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

/* h is pinned by the caller, so that it stays where it is. */
bool dlk_handover(struct dlk_held *h)
{
	bool over, tell;
	int err;

	/* By a descriptor that is surely the lock's. */
	if (dlk_lock_is_there(h) == 0) {
		dlk_lock_ended(h);
		return true;
	}
	begin();
	if (!wanted(h)) {
		end();
		return true;
	}
	err = converse(h, DLK_KEEP_ADD);
	pthread_mutex_lock(&dlk.mutex);
	over = h->state != DLK_HELD || h->leaving;
	if (!err)
		h->kept = true;
	h->handover_ns = err ? dlk_now_ns() + 1000 * DLK_MS : UINT64_MAX;
	tell = err && !over && !h->told_no_keeper;
	h->told_no_keeper |= tell;
	pthread_mutex_unlock(&dlk.mutex);
	/* Given back while we were talking: nobody else has said so. */
	if (!err && over)
		send_message(h, DLK_KEEP_DROP, -1);
	end();
	if (tell)
		tell_failure(h, err);
	return err == 0;
}

/* (mutex held) One that the keeper has not got; pinned, so unpin it after. */
static struct dlk_held *next_unkept(uint64_t before_ns)
{
	for (struct dlk_held *h = dlk.held; h; h = h->next) {
		if (h->state == DLK_HELD && !h->kept &&
		    h->granted_ns < before_ns) {
			h->pins++;
			return h;
		}
	}
	return NULL;
}

void dlk_handover_all(void)
{
	uint64_t now = dlk_now_ns();
	struct dlk_call call;

	if (atomic_load(&dlk.n_held) == 0)
		return;
	dlk_enter(&call);
	for (;;) {
		struct dlk_held *h;

		pthread_mutex_lock(&dlk.mutex);
		h = next_unkept(now);
		pthread_mutex_unlock(&dlk.mutex);
		if (!h)
			break;
		if (!dlk_handover(h))
			now = h->granted_ns; /* do not ask for it again */
		dlk_unpin(h);
	}
	dlk_leave(&call);
}

void dlk_handover_drop(const struct dlk_held *h)
{
	begin();
	if (keeper.socket.fd >= 0)
		send_message(h, DLK_KEEP_DROP, -1);
	end();
}

/* The keeper knows no such lease, if it is not the one that got it. */
bool dlk_handover_owe(const struct dlk_held *h)
{
	bool told;

	begin();
	told = keeper.socket.fd >= 0 && send_message(h, DLK_KEEP_OWE, -1) == 0;
	end();
	return told;
}

void dlk_handover_stay(void)
{
	begin();
	converse(NULL, DLK_KEEP_STAY);
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
	char byte;

	begin();
	if (keeper.socket.fd >= 0 && dlk_own_check(&keeper.socket) &&
	    recv(keeper.socket.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
		lose_keeper();
	if (keeper.unreaped > 0 && dlk_reap(keeper.unreaped, "dlock-keeper"))
		keeper.unreaped = 0;
	end();
}
