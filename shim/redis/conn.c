/* SPDX-License-Identifier: MIT */
/*
 * One connection to one Redis server; see conn.h.
 *
 * The socket blocks, with SO_RCVTIMEO and SO_SNDTIMEO of one slice: so an
 * answer costs one system call, recv(2), and a wait still looks up every
 * 20 ms, for its deadline and for pending signals.
 *
 *  1. No byte MUST go anywhere but to our socket: device and inode are
 *     compared before each use, and send(2) refuses what is no socket.
 *  2. MSG_NOSIGNAL always: SIGPIPE is the program's, not ours.
 *  3. A connection that failed, whatever the failure, is closed: what was
 *     sent on it may or may not have been done.
 *  4. A command may be an AUTH: what was sent is wiped.
 */
#include "redis/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "redis/fault.h"
#include "redis/node.h"
#include "redis/resolve.h"
#include "redis/tls.h"
#include "os/sys.h"
#include "model/text.h"
#include "model/timeline.h"

enum { SLICE_MS = 20, QUEUE_MS = 2, INFO_MS = 30000, NODE_MS = 1000 };

static dlk_find_fn *find_server;
static dlk_met_fn *met_server;

void dlk_conn_finds_by(dlk_find_fn *find, dlk_met_fn *met)
{
	find_server = find;
	met_server = met;
}

/* Where it is to be connected to. */
static const struct dlk_endpoint *place_of(const struct dlk_conn *c)
{
	return c->ep->n_sentinels ? &c->found : c->ep;
}

/* Others have named another one meanwhile. */
static bool is_to_one_before(const struct dlk_conn *c)
{
	return c->known && c->switches != dlk_server_switches(c->known);
}

/* (Of one before it is the other one which is believed.) */
static void doubt_master(struct dlk_conn *c, int err)
{
	if (c->ep->n_sentinels && err != -EINTR && !is_to_one_before(c))
		dlk_server_doubted(c->known);
}

static int fail(struct dlk_conn *c, int err, const char *what)
{
	struct dlk_text t = dlk_text_in(c->error, sizeof(c->error));

	doubt_master(c, err);
	dlk_text_str(&t, what);
	if (err) {
		dlk_text_strs(&t, ": ",
			      strerrordesc_np(-err) ?: "unknown error", NULL);
	}
	dlk_conn_close(c);
	return err ?: -EPROTO;
}

struct dlk_conn *dlk_conn_new(const struct dlk_endpoint *ep)
{
	struct dlk_conn *c = dlk_undumped(sizeof(*c));

	if (!c)
		return NULL;
	c->ep = ep;
	c->own.fd = c->lookup.in.fd = -1;
	/* hiredis' buffer doubles, and an arena keeps what it grew out of. */
	dlk_arena_init(&c->arena, c->mem, sizeof(c->mem), 8 * DLK_REPLY_MAX);
	return c;
}

void dlk_conn_delete(struct dlk_conn *c)
{
	if (!c)
		return;
	dlk_conn_close(c);
	dlk_undumped_free(c, sizeof(*c));
}

void dlk_conn_forget(struct dlk_conn *c)
{
	if (!c)
		return;
	c->deferred_n = 0;
	c->lookup.pid = 0; /* no child of ours */
	dlk_conn_delete(c);
}

static void run_deferred(struct dlk_conn *c, const redisReply *r)
{
	struct dlk_deferred d = c->deferred[c->deferred_at];
	uint64_t number = 0;
	int err = r ? 0 : -EPIPE;

	c->deferred_at = (c->deferred_at + 1) % DLK_DEFERRED_MAX;
	c->deferred_n--;
	if (r && c->elsewhere && r->type == REDIS_REPLY_ERROR &&
	    dlk_fault_of(r->str)->outcome == DLK_ELSEWHERE)
		c->elsewhere(c->elsewhere_arg, c->ep, r->str);
	if (d.judge)
		err = d.judge(r, &number);
	if (d.done)
		d.done(d.arg, err, number);
}

void dlk_conn_close(struct dlk_conn *c)
{
	dlk_own_close(&c->own);
	dlk_lookup_end(&c->lookup);
	dlk_arena_reset(&c->arena);
	c->reader = NULL;
	explicit_bzero(c->out, c->out_len);
	c->out_len = 0;
	c->in_pending = 0;
	c->greeting = 0;
	c->step = DLK_NO_STEP;
	c->half = DLK_WHOLE;
	while (c->deferred_n)
		run_deferred(c, NULL);
}

