/* SPDX-License-Identifier: MIT */
/* Our end of the sockets to dlock-tls; see tls.h. */
#include "redis/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "model/text.h"
#include "os/guard.h"
#include "os/spawn.h"
#include "os/spawn_own.h"
#include "os/sys.h"
#include "tls/protocol.h"

/* A server each; a keeper can have no more at a time (DLK_KEEP_SERVERS). */
enum { HELPERS = 64 };

static struct helper {
	struct dlk_tls_start to; /* no magic: a free place */
	struct dlk_own control;
	pid_t pid; /* see dlk_spawn(); 0: none */
	uint64_t used_ns;
} helpers[HELPERS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char path[DLK_PATH_MAX]; /* "": only the one that is installed */
static const char program[] = "dlock-tls";

static void say(char *why, size_t size, const char *what, int err)
{
	struct dlk_text t = dlk_text_in(why, size);

	dlk_text_str(&t, what);
	if (err)
		dlk_text_strs(&t, ": ",
			      strerrordesc_np(-err) ?: "unknown error", NULL);
}

void dlk_tls_begin(const char *beside)
{
	const char *slash = beside ? strrchr(beside, '/') : NULL;
	const size_t n = slash ? (size_t)(slash + 1 - beside) : 0;

	path[0] = '\0';
	if (!slash || n + sizeof(program) > sizeof(path))
		return;
	memcpy(path, beside, n);
	memcpy(path + n, program, sizeof(program));
}

void dlk_tls_begin_beside_program(void)
{
	char self[DLK_PATH_MAX];
	long n = dlk_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", self,
			     sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	dlk_tls_begin(self);
}

/* --- the process ---------------------------------------------------------- */

/* Both high at once: a low number would be in the program's way. */
static int make_pair(int type, struct dlk_own *ours, struct dlk_own *theirs)
{
	int ends[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	return dlk_own_take_pair(ours, theirs, ends);
}

/* No password goes there: it is a command of ours, or in that file. */
static void put_start(struct dlk_tls_start *s, const struct dlk_endpoint *ep)
{
	memset(s, 0, sizeof(*s));
	s->magic = DLK_TLS_MAGIC;
	s->scheme = ep->scheme;
	s->port = ep->port;
	s->timeout_ms = ep->connect_timeout_ms;
	s->tls = ep->tls;
	memcpy(s->host, ep->host, sizeof(s->host));
	memcpy(s->path, ep->path, sizeof(s->path));
	memcpy(s->name, ep->name, sizeof(s->name));
	if (!ep->password_file[0])
		return;
	memcpy(s->username, ep->username, sizeof(s->username));
	memcpy(s->password_file, ep->password_file, sizeof(s->password_file));
}

static int send_start(int fd, const struct dlk_tls_start *s)
{
	return send(fd, s, sizeof(*s), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno
									: 0;
}

/* What it is told is there before it is: nobody waits for its start but by that. */
static int begin_helper(struct helper *h, struct dlk_own *theirs)
{
	int err = make_pair(SOCK_SEQPACKET, &h->control, theirs);

	if (!err && (err = send_start(h->control.fd, &h->to))) {
		dlk_own_close(theirs);
		dlk_own_close(&h->control);
	}
	return err;
}

static void lose(struct helper *h)
{
	dlk_own_close(&h->control);
	if (h->pid > 0)
		dlk_reap(h->pid, program);
	h->pid = 0;
}

/*
 * By what it is told, for where Sentinels, or a cluster, say that it is may change.
 * So the one that was not asked for longest makes room: it serves the connections
 * that it has, and ends with the last.
 */
static struct helper *find(const struct dlk_tls_start *to)
{
	struct helper *h = helpers, *oldest = helpers;

	for (; h < helpers + HELPERS && h->to.magic; h++) {
		if (memcmp(&h->to, to, sizeof(*to)) == 0)
			return h;
		if (h->used_ns < oldest->used_ns)
			oldest = h;
	}
	if (h == helpers + HELPERS) {
		h = oldest;
		lose(h);
	}
	*h = (struct helper){ .to = *to, .control = { .fd = -1 } };
	return h;
}

static int send_open(const struct helper *h, int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 'o';
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	/* Else what is meant for the program would be written to. */
	if (!dlk_own_check(&h->control))
		return -EPIPE;
	return dlk_syscall(SYS_sendmsg, h->control.fd, &msg,
			   MSG_NOSIGNAL | MSG_DONTWAIT) < 0
		       ? -errno
		       : 0;
}

/* By the one that there is; by a new one, whose end is `theirs` until it starts. */
static int send_to(struct helper *h, int fd, struct dlk_own *theirs)
{
	int err;

	h->used_ns = dlk_now_ns();
	if (h->control.fd >= 0) {
		err = send_open(h, fd);
		if (!err || err == -EAGAIN)
			return err;
		lose(h);
	}
	return begin_helper(h, theirs) ?: send_open(h, fd);
}

/* Its place may be another's by now. */
static int start(struct helper *h, ino_t control, int their_end)
{
	const pid_t pid = dlk_spawn_own(program, path,
					DLK_LIBEXECDIR "/dlock-tls", their_end);

	DLK_GUARD(&mutex);
	if (h->control.fd >= 0 && h->control.ino == control) {
		if (pid > 0)
			h->pid = pid;
		else
			dlk_own_close(&h->control);
	}
	return pid > 0 ? 0 : pid;
}

/*
 * The mutex is free while one starts, in which vfork(2) suspends this thread
 * (DESIGN 9.5): the others leave what they want, and wait for as long as they may.
 */
static int ask(const struct dlk_endpoint *ep, int fd)
{
	struct dlk_own theirs = { .fd = -1 };
	struct dlk_tls_start to;
	struct helper *h;
	ino_t control;
	int err;

	put_start(&to, ep);
	pthread_mutex_lock(&mutex);
	h = find(&to);
	err = send_to(h, fd, &theirs);
	control = h->control.ino;
	pthread_mutex_unlock(&mutex);
	if (theirs.fd >= 0 && !err)
		err = start(h, control, theirs.fd);
	dlk_own_close(&theirs);
	return err;
}

/* --- a connection --------------------------------------------------------- */

/* (It is sent as a whole.) */
static int read_status(const struct dlk_own *own, struct dlk_tls_status *s)
{
	ssize_t n;

	if (!dlk_own_check(own))
		return -EBADF;
	n = recv(own->fd, s, sizeof(*s), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EINPROGRESS;
	if (n != sizeof(*s))
		return -EPIPE;
	s->why[sizeof(s->why) - 1] = '\0';
	return 0;
}

static void explain_start(const struct dlk_endpoint *ep, char *why, size_t size,
			  int err)
{
	struct dlk_text t = dlk_text_in(why, size);

	dlk_text_strs(&t, "cannot start dlock-tls, which ",
		      ep->scheme == DLK_TLS ? "speaks TLS" : "has the password",
		      ": ", dlk_spawn_why(err), NULL);
	if (err == -ENOENT || err == -EACCES)
		dlk_text_str(&t, " (is it in this root, beside the library or "
				 "as " DLK_LIBEXECDIR "/dlock-tls?)");
}

int dlk_tls_start(const struct dlk_endpoint *ep, struct dlk_own *own, char *why,
		  size_t size)
{
	struct dlk_own theirs = { .fd = -1 };
	int err = make_pair(SOCK_STREAM, own, &theirs);

	if (!err)
		err = ask(ep, theirs.fd);
	dlk_own_close(&theirs);
	if (!err)
		return 0;
	explain_start(ep, why, size, err);
	dlk_own_close(own);
	return err;
}

static int hear(const struct dlk_endpoint *ep, struct dlk_own *own,
		struct dlk_tls_status *status, char *why, size_t size)
{
	int err = read_status(own, status);

	if (err == -EINPROGRESS)
		return err;
	if (err)
		say(why, size,
		    err == -EPIPE           ? "dlock-tls has ended, or has no "
					      "descriptor left"
		    : ep->scheme == DLK_TLS ? "cannot connect by TLS"
					    : "cannot connect",
		    err == -EPIPE ? 0 : err);
	else if ((err = status->err))
		say(why, size, status->why, 0);
	if (err)
		dlk_own_close(own);
	return err;
}

int dlk_tls_started(const struct dlk_endpoint *ep, struct dlk_own *own,
		    char *why, size_t size)
{
	struct dlk_tls_status status;

	return hear(ep, own, &status, why, size);
}

static int wait_for(const struct dlk_endpoint *ep,
		    const struct dlk_patience *wait, struct dlk_own *own,
		    struct dlk_tls_status *status, char *why, size_t size)
{
	int err;

	while ((err = hear(ep, own, status, why, size)) == -EINPROGRESS) {
		err = dlk_patience_wait(own->fd, wait);
		if (err > 0)
			continue;
		err = err ?: -ETIMEDOUT;
		say(why, size, "cannot connect by TLS", err);
		dlk_own_close(own);
		return err;
	}
	return err;
}

int dlk_tls_examine(const struct dlk_endpoint *ep,
		    const struct dlk_patience *wait, int64_t *server_ends,
		    int64_t *own_ends, char *why, size_t size)
{
	struct dlk_own own = { .fd = -1 };
	struct dlk_tls_status status;
	int err = dlk_tls_start(ep, &own, why, size)
			  ?: wait_for(ep, wait, &own, &status, why, size);

	if (err)
		return err;
	dlk_own_close(&own);
	*server_ends = status.server_ends;
	*own_ends = status.own_ends;
	return 0;
}

void dlk_tls_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (struct helper *h = helpers; h < helpers + HELPERS && h->to.magic;
	     h++) {
		dlk_own_close(&h->control);
		h->pid = 0;
	}
}