bool dlk_conn_is_open(const struct dlk_conn *c)
{
	return c->own.fd >= 0 && !c->step;
}

void dlk_conn_set_error(struct dlk_conn *c, const char *text)
{
	struct dlk_text t = dlk_text_in(c->error, sizeof(c->error));

	dlk_text_str(&t, text);
}

void dlk_conn_explain(struct dlk_conn *c, const char *error)
{
	struct dlk_text t = dlk_text_in(c->error, sizeof(c->error));

	dlk_server_explain(&t, error, &c->server);
}

/* Once a connection; and its run id tells more, if it is known. */
void dlk_conn_suspect(struct dlk_conn *c)
{
	c->restarted |= !c->server.run_id[0] && !c->suspected;
	c->suspected = true;
}

/* Time to end a wait? */
static int is_over(const struct dlk_conn *c, uint64_t deadline_ns)
{
	if (c->interrupt && c->interrupt(c->interrupt_arg))
		return -EINTR;
	return dlk_now_ns() >= deadline_ns ? -ETIMEDOUT : 0;
}

static int to_master_before(struct dlk_conn *c)
{
	return fail(c, -ECONNRESET, "it was to the master before");
}

/*
 * What was sent and has not arrived does not arrive any more (socket(7), SO_LINGER).
 * The kernel would send it again after close(2), and it be granted behind its release,
 * by another connection:
 *
 *	we			server
 *	ask, by T ->		(lost)
 *	no answer: close
 *	release T ->		not there
 *	ask, by T, again ->	granted, to nobody
 *
 * Not of a release: what a server that hangs has of it is done when it goes on, and
 * nobody else says so once the lease has expired.
 */
static void take_back(const struct dlk_conn *c)
{
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	if (dlk_own_check(&c->own))
		dlk_syscall(SYS_setsockopt, c->own.fd, SOL_SOCKET, SO_LINGER,
			    &reset, sizeof(reset));
}

/*
 * Then the connection is closed: -errno, or 0.  (A failover may have been told
 * of meanwhile.)
 */
static int give_up(struct dlk_conn *c, uint64_t deadline_ns, const char *what)
{
	const int err = is_over(c, deadline_ns);

	if (!err && is_to_one_before(c))
		return to_master_before(c);
	if (!err)
		return 0;
	if (c->takes_back)
		take_back(c);
	return fail(c, err, what);
}

/* --- connecting ----------------------------------------------------------- */

static void set_options(int fd, int family)
{
	struct timeval slice = { .tv_usec = SLICE_MS * 1000 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof(slice));
	if (family != AF_UNIX)
		dlk_tcp_options(fd);
}

/* A connect(2) under way: 0 when it is through, -EINPROGRESS, or -errno. */
static int connect_state(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int err = 0, n = dlk_poll(&p, 1, 0);
	socklen_t len = sizeof(err);

	if (n <= 0)
		return n == 0 || errno == EINTR ? -EINPROGRESS : -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		return -errno;
	return -err;
}

/* 0 when it is through; -EINPROGRESS, or -errno. */
static int do_connect(struct dlk_conn *c)
{
	const struct sockaddr *at = (struct sockaddr *)&c->to.v[c->turn].at;

	if (dlk_syscall(SYS_connect, c->own.fd, at, c->to.v[c->turn].len) == 0)
		return 0;
	/* The backlog of a unix socket is full; there is no event. */
	c->step = errno == EAGAIN || errno == EINTR ? DLK_QUEUES : DLK_CONNECTS;
	return c->step == DLK_QUEUES ? -EINPROGRESS : -errno;
}

static uint64_t time_for(const struct dlk_conn *c, uint64_t deadline_ns)
{
	const uint64_t now = dlk_now_ns();

	return deadline_ns > now ? deadline_ns - now
				 : c->ep->connect_timeout_ms * DLK_MS;
}

/* Until when another address that is left is not to be tried yet. */
static void give_a_turn(struct dlk_conn *c, uint64_t deadline_ns)
{
	const unsigned left = c->to.n - c->tried;

	c->turn_ns =
		left > 1 ? dlk_now_ns() + time_for(c, deadline_ns) / left : 0;
}

static int try_address(struct dlk_conn *c, uint64_t deadline_ns)
{
	int fd, err;

	give_a_turn(c, deadline_ns);
	fd = (int)dlk_syscall(SYS_socket, c->to.v[c->turn].at.ss_family,
			      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* At once: the program may close, and use again, a low number. */
	err = dlk_own_take(&c->own, fd);
	return err ?: do_connect(c);
}

/* The one whose turn it is. */
static int go_on(struct dlk_conn *c)
{
	int err = -EBADF;

	if (dlk_own_check(&c->own))
		err = c->step == DLK_QUEUES ? do_connect(c)
					    : connect_state(c->own.fd);
	return err == -EINPROGRESS && c->turn_ns && dlk_now_ns() >= c->turn_ns
		       ? -ETIMEDOUT
		       : err;
}

/* That it failed is in c->error; is there another one? */
static bool is_nexts_turn(struct dlk_conn *c, int err)
{
	struct dlk_text t = { .buf = c->error,
			      .size = sizeof(c->error),
			      .len = c->tried ? strlen(c->error) : 0 };

	dlk_own_close(&c->own);
	c->step = DLK_NO_STEP;
	dlk_text_str(&t, c->tried ? "; " : "cannot connect: ");
	if (c->to.by_name) {
		dlk_put_address(&t, &c->to.v[c->turn].at);
		dlk_text_str(&t, ": ");
	}
	dlk_text_str(&t, strerrordesc_np(-err) ?: "unknown error");
	c->turn = (c->turn + 1) % c->to.n;
	return ++c->tried < c->to.n;
}

/* The one that was connected to last, if the name still has it; or the first. */
static unsigned first_of(const struct dlk_addresses *now,
			 const struct dlk_addresses *was, unsigned turn)
{
	for (unsigned i = 0; turn < was->n && i < now->n; i++)
		if (now->v[i].len == was->v[turn].len &&
		    memcmp(&now->v[i].at, &was->v[turn].at, now->v[i].len) == 0)
			return i;
	return 0;
}

/*
 * For each connection anew: the one before has failed, and a name may lead to
 * another server since then, while one at the old address answers all the same,
 * with a memory of its own.  But where nothing is said, in half of the time, or no
 * more, in another root or with the name's servers away, what was known counts:
 * nobody is told of another one then.
 */
static int look_up(struct dlk_conn *c, uint64_t deadline_ns)
{
	struct dlk_addresses now = { .n = 0 };
	int err;

	if (!c->step)
		c->turn_ns = dlk_now_ns() + time_for(c, deadline_ns) / 2;
	err = dlk_resolve(place_of(c), deadline_ns, &c->lookup, &now);
	if (err == -EINPROGRESS && c->to.n && dlk_now_ns() >= c->turn_ns) {
		dlk_lookup_end(&c->lookup);
		err = -ETIMEDOUT;
	}
	c->step = err == -EINPROGRESS ? DLK_LOOKS_UP : DLK_NO_STEP;
	c->tried = 0;
	if (err)
		return c->to.n && !c->step ? 0 : err;
	c->turn = first_of(&now, &c->to, c->turn);
	c->to = now;
	return 0;
}

/* Of a name without an address, say that. */
static int fail_to_look_up(struct dlk_conn *c, int err)
{
	const bool unknown = err == -EHOSTUNREACH;
	const char *host = place_of(c)->host;
	struct dlk_text t;

	doubt_master(c, err);
	dlk_conn_close(c);
	t = dlk_text_in(c->error, sizeof(c->error));
	dlk_text_str(&t, unknown ? "unknown host name "
				 : "cannot look up the host name ");
	dlk_text_quoted(&t, host, strlen(host));
	if (!unknown)
		dlk_resolve_explain(&t, err);
	return err;
}

/* None of its addresses: then the first one goes first. */
static int fail_to_connect(struct dlk_conn *c, int err)
{
	doubt_master(c, err);
	dlk_conn_close(c);
	c->turn = 0;
	return err;
}

/* By the first address that answers; 0 when one has, -EINPROGRESS, or -errno. */
static int open_plain(struct dlk_conn *c, uint64_t deadline_ns)
{
	int err = 0;

	if (!c->step || c->step == DLK_LOOKS_UP)
		err = look_up(c, deadline_ns);
	if (err)
		return err == -EINPROGRESS ? err : fail_to_look_up(c, err);
	do {
		err = c->step ? go_on(c) : try_address(c, deadline_ns);
		if (!err && !dlk_own_check(&c->own))
			err = -EBADF;
		if (!err || err == -EINPROGRESS) {
			c->step = err ? c->step : DLK_NO_STEP;
			return err;
		}
	} while (is_nexts_turn(c, err));
	return fail_to_connect(c, err);
}

/* By a pair of sockets, whose other end dlock-tls has. */
static int open_by_helper(struct dlk_conn *c)
{
	int err = 0;

	if (!c->step)
		err = dlk_tls_start(place_of(c), &c->own, c->error,
				    sizeof(c->error));
	if (!err)
		err = dlk_tls_started(place_of(c), &c->own, c->error,
				      sizeof(c->error));
	c->step = err == -EINPROGRESS ? DLK_IS_LED : DLK_NO_STEP;
	if (err && err != -EINPROGRESS)
		doubt_master(c, err);
	return err;
}

const char *dlk_conn_lacks(const struct dlk_conn *c)
{
	return c->step == DLK_LOOKS_UP
		       ? "no address yet: its name is still looked up (see "
			 "getent ahosts)"
	       : c->step == DLK_IS_LED && c->ep->scheme == DLK_TLS
		       ? "no connection by TLS yet"
		       : "no connection yet";
}

/* The time is up: what it waited for has not come. */
static int fail_to_open(struct dlk_conn *c, int err)
{
	const enum dlk_step step = c->step;

	if (step == DLK_LOOKS_UP)
		return fail_to_look_up(c, err);
	if (step == DLK_IS_LED)
		return fail(c, err,
			    c->ep->scheme == DLK_TLS ? "cannot connect by TLS"
						     : "cannot connect");
	is_nexts_turn(c, err);
	return fail_to_connect(c, err);
}

static int greet(struct dlk_conn *c, int argc, const struct dlk_arg *args)
{
	c->asking = false;
	c->greeting++;
	return dlk_conn_append(c, argc, args);
}

/* AUTH, SELECT, CLIENT SETNAME and INFO travel with the first command. */
static int queue_greeting(struct dlk_conn *c)
{
	const struct dlk_endpoint *like = dlk_node_like(c->ep);
	const char *user = like->username, *password = like->password;
	struct dlk_number db, pid;
	char name[40] = "dlock-";
	const struct dlk_arg auth[] = { dlk_arg_str("AUTH"),
					dlk_arg_str(user[0] ? user : password),
					dlk_arg_str(password) };
	const struct dlk_arg select[] = {
		dlk_arg_str("SELECT"),
		dlk_arg_number(&db, (uint64_t)c->ep->db, 0)
	};
	int err = 0;

	if (password[0])
		err = greet(c, user[0] ? 3 : 2, auth);
	else if (c->ep->password_file[0])
		c->greeting++; /* AUTH was dlock-tls', its answer is ours */
	if (!err && c->ep->db)
		err = greet(c, 2, select);
	c->optional = c->only_listens ? 1 : 2;
	if (!err) {
		dlk_arg_number(&pid, (uint64_t)dlk_pid(), 0);
		strcat(name, pid.text);
		err = greet(c, 3,
			    (struct dlk_arg[]){ dlk_arg_str("CLIENT"),
						dlk_arg_str("SETNAME"),
						dlk_arg_str(name) });
	}
	if (!err && !c->only_listens)
		err = greet(c, 1, &(struct dlk_arg){ DLK_LITERAL("INFO") });
	return err;
}

/* The socket is connected; what travels with the first command. */
static int begin_talk(struct dlk_conn *c)
{
	int err;

	set_options(c->own.fd, dlk_tls_connects(c->ep)
				       ? AF_UNIX
				       : c->to.v[c->turn].at.ss_family);
	dlk_syscall(SYS_fcntl, c->own.fd, F_SETFL, 0);
	c->server = (struct dlk_server_info){ 0 };
	c->suspected = c->demoted = false;
	c->read_ns = 0;
	memset(c->names, 0, sizeof(c->names));
	if (c->clustered)
		dlk_node_recall(c->ep, c->server.history);
	err = queue_greeting(c);
	return err ? fail(c, err, "cannot queue AUTH and SELECT") : 0;
}

/* Of a server that others name: who it is now. */
static int find(struct dlk_conn *c, uint64_t deadline_ns)
{
	const struct dlk_patience wait = { deadline_ns, c->interrupt,
					   c->interrupt_arg };
	int err;

	if (!c->ep->n_sentinels)
		return 0;
	c->known = dlk_server_known(c->ep);
	do {
		c->switches = dlk_server_switches(c->known);
		c->to.n = 0;
		c->found = *c->ep;
		explicit_bzero(c->found.password, sizeof(c->found.password));
		err = find_server(c->ep, &wait, &c->found, c->error,
				  sizeof(c->error));
	} while (!err && is_to_one_before(c));
	return err;
}

/*
 * To who asks for something it is all one why nobody is let in.  (That a socket
 * is not there is no answer of a server's: -ENOENT, of a script, is one.)
 */
static int note_lack(struct dlk_conn *c, int err)
{
	c->lacks_file = err == -ENOKEY;
	return c->lacks_file ? -EACCES : err == -ENOENT ? -ENOTCONN : err;
}

int dlk_conn_start(struct dlk_conn *c, uint64_t deadline_ns)
{
	int err;

	if (dlk_conn_is_open(c)) {
		if (dlk_own_check(&c->own))
			return 0;
		fail(c, -EBADF, "the program closed our connection");
	}
	err = c->step ? 0 : find(c, deadline_ns);
	if (!err)
		err = dlk_tls_connects(c->ep) ? open_by_helper(c)
					      : open_plain(c, deadline_ns);
	return note_lack(c, err) ?: begin_talk(c);
}

/* A replica that Sentinels name, or who does not say what it is. */
static int refuse_found(struct dlk_conn *c)
{
	struct dlk_text t;

	dlk_server_doubted(c->known);
	dlk_conn_close(c);
	t = dlk_text_in(c->error, sizeof(c->error));
	dlk_text_strs(
		&t, c->found.name,
		c->server.replica
			? " is a replica (a failover is under way?)"
			: " does not tell its role: the user may not INFO",
		NULL);
	return c->server.replica ? -EAGAIN : -EACCES;
}

/*
 * One that is asked about the master's reign must have said which it is, for the
 * scripts have its name (script.c): a release of another name is not known, and
 * goes by one that wakes nobody.  And a replica that Sentinels name would answer
 * by READONLY, or not at all.
 */
static int meet(struct dlk_conn *c, uint64_t deadline_ns)
{
	int err = dlk_conn_flush(c, deadline_ns)
			  ?: dlk_conn_drain(c, deadline_ns);

	if (err || !c->ep->n_sentinels)
		return err;
	if (!c->server.run_id[0] || c->server.replica)
		return refuse_found(c);
	c->switches = met_server(c->ep, &c->found, c->switches);
	return is_to_one_before(c) ? to_master_before(c) : 0;
}

static int open_once(struct dlk_conn *c, uint64_t deadline_ns)
{
	const bool meets = (c->ep->n_sentinels || c->clustered) &&
			   !c->only_listens && !dlk_conn_is_open(c);
	int err;

	while ((err = dlk_conn_start(c, deadline_ns)) == -EINPROGRESS) {
		struct pollfd p = dlk_conn_poll(c);

		err = is_over(c, deadline_ns);
		if (err)
			return fail_to_open(c, err);
		/* (SO_ERROR can be read once, and connect_state() does.) */
		dlk_poll(&p, 1, p.fd < 0 ? QUEUE_MS : SLICE_MS);
	}
	return err ?: meets ? meet(c, deadline_ns) : 0;
}

int dlk_conn_open(struct dlk_conn *c, uint64_t deadline_ns)
{
	int err = open_once(c, deadline_ns);

	/* There may have been a failover since the Sentinels were asked. */
	if (err && err != -EINTR && err != -EACCES && c->ep->n_sentinels &&
	    dlk_now_ns() < deadline_ns)
		err = open_once(c, deadline_ns);
	return err;
}

bool dlk_conn_is_stale(const struct dlk_conn *c)
{
	return c->demoted || is_to_one_before(c);
}

void dlk_conn_look_for_end(struct dlk_conn *c)
{
	ssize_t n;
	char byte;

	if (!dlk_own_check(&c->own))
		return;
	if (c->deferred_n)
		dlk_conn_drain(c, 0);
	n = recv(c->own.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (dlk_conn_is_open(c) && !dlk_conn_is_stale(c) &&
	    ((n > 0 && c->deferred_n) ||
	     (n < 0 && (errno == EAGAIN || errno == EINTR))))
		return;
	fail(c, -ECONNRESET, "the server closed the connection");
	c->restarted = true;
}

/* --- commands and replies ------------------------------------------------- */

struct dlk_arg dlk_arg_number(struct dlk_number *n, uint64_t value,
			      unsigned width)
{
	struct dlk_text t = dlk_text_in(n->text, sizeof(n->text));

	dlk_text_u64(&t, value, width);
	return (struct dlk_arg){ n->text, t.len };
}

static void put_count(struct dlk_text *t, const char *type, size_t n)
{
	dlk_text_str(t, type);
	dlk_text_u64(t, n, 0);
	dlk_text_bytes(t, "\r\n", 2);
}

/* "*2", "$3", "GET", "$1", "k": redis.io, "Redis protocol". */
static void put_command(struct dlk_text *t, int argc,
			const struct dlk_arg *args)
{
	put_count(t, "*", (size_t)argc);
	for (int i = 0; i < argc; i++) {
		put_count(t, "$", args[i].len);
		dlk_text_bytes(t, args[i].text, args[i].len);
		dlk_text_bytes(t, "\r\n", 2);
	}
}

int dlk_conn_append(struct dlk_conn *c, int argc, const struct dlk_arg *args)
{
	const struct dlk_arg asking = { DLK_LITERAL("ASKING") };
	struct dlk_text t;

	if (!dlk_conn_is_open(c))
		return -ENOTCONN;
	if (c->out_len == sizeof(c->out))
		return -ENOBUFS;
	dlk_text_init(&t, c->out + c->out_len, sizeof(c->out) - c->out_len);
	if (c->asking)
		put_command(&t, 1, &asking);
	put_command(&t, argc, args);
	if (t.cut) {
		explicit_bzero(t.buf, t.len);
		return -ENOBUFS;
	}
	c->out_len += t.len;
	return 0;
}

/*
 * A server that wants no connection says so, and closes it; perhaps before we
 * have said anything.
 */
static int fail_to_send(struct dlk_conn *c, int err)
{
	ssize_t n = c->greeting && dlk_own_check(&c->own)
			    ? recv(c->own.fd, c->in, sizeof(c->in) - 1,
				   MSG_DONTWAIT)
			    : 0;

	if (n <= 1 || c->in[0] != '-')
		return fail(c, err, "cannot send");
	c->in[n] = '\0';
	c->in[strcspn(c->in, "\r\n")] = '\0';
	dlk_conn_explain(c, c->in + 1);
	dlk_conn_close(c);
	return dlk_fault_of(c->in + 1)->outcome == DLK_FATAL ? -EACCES : err;
}

int dlk_conn_flush(struct dlk_conn *c, uint64_t deadline_ns)
{
	size_t sent = 0;
	int err;

	if (!dlk_conn_is_open(c))
		return -ENOTCONN;
	while (sent < c->out_len) {
		ssize_t n;

		if (!dlk_own_check(&c->own))
			return fail(c, -EBADF, "our connection was closed");
		n = send(c->own.fd, c->out + sent, c->out_len - sent,
			 MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return fail_to_send(c, -errno);
		sent += n > 0 ? (size_t)n : 0;
		err = sent < c->out_len ? give_up(c, deadline_ns, "cannot send")
					: 0;
		if (err)
			return err;
	}
	explicit_bzero(c->out, c->out_len);
	c->out_len = 0;
	return 0;
}

/* What the socket gave, into the reader. */
static int feed(struct dlk_conn *c, ssize_t n)
{
	struct dlk_arena *was;
	int err;

	if (n < 0)
		return fail(c, -errno, "cannot receive");
	if (n == 0)
		return fail(c, -ECONNRESET, "the server closed the connection");
	c->in_pending += (size_t)n;
	if (c->in_pending > DLK_REPLY_MAX)
		return fail(c, -EPROTO, "an answer of more than 1 MiB");
	was = dlk_arena_use(&c->arena);
	if (!c->reader)
		c->reader = redisReaderCreate();
	err = c->reader ? redisReaderFeed(c->reader, c->in, (size_t)n) : -1;
	dlk_arena_use(was);
	return err ? fail(c, -ENOMEM, "no memory for an answer") : 0;
}

/* One more piece from the socket; -EAGAIN: with a deadline of 0, none yet. */
static int receive(struct dlk_conn *c, uint64_t deadline_ns)
{
	ssize_t n;

	if (!dlk_own_check(&c->own))
		return fail(c, -EBADF, "our connection was closed");
	n = recv(c->own.fd, c->in, sizeof(c->in),
		 deadline_ns ? 0 : MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return deadline_ns ? give_up(c, deadline_ns, "no answer")
				   : -EAGAIN;
	return feed(c, n);
}

/* What is whole in the reader: 0, and *reply or NULL. */
static int parse(struct dlk_conn *c, const redisReply **reply)
{
	struct dlk_arena *was = dlk_arena_use(&c->arena);
	void *r = NULL;
	int err = c->reader ? redisReaderGetReply(c->reader, &r) : 0;

	dlk_arena_use(was);
	*reply = r;
	return err ? fail(c, 0,
			  "the answer is not RESP; "
			  "is this a Redis server?")
		   : 0;
}

/*
 * A master that was made a replica, and whose connections were not ended: the next
 * one is to who is there then.  (That may be the same: so only a master that others
 * name is another memory for that.)
 */
static void note_demotion(struct dlk_conn *c, const redisReply *r)
{
	if (r->type != REDIS_REPLY_ERROR ||
	    (strncmp(r->str, "READONLY ", 9) != 0 &&
	     strncmp(r->str, "MASTERDOWN ", 11) != 0))
		return;
	c->demoted = true;
	c->restarted |= c->ep->n_sentinels != 0;
	if (c->ep->n_sentinels)
		dlk_server_doubted(c->known);
}

static int next_reply(struct dlk_conn *c, uint64_t deadline_ns,
		      const redisReply **reply)
{
	for (bool more = false;; more = true) {
		int err = parse(c, reply);

		if (!err && *reply)
			note_demotion(c, *reply);
		if (err || *reply)
			return err;
		/* An answer may trickle in for ever. */
		err = more && deadline_ns ? give_up(c, deadline_ns, "no answer")
					  : 0;
		if (!err)
			err = receive(c, deadline_ns);
		if (err)
			return err;
	}
}

int dlk_conn_take(struct dlk_conn *c, const redisReply **reply)
{
	if (!dlk_conn_is_open(c))
		return -ENOTCONN;
	if (dlk_conn_is_stale(c))
		return to_master_before(c);
	return next_reply(c, 0, reply);
}

int dlk_conn_fd(const struct dlk_conn *c)
{
	return dlk_own_check(&c->own) ? c->own.fd : -1;
}

struct pollfd dlk_conn_poll(const struct dlk_conn *c)
{
	struct pollfd p = { .fd = -1, .events = POLLIN };

	if (c->step == DLK_LOOKS_UP)
		p.fd = dlk_own_check(&c->lookup.in) ? c->lookup.in.fd : -1;
	else if (c->step != DLK_QUEUES)
		p.fd = dlk_conn_fd(c);
	if (c->step == DLK_CONNECTS)
		p.events = POLLOUT;
	return p;
}

/*
 * AUTH or SELECT refused, or all: it ends the connection.  (Of a client without
 * a password Redis takes no command of more than ten words, and names something
 * else for the reason: so the first one that says so counts, whatever was asked.)
 */
static int refuse_greeting(struct dlk_conn *c, const redisReply *r)
{
	const int err = dlk_fault_errno(r->str) == -EAGAIN ? -EAGAIN : -EACCES;

	dlk_conn_explain(c, r->str);
	dlk_conn_close(c);
	return err;
}

static void read_info(struct dlk_conn *c, const redisReply *r)
{
	c->read_ns = dlk_now_ns();
	if (r->type != REDIS_REPLY_STRING)
		return;
	dlk_server_read(&c->server, c->ep, r->str);
	/* (What a replica says of the reign is its master's.) */
	if (c->ep->n_sentinels && c->server.replica)
		c->demoted = true;
	else
		c->restarted |= dlk_server_meet(&c->server);
	if (!c->clustered)
		return;
	memset(c->names, 0, sizeof(c->names));
	dlk_node_note(c->ep, c->server.history);
}

/* Who is refused for a while (BUSY) is not told by that what the server is. */
static bool is_put_off(const redisReply *r)
{
	return r->type == REDIS_REPLY_ERROR &&
	       dlk_fault_of(r->str)->outcome == DLK_RETRY;
}

/*
 * The set-up's replies come first.  Those of CLIENT SETNAME and INFO are
 * optional: an ACL may forbid them.
 */
static bool ends_greeting(const struct dlk_conn *c, const redisReply *r)
{
	return is_put_off(r) ||
	       (r->type == REDIS_REPLY_ERROR &&
		(c->greeting >= c->optional || dlk_fault_of(r->str)->ends));
}

static int skip_greeting(struct dlk_conn *c, uint64_t deadline_ns)
{
	while (c->greeting) {
		const redisReply *r = NULL;
		int err = next_reply(c, deadline_ns, &r);

		if (err || !r)
			return err;
		c->greeting--;
		if (ends_greeting(c, r))
			return refuse_greeting(c, r);
		if (c->greeting == 0 && !c->only_listens)
			read_info(c, r);
	}
	return 0;
}

static struct dlk_deferred *deferred(const struct dlk_conn *c, unsigned i)
{
	struct dlk_conn *own = (struct dlk_conn *)(uintptr_t)c;

	return &own->deferred[(c->deferred_at + i) % DLK_DEFERRED_MAX];
}

static void put_deferred(struct dlk_conn *c, struct dlk_deferred d)
{
	*deferred(c, c->deferred_n++) = d;
}

/* (ASKING has an answer of its own.) */
int dlk_conn_defer(struct dlk_conn *c, dlk_judge_fn *judge, dlk_done_fn *done,
		   void *arg)
{
	const bool asking = c->asking;

	if (c->deferred_n + asking >= DLK_DEFERRED_MAX)
		return -ENOBUFS;
	if (asking)
		put_deferred(c, (struct dlk_deferred){ .judge = NULL });
	put_deferred(c, (struct dlk_deferred){
				.judge = judge, .done = done, .arg = arg });
	return 0;
}

void dlk_conn_mark(struct dlk_conn *c, uint64_t mark)
{
	deferred(c, c->deferred_n - 1)->mark = mark;
}

bool dlk_conn_owes(const struct dlk_conn *c, uint64_t mark)
{
	unsigned i = 0;

	while (i < c->deferred_n && deferred(c, i)->mark != mark)
		i++;
	return i < c->deferred_n;
}

int dlk_conn_drain(struct dlk_conn *c, uint64_t deadline_ns)
{
	int err;

	if (!dlk_conn_is_open(c))
		return -ENOTCONN;
	err = c->greeting ? skip_greeting(c, deadline_ns) : 0;
	while (!err && c->deferred_n) {
		const redisReply *r = NULL;

		err = next_reply(c, deadline_ns, &r);
		if (!err)
			run_deferred(c, r);
	}
	return err;
}

int dlk_conn_reply(struct dlk_conn *c, uint64_t deadline_ns,
		   const redisReply **reply)
{
	int err = dlk_conn_drain(c, deadline_ns);

	/* That of ASKING, before it. */
	if (!err && c->asking)
		err = next_reply(c, deadline_ns, reply);
	return err ?: next_reply(c, deadline_ns, reply);
}

bool dlk_conn_has_more(const struct dlk_conn *c)
{
	return c->reader &&
	       (c->reader->pos < c->reader->len || c->reader->ridx >= 0);
}

/* What is still in the reader belongs to replies to come: then keep all. */
void dlk_conn_reset(struct dlk_conn *c)
{
	if (c->greeting || dlk_conn_has_more(c))
		return;
	dlk_arena_reset(&c->arena);
	c->reader = NULL;
	c->in_pending = 0;
}

int dlk_conn_call(struct dlk_conn *c, uint64_t deadline_ns, int argc,
		  const struct dlk_arg *args, const redisReply **reply)
{
	int err = 0;

	if (c->half != DLK_TAKING)
		err = dlk_conn_append(c, argc, args)
			      ?: dlk_conn_flush(c, deadline_ns);
	if (!err && c->half == DLK_ASKING)
		return -EINPROGRESS;
	c->half = DLK_WHOLE;
	return err ?: dlk_conn_reply(c, deadline_ns, reply);
}

/* Unless it was asked that less than `ms` ago: 0, or -EAGAIN, it is put off. */
static int look(struct dlk_conn *c, uint64_t deadline_ns, uint64_t ms)
{
	const struct dlk_arg info = { DLK_LITERAL("INFO") };
	const bool before = c->server.evicts[0];
	const redisReply *r;

	if (!dlk_conn_is_open(c) ||
	    (c->read_ns && dlk_now_ns() < c->read_ns + ms * DLK_MS) ||
	    dlk_conn_call(c, deadline_ns, 1, &info, &r))
		return 0;
	if (is_put_off(r)) {
		dlk_conn_explain(c, r->str);
		dlk_conn_reset(c);
		return -EAGAIN;
	}
	read_info(c, r);
	c->evicts |= !before && c->server.evicts[0] && !c->ep->allow_eviction;
	dlk_conn_reset(c);
	return 0;
}

int dlk_conn_know(struct dlk_conn *c, uint64_t deadline_ns)
{
	int err = dlk_conn_open(c, deadline_ns);

	if (!err && c->greeting)
		err = dlk_conn_flush(c, deadline_ns)
			      ?: dlk_conn_drain(c, deadline_ns);
	if (!err)
		err = look(c, deadline_ns, NODE_MS);
	return err ?: dlk_conn_is_open(c) ? 0 : -ENOTCONN;
}

void dlk_conn_doubt(struct dlk_conn *c)
{
	c->read_ns = 0;
	memset(c->names, 0, sizeof(c->names));
}

void dlk_conn_look(struct dlk_conn *c, uint64_t deadline_ns)
{
	look(c, deadline_ns, INFO_MS);
}
