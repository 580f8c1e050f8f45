/* SPDX-License-Identifier: MIT */
/*
 * A connection: every wait ends by its deadline whatever the server does (L8),
 * replies keep their order, a failure is told and the connection closed, and
 * no byte goes anywhere but to our own socket, without a SIGPIPE (L7).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

#include "redis/pool.h"
#include "redis/resolve.h"
#include "redis/tls.h"
#include "tests/unit/fake.h"
#include "tests/unit/redis.h"

/* How long after its deadline a call may return: a slice, and some. */
enum { LATE_MS = 40 };

static struct own_redis redis;

struct world {
	struct fake fake;
	struct dlk_conn *c;
};

static int start(void **state)
{
	(void)state;
	own_redis_start(&redis);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	own_redis_stop(&redis);
	return 0;
}

static int open_world(void **state)
{
	static struct world w;

	w = (struct world){ 0 };
	*state = &w;
	return 0;
}

static int close_world(void **state)
{
	struct world *w = *state;

	dlk_conn_delete(w->c);
	fake_stop(&w->fake);
	return 0;
}

static void to_redis(struct world *w)
{
	w->c = dlk_conn_new(&redis.ep);
	assert_non_null(w->c);
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), 0);
}

static void to_fake(struct world *w, serve_fn *serve, void *arg)
{
	fake_start(&w->fake, serve, arg);
	w->c = dlk_conn_new(&w->fake.ep);
	assert_non_null(w->c);
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), 0);
}

static int append(struct dlk_conn *c, const char *word, const char *arg)
{
	const struct dlk_arg args[] = { { word, strlen(word) },
					{ arg, strlen(arg) } };

	return dlk_conn_append(c, 2, args);
}

/* ECHO text; `most` ms until its deadline. */
static int echo(struct dlk_conn *c, const char *text, unsigned most,
		const redisReply **r)
{
	const struct dlk_arg args[] = { { DLK_LITERAL("ECHO") },
					{ text, strlen(text) } };

	return dlk_conn_call(c, in_ms(most), 2, args, r);
}

static void assert_echo(struct dlk_conn *c, const char *text)
{
	const redisReply *r;

	assert_int_equal(echo(c, text, 5000, &r), 0);
	assert_int_equal(r->type, REDIS_REPLY_STRING);
	assert_string_equal(r->str, text);
}

static void assert_fails(struct dlk_conn *c, int err)
{
	const redisReply *r;

	assert_int_equal(echo(c, "x", 5000, &r), err);
	assert_false(dlk_conn_is_open(c));
	assert_true(strlen(c->error) > 0);
}

/* --- connecting ----------------------------------------------------------- */

static void a_call_is_answered(void **state)
{
	struct world *w = *state;

	to_redis(w);
	assert_echo(w->c, "hello");
	dlk_conn_reset(w->c);
	assert_echo(w->c, "again");
}

static void a_connection_is_named(void **state)
{
	struct world *w = *state;
	char name[32];

	to_redis(w);
	snprintf(name, sizeof(name), "dlock-%d", getpid());
	assert_string_equal(tell(w->c, "CLIENT", "GETNAME", NULL)->str, name);
}

static void an_open_connection_stays(void **state)
{
	struct world *w = *state;
	long long id;

	to_redis(w);
	id = tell(w->c, "CLIENT", "ID", NULL)->integer;
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), 0);
	assert_true(tell(w->c, "CLIENT", "ID", NULL)->integer == id);
}

static void no_socket_there_is_an_error(void **state)
{
	struct world *w = *state;
	struct dlk_endpoint ep = redis.ep;

	ep.path[strlen(ep.path) - 1] = 'x';
	w->c = dlk_conn_new(&ep);
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), -ENOTCONN);
	assert_false(dlk_conn_is_open(w->c));
}

static void nobody_listening_is_refused(void **state)
{
	struct world *w = *state;

	fake_listen(&w->fake, 1);
	close(w->fake.listener);
	w->fake.listener = -1;
	w->c = dlk_conn_new(&w->fake.ep);
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), -ECONNREFUSED);
}

static void tls_is_not_spoken_in_the_clear(void **state)
{
	struct world *w = *state;
	struct dlk_endpoint ep = redis.ep;

	ep.scheme = DLK_TLS;
	w->c = dlk_conn_new(&ep);
	/* (Nobody says here where dlock-tls is; or it finds no TLS there.) */
	assert_in_range(-dlk_conn_open(w->c, in_ms(5000)), 1, 200);
	assert_false(dlk_conn_is_open(w->c));
	assert_non_null(strstr(w->c->error, "TLS"));
}

/* --- by a helper, which ends at once, and so does what it is to open -------- */

static char helper_dir[64];

static int make_helper(void **state)
{
	char file[80];

	(void)state;
	make_dir(helper_dir, sizeof(helper_dir));
	snprintf(file, sizeof(file), "%s/dlock-tls", helper_dir);
	dlk_tls_begin(file);
	return symlink("/bin/true", file);
}

static int remove_helper(void **state)
{
	(void)state;
	dlk_tls_begin(NULL);
	dlk_tls_forget();
	remove_dir(helper_dir, "dlock-tls");
	return 0;
}

static int by_helper(uint32_t port, unsigned ms)
{
	const struct dlk_patience wait = { .deadline_ns = in_ms(ms) };
	const struct dlk_endpoint ep = { .scheme = DLK_TLS,
					 .host = "127.0.0.1",
					 .port = port };
	struct dlk_own own = { .fd = -1 };
	char why[256];
	int err = dlk_tls_start(&ep, &own, why, sizeof(why));

	if (!err && dlk_patience_wait(own.fd, &wait) == 0)
		err = -ETIMEDOUT;
	if (!err)
		return dlk_tls_started(&ep, &own, why, sizeof(why));
	dlk_own_close(&own);
	return err;
}

/* (More than there are places.) */
static void each_address_has_a_helper(void **state)
{
	int err = 0;

	(void)state;
	for (uint32_t port = 1; port <= 70; port++)
		err = by_helper(port, 60000);
	/* (It may have ended before it is spoken to.) */
	assert_true(err == -EPIPE || err == -ECONNRESET);
}

/* Two pipes: the word that the other one has begun, and what came of this. */
static void *connect_beside(void *arg)
{
	const int(*pipes)[2] = arg;
	char byte;
	int err;

	if (read(pipes[0][0], &byte, 1) != 1)
		_exit(1);
	err = by_helper(1, 100);
	if (write(pipes[1][1], &err, sizeof(err)) != sizeof(err))
		_exit(1);
	return NULL;
}

/* In a process that is traced: its main thread starts a helper. */
static pid_t start_traced(int pipes[2][2])
{
	pthread_t thread;
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pthread_create(&thread, NULL, connect_beside, pipes) == 0 &&
	    ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0) {
		raise(SIGSTOP);
		by_helper(1, 60000);
	}
	_exit(1);
}

/*
 * Who starts one is suspended until it has been executed.  That takes for ever
 * here, for its child is stopped: others wait no longer than they may.
 */
static void a_start_that_is_slow_delays_one_thread(void **state)
{
	struct pollfd p = { .events = POLLIN };
	unsigned long child;
	int pipes[2][2], status, err = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(pipes[0]) | pipe(pipes[1]), 0);
	pid = start_traced(pipes);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_int_equal(
		ptrace(PTRACE_SETOPTIONS, pid, NULL,
		       (void *)(PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL)),
		0);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_int_equal(status >> 8, SIGTRAP | PTRACE_EVENT_VFORK << 8);
	ptrace(PTRACE_GETEVENTMSG, pid, NULL, &child);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	assert_int_equal(write(pipes[0][1], "", 1), 1);
	p.fd = pipes[1][0];
	if (poll(&p, 1, 20000) == 1)
		assert_int_equal(read(p.fd, &err, sizeof(err)), sizeof(err));
	kill(pid, SIGKILL);
	kill((pid_t)child, SIGKILL);
	waitpid((pid_t)child, &status, __WALL);
	waitpid(pid, &status, __WALL);
	for (int i = 0; i < 4; i++)
		close(pipes[i / 2][i % 2]);
	assert_int_equal(err, -ETIMEDOUT);
}

static void a_closed_connection_takes_no_command(void **state)
{
	struct world *w = *state;

	to_redis(w);
	dlk_conn_close(w->c);
	assert_int_equal(append(w->c, "ECHO", "x"), -ENOTCONN);
	assert_int_equal(dlk_conn_flush(w->c, in_ms(10)), -ENOTCONN);
	assert_int_equal(dlk_conn_drain(w->c, in_ms(10)), -ENOTCONN);
}

static int resolve(const struct dlk_endpoint *ep, struct dlk_addresses *to)
{
	const struct dlk_patience wait = { .deadline_ns = in_ms(5000) };
	struct dlk_lookup l = { .in = { .fd = -1 } };
	int err;

	while ((err = dlk_resolve(ep, wait.deadline_ns, &l, to)) ==
		       -EINPROGRESS &&
	       dlk_patience_wait(l.in.fd, &wait) > 0)
		;
	dlk_lookup_end(&l);
	return err;
}

static void tcp_by_address_and_by_name(void **state)
{
	struct dlk_endpoint ep = { .scheme = DLK_TCP, .port = 6379 };
	struct dlk_addresses to = { .n = 0 };
	const struct sockaddr_storage *at = &to.v[0].at;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)at;

	(void)state;
	snprintf(ep.host, sizeof(ep.host), "127.0.0.1");
	assert_int_equal(resolve(&ep, &to), 0);
	assert_int_equal(to.n, 1);
	assert_int_equal(v4->sin_family, AF_INET);
	assert_int_equal(ntohl(v4->sin_addr.s_addr), INADDR_LOOPBACK);
	assert_int_equal(ntohs(v4->sin_port), 6379);
	snprintf(ep.host, sizeof(ep.host), "::1");
	assert_int_equal(resolve(&ep, &to), 0);
	assert_int_equal(at->ss_family, AF_INET6);
	snprintf(ep.host, sizeof(ep.host), "localhost");
	assert_int_equal(resolve(&ep, &to), 0);
	assert_in_range(to.n, 1, DLK_ADDRESSES_MAX);
	assert_true(at->ss_family == AF_INET || at->ss_family == AF_INET6);
}

/* "fe80::1%eth0" in a URL: an address that each link has of its own. */
static void an_address_of_a_link_has_its_interface(void **state)
{
	const unsigned lo = if_nametoindex("lo");
	struct dlk_endpoint ep = { .scheme = DLK_TCP, .host = "fe80::1%lo" };
	struct dlk_addresses to = { .n = 0 };
	const struct sockaddr_in6 *v6 =
		(const struct sockaddr_in6 *)&to.v[0].at;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(resolve(&ep, &to), 0);
		assert_int_equal(v6->sin6_family, AF_INET6);
		assert_int_equal(v6->sin6_addr.s6_addr[0], 0xfe);
		assert_int_equal(v6->sin6_scope_id, lo);
		snprintf(ep.host, sizeof(ep.host), "fe80::1%%%u", lo);
	}
	strcpy(ep.host, "fe80::1%1x");
	assert_int_equal(resolve(&ep, &to), -EHOSTUNREACH);
}

static void a_name_without_an_answer_is_not_unknown(void **state)
{
	struct world *w = *state;
	struct dlk_endpoint ep = { .scheme = DLK_TCP, .host = "localhost" };

	w->c = dlk_conn_new(&ep);
	assert_int_equal(dlk_conn_open(w->c, dlk_now_ns()), -ETIMEDOUT);
	/* (What it waited for when the time was over: its address, or a server.) */
	assert_null(strstr(w->c->error, "unknown"));
	assert_non_null(strstr(w->c->error, "timed out"));
}

static void a_name_is_no_option(void **state)
{
	struct dlk_endpoint ep = { .scheme = DLK_TCP, .host = "--help" };
	struct dlk_addresses to = { .n = 0 };

	(void)state;
	assert_int_equal(resolve(&ep, &to), -EHOSTUNREACH);
}

/*
 * Of a child whose root has nothing in it; and whose children, perhaps, would be
 * those of another pid namespace.
 */
static void in_bare_root(const struct dlk_endpoint *ep, bool elsewhere,
			 char *why, size_t size)
{
	char dir[64];
	int ends[2], status;
	pid_t pid;

	make_dir(dir, sizeof(dir));
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		struct dlk_conn *c = dlk_conn_new(ep);

		if (chroot(dir) < 0 || chdir("/") < 0)
			_exit(1);
		dlk_note_pid_namespace(elsewhere);
		dlk_conn_open(c, in_ms(30000));
		_exit(write(ends[1], c->error, sizeof(c->error)) < 0);
	}
	close(ends[1]);
	memset(why, 0, size);
	assert_true(read(ends[0], why, size - 1) >= 0);
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	rmdir(dir);
	if (status && geteuid() != 0)
		skip();
	assert_int_equal(status, 0);
}

static void what_cannot_be_started_is_named(void **state)
{
	struct dlk_endpoint ep = { .scheme = DLK_TCP, .host = "redis" };
	char why[256];

	(void)state;
	in_bare_root(&ep, false, why, sizeof(why));
	assert_non_null(strstr(why, "redis: /usr/bin/getent: No such file"));
	assert_non_null(strstr(why, "write the address in url"));
	in_bare_root(&ep, true, why, sizeof(why));
	assert_non_null(strstr(why, "are of another pid namespace"));
	assert_non_null(strstr(why, "write the address in url"));
	ep.scheme = DLK_TLS;
	in_bare_root(&ep, false, why, sizeof(why));
	assert_non_null(
		strstr(why, "dlock-tls, which speaks TLS: No such file"));
	assert_non_null(strstr(why, DLK_LIBEXECDIR "/dlock-tls"));
	in_bare_root(&ep, true, why, sizeof(why));
	assert_non_null(strstr(why, "are of another pid namespace"));
}

/* --- the greeting --------------------------------------------------------- */

static int guard(void **state)
{
	tell_ok(tell(redis.c, "ACL", "SETUSER", "alice", "on", ">s3cret", "~*",
		     "+echo", "+select", "+get", NULL));
	tell_ok(tell(redis.c, "CONFIG", "SET", "requirepass", "pa55", NULL));
	return open_world(state);
}

static int unguard(void **state)
{
	tell_ok(tell(redis.c, "CONFIG", "SET", "requirepass", "", NULL));
	tell_ok(tell(redis.c, "ACL", "DELUSER", "alice", NULL));
	return close_world(state);
}

static void greet_with(struct world *w, const char *user, const char *password,
		       int db)
{
	static struct dlk_endpoint ep;

	ep = redis.ep;
	snprintf(ep.username, sizeof(ep.username), "%s", user);
	snprintf(ep.password, sizeof(ep.password), "%s", password);
	ep.db = db;
	w->c = dlk_conn_new(&ep);
	assert_non_null(w->c);
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), 0);
}

static void a_password_opens(void **state)
{
	greet_with(*state, "", "pa55", 0);
	assert_echo(((struct world *)*state)->c, "in");
}

/* Alice may not CLIENT SETNAME either, which is no reason to end. */
static void a_user_with_few_rights_will_do(void **state)
{
	greet_with(*state, "alice", "s3cret", 0);
	assert_echo(((struct world *)*state)->c, "in");
}

static void a_wrong_password_is_no_access(void **state)
{
	struct world *w = *state;

	greet_with(w, "", "wr0ng", 0);
	assert_fails(w->c, -EACCES);
	assert_non_null(strstr(w->c->error, "WRONGPASS"));
	assert_null(strstr(w->c->error, "wr0ng"));
}

static void no_password_is_the_servers_refusal(void **state)
{
	struct world *w = *state;
	const redisReply *r;

	greet_with(w, "", "", 0);
	assert_int_equal(echo(w->c, "x", 5000, &r), -EACCES);
	assert_false(dlk_conn_is_open(w->c));
	assert_int_equal(strncmp(w->c->error, "NOAUTH", 6), 0);
}

static void a_database_is_selected(void **state)
{
	struct world *w = *state;

	greet_with(w, "", "", 3);
	tell_ok(tell(w->c, "SET", "where", "three", NULL));
	assert_string_equal(value_at(redis.c, "where"), "");
	tell_ok(tell(redis.c, "SELECT", "3", NULL));
	assert_string_equal(value_at(redis.c, "where"), "three");
	tell_ok(tell(redis.c, "SELECT", "0", NULL));
}

static void no_such_database_is_no_access(void **state)
{
	struct world *w = *state;

	greet_with(w, "", "", 999);
	assert_fails(w->c, -EACCES);
}

/* What a server says while it reads its disk. */
static void serve_loading(int fd, void *arg)
{
	static const char text[] = "-LOADING Redis is loading\r\n";

	(void)arg;
	hear(fd);
	say(fd, text, strlen(text));
	hear_out(fd);
}

static void a_loading_server_is_asked_again(void **state)
{
	struct world *w = *state;
	struct dlk_endpoint ep;

	fake_start(&w->fake, serve_loading, NULL);
	ep = w->fake.ep;
	ep.db = 1;
	w->c = dlk_conn_new(&ep);
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), 0);
	assert_fails(w->c, -EAGAIN);
}

/* A script runs for long there, and ends behind its answer to INFO. */
static void serve_busy(int fd, void *arg)
{
	static const char text[] = "-BUSY Redis is busy running a script.\r\n"
				   "-BUSY Redis is busy running a script.\r\n"
				   "$1\r\nx\r\n";

	(void)arg;
	hear(fd);
	say(fd, text, strlen(text));
	hear_out(fd);
}

static void a_busy_server_is_asked_again(void **state)
{
	struct world *w = *state;

	to_fake(w, serve_busy, NULL);
	assert_fails(w->c, -EAGAIN);
}

/* The same, when it is asked once more what it is. */
static void serve_busy_later(int fd, void *arg)
{
	static const char first[] = "+OK\r\n$11\r\nrole:master\r\n",
			  busy[] = "-BUSY Redis is busy running a script.\r\n",
			  then[] = "$12\r\n\r\nrole:slave\r\n";

	(void)arg;
	hear(fd);
	say(fd, first, strlen(first));
	hear(fd);
	say(fd, busy, strlen(busy));
	hear(fd);
	say(fd, then, strlen(then));
	hear_out(fd);
}

static void what_a_busy_server_is_it_is_asked_again(void **state)
{
	struct world *w = *state;

	to_fake(w, serve_busy_later, NULL);
	assert_int_equal(dlk_conn_know(w->c, in_ms(5000)), 0);
	dlk_conn_doubt(w->c);
	assert_int_equal(dlk_conn_know(w->c, in_ms(5000)), -EAGAIN);
	assert_int_equal(strncmp(w->c->error, "BUSY", 4), 0);
	assert_int_equal(dlk_conn_know(w->c, in_ms(5000)), 0);
	assert_true(w->c->server.replica);
}

/* --- bad servers ---------------------------------------------------------- */

/* The shortest that a call took beyond its deadline, of some, in ms. */
static long long lateness(struct dlk_conn *c, unsigned ms,
			  int (*call)(struct dlk_conn *c, uint64_t deadline_ns),
			  int want)
{
	long long least = INT64_MAX;

	for (int i = 0; i < 30 && least > LATE_MS; i++) {
		uint64_t until = in_ms(ms);
		long long late;

		assert_int_equal(call(c, until), want);
		late = (long long)(dlk_now_ns() - until) / (long long)DLK_MS;
		assert_true(late >= 0);
		if (late < least)
			least = late;
	}
	return least;
}

static int open_and_ask(struct dlk_conn *c, uint64_t deadline_ns)
{
	const struct dlk_arg ping[] = { { DLK_LITERAL("PING") } };
	const redisReply *r;
	int err = dlk_conn_open(c, deadline_ns);

	return err ? err : dlk_conn_call(c, deadline_ns, 1, ping, &r);
}

static void serve_nothing(int fd, void *arg)
{
	(void)arg;
	hear_out(fd);
}

static void a_silent_server_times_out(void **state)
{
	struct world *w = *state;

	to_fake(w, serve_nothing, NULL);
	assert_in_range(lateness(w->c, 60, open_and_ask, -ETIMEDOUT), 0,
			LATE_MS);
	assert_false(dlk_conn_is_open(w->c));
}

/* A byte every 2 ms of an answer that never ends. */
static void serve_a_trickle(int fd, void *arg)
{
	static const char head[] = "+OK\r\n+OK\r\n$1000000\r\n";

	(void)arg;
	hear(fd);
	if (!say(fd, head, strlen(head)))
		return;
	while (say(fd, "x", 1))
		dlk_pause_ns(2 * DLK_MS);
}

static void a_trickling_server_times_out(void **state)
{
	struct world *w = *state;

	to_fake(w, serve_a_trickle, NULL);
	assert_in_range(lateness(w->c, 60, open_and_ask, -ETIMEDOUT), 0,
			LATE_MS);
}

/* Takes nothing until its peer is gone: what the kernel buffers is soon full.
 */
static void serve_deaf(int fd, void *arg)
{
	struct pollfd p = { .fd = fd };

	(void)arg;
	poll(&p, 1, 10000);
}

static int ask_much(struct dlk_conn *c, uint64_t deadline_ns)
{
	static char text[200 * 1024];
	int err = dlk_conn_open(c, deadline_ns);

	memset(text, 'x', sizeof(text) - 1);
	while (!err && dlk_now_ns() < deadline_ns + 1000 * DLK_MS) {
		err = append(c, "ECHO", text);
		if (!err)
			err = dlk_conn_flush(c, deadline_ns);
	}
	return err;
}

static void a_deaf_server_times_out(void **state)
{
	struct world *w = *state;

	to_fake(w, serve_deaf, NULL);
	assert_in_range(lateness(w->c, 60, ask_much, -ETIMEDOUT), 0, LATE_MS);
}

static void fill_backlog(const struct fake *f, int fds[8])
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int full = 0;

	memcpy(un.sun_path, f->ep.path, sizeof(un.sun_path));
	for (int i = 0; i < 8; i++) {
		fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		full = connect(fds[i], (struct sockaddr *)&un, sizeof(un));
	}
	assert_int_equal(full, -1);
	assert_int_equal(errno, EAGAIN);
}

/* Many are connected to at a time: no step of that may cost the others theirs. */
static void a_start_waits_for_nothing(void **state)
{
	struct world *w = *state;
	struct dlk_endpoint ep = { .scheme = DLK_TCP, .host = "localhost" };
	struct dlk_conn *named = dlk_conn_new(&ep);
	int fds[8];

	fake_listen(&w->fake, 1);
	fill_backlog(&w->fake, fds);
	w->c = dlk_conn_new(&w->fake.ep);
	assert_int_equal(dlk_conn_start(w->c, in_ms(1000)), -EINPROGRESS);
	assert_false(dlk_conn_is_open(w->c));
	assert_int_equal(dlk_conn_start(w->c, in_ms(1000)), -EINPROGRESS);
	assert_int_equal(dlk_conn_start(named, in_ms(5000)), -EINPROGRESS);
	assert_false(dlk_conn_is_open(named));
	dlk_conn_delete(named);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
}

static void a_full_backlog_times_out(void **state)
{
	struct world *w = *state;
	int fds[8];

	fake_listen(&w->fake, 1);
	fill_backlog(&w->fake, fds);
	w->c = dlk_conn_new(&w->fake.ep);
	assert_in_range(lateness(w->c, 60, open_and_ask, -ETIMEDOUT), 0,
			LATE_MS);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
}

static void serve_goodbye(int fd, void *arg)
{
	(void)arg;
	hear(fd);
}

static void a_server_that_closes_is_an_error(void **state)
{
	struct world *w = *state;

	to_fake(w, serve_goodbye, NULL);
	assert_fails(w->c, -ECONNRESET);
}

/* Answer a request with one fixed text. */
static void serve_text(int fd, void *arg)
{
	hear(fd);
	say(fd, arg, strlen(arg));
	hear_out(fd);
}

static void garbage_is_a_protocol_error(void **state)
{
	static char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	struct world *w = *state;

	to_fake(w, serve_text, text);
	assert_fails(w->c, -EPROTO);
}

static void serve_bulk(int fd, void *arg)
{
	size_t size = *(size_t *)arg;
	char head[64], block[65536];

	hear(fd);
	memset(block, 'v', sizeof(block));
	snprintf(head, sizeof(head), "+OK\r\n+OK\r\n$%zu\r\n", size);
	say(fd, head, strlen(head));
	while (size) {
		size_t n = size < sizeof(block) ? size : sizeof(block);

		if (!say(fd, block, n))
			return;
		size -= n;
	}
	say(fd, "\r\n", 2);
	hear_out(fd);
}

static void a_reply_over_the_limit_is_a_protocol_error(void **state)
{
	struct world *w = *state;
	size_t size = DLK_REPLY_MAX + 1;

	to_fake(w, serve_bulk, &size);
	assert_fails(w->c, -EPROTO);
}

static void a_reply_up_to_the_limit_is_read(void **state)
{
	struct world *w = *state;
	size_t size = DLK_REPLY_MAX - 32;
	const redisReply *r;

	to_fake(w, serve_bulk, &size);
	assert_int_equal(echo(w->c, "x", 5000, &r), 0);
	assert_int_equal(r->len, size);
	assert_int_equal(r->str[size - 1], 'v');
}

static void serve_bytes(int fd, void *arg)
{
	hear(fd);
	for (const char *p = arg; *p; p++) {
		say(fd, p, 1);
		dlk_pause_ns(DLK_MS / 5);
	}
	hear_out(fd);
}

static void a_reply_may_come_in_single_bytes(void **state)
{
	static char text[] =
		"+OK\r\n+OK\r\n*3\r\n:12\r\n$2\r\nhi\r\n*1\r\n$-1\r\n";
	struct world *w = *state;
	const redisReply *r;

	to_fake(w, serve_bytes, text);
	assert_int_equal(echo(w->c, "x", 5000, &r), 0);
	assert_int_equal(r->elements, 3);
	assert_true(r->element[0]->integer == 12);
	assert_string_equal(r->element[1]->str, "hi");
	assert_int_equal(r->element[2]->element[0]->type, REDIS_REPLY_NIL);
}

static void an_error_closes_and_opening_mends(void **state)
{
	static char text[] = "garbage\r\n";
	struct world *w = *state;

	to_fake(w, serve_text, text);
	assert_fails(w->c, -EPROTO);
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), 0);
	assert_true(dlk_conn_is_open(w->c));
	assert_fails(w->c, -EPROTO);
}

/* --- interruption --------------------------------------------------------- */

static unsigned asked_times;

static bool interrupt_third(void *arg)
{
	(void)arg;
	return ++asked_times == 3;
}

static void an_interrupt_ends_a_wait(void **state)
{
	struct world *w = *state;
	uint64_t took = UINT64_MAX;

	to_fake(w, serve_nothing, NULL);
	w->c->interrupt = interrupt_third;
	/* (A machine may be slow now and then.) */
	for (int i = 0; i < 30 && took >= 1000 * DLK_MS; i++) {
		uint64_t before;

		asked_times = 3;
		assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), 0);
		asked_times = 0;
		before = dlk_now_ns();
		assert_fails(w->c, -EINTR);
		assert_int_equal(asked_times, 3);
		took = dlk_now_ns() - before;
	}
	assert_true(took < 1000 * DLK_MS);
}

static void an_interrupt_ends_a_connect(void **state)
{
	struct world *w = *state;
	int fds[8];

	asked_times = 0;
	fake_listen(&w->fake, 1);
	fill_backlog(&w->fake, fds);
	w->c = dlk_conn_new(&w->fake.ep);
	w->c->interrupt = interrupt_third;
	assert_int_equal(dlk_conn_open(w->c, in_ms(20000)), -EINTR);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
}

static void no_interrupt_is_asked_without_a_wait(void **state)
{
	struct world *w = *state;

	asked_times = 2;
	to_redis(w);
	assert_echo(w->c, "warm");
	w->c->interrupt = interrupt_third;
	assert_int_equal(append(w->c, "ECHO", "x"), 0);
	assert_int_equal(append(w->c, "ECHO", "y"), 0);
	assert_int_equal(dlk_conn_flush(w->c, in_ms(5000)), 0);
	assert_int_equal(asked_times, 2);
}

/* --- deferred replies ----------------------------------------------------- */

struct heard {
	unsigned n, nulls;
	char order[128];
};

/* What was echoed begins with it. */
static int first_letter(const redisReply *r, uint64_t *letter)
{
	if (!r)
		return -EPIPE;
	*letter = (unsigned char)r->str[0];
	return 0;
}

static void note(void *arg, int err, uint64_t letter)
{
	struct heard *h = arg;

	if (!err && h->n < sizeof(h->order) - 1)
		h->order[h->n] = (char)letter;
	h->n++;
	h->nulls += err == -EPIPE;
}

static void defer_echo(struct dlk_conn *c, const char *text, struct heard *h)
{
	assert_int_equal(append(c, "ECHO", text), 0);
	assert_int_equal(dlk_conn_defer(c, first_letter, note, h), 0);
}

static void deferred_replies_come_in_order_and_first(void **state)
{
	struct world *w = *state;
	struct heard h = { 0 };

	to_redis(w);
	defer_echo(w->c, "a", &h);
	defer_echo(w->c, "b", &h);
	assert_int_equal(dlk_conn_flush(w->c, in_ms(5000)), 0);
	defer_echo(w->c, "c", &h);
	assert_int_equal(w->c->deferred_n, 3);
	assert_echo(w->c, "d");
	assert_string_equal(h.order, "abc");
	assert_int_equal(w->c->deferred_n, 0);
}

static void settling_waits_for_all(void **state)
{
	struct world *w = *state;
	struct heard h = { 0 };

	to_redis(w);
	defer_echo(w->c, "a", &h);
	defer_echo(w->c, "b", &h);
	assert_int_equal(dlk_conn_flush(w->c, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_drain(w->c, in_ms(5000)), 0);
	assert_string_equal(h.order, "ab");
	assert_echo(w->c, "c");
}

/* Forgetting what was handed out loses nothing that is still to come. */
static const struct dlk_endpoint *moved_by;

static void note_moved(void *arg, const struct dlk_endpoint *asked,
		       const char *error)
{
	assert_ptr_equal(arg, &moved_by);
	assert_string_equal(error, "MOVED 5 :7002");
	moved_by = asked;
}

/* Where the error names no host, it is that of who was asked. */
static void who_says_that_a_slot_has_moved_is_told(void **state)
{
	static char text[] = "+OK\r\n+OK\r\n-MOVED 5 :7002\r\n";
	struct world *w = *state;

	to_fake(w, serve_text, text);
	w->c->elsewhere = note_moved;
	w->c->elsewhere_arg = &moved_by;
	assert_int_equal(append(w->c, "ECHO", "x"), 0);
	assert_int_equal(dlk_conn_defer(w->c, NULL, NULL, NULL), 0);
	assert_int_equal(dlk_conn_flush(w->c, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_drain(w->c, in_ms(5000)), 0);
	assert_ptr_equal(moved_by, &w->fake.ep);
}

static void a_reset_keeps_what_is_to_come(void **state)
{
	struct world *w = *state;
	struct heard h = { 0 };

	to_redis(w);
	for (int i = 0; i < 200; i++) {
		defer_echo(w->c, i & 1 ? "y" : "x", &h);
		dlk_conn_reset(w->c);
		assert_echo(w->c, "z");
		dlk_conn_reset(w->c);
	}
	assert_int_equal(h.n, 200);
	assert_int_equal(h.nulls, 0);
}

/* Two answers in one piece: the second is in our memory already. */
static void a_reset_keeps_what_came_along(void **state)
{
	static char text[] = "+OK\r\n+OK\r\n$1\r\na\r\n$1\r\nb\r\n";
	struct world *w = *state;
	const redisReply *r;

	to_fake(w, serve_text, text);
	assert_int_equal(append(w->c, "ECHO", "a"), 0);
	assert_int_equal(append(w->c, "ECHO", "b"), 0);
	assert_int_equal(dlk_conn_flush(w->c, in_ms(5000)), 0);
	assert_int_equal(dlk_conn_reply(w->c, in_ms(5000), &r), 0);
	assert_string_equal(r->str, "a");
	dlk_conn_reset(w->c);
	assert_int_equal(dlk_conn_reply(w->c, in_ms(2000), &r), 0);
	assert_string_equal(r->str, "b");
}

static void a_dead_connection_tells_its_deferred(void **state)
{
	static char text[] = "+OK\r\n+OK\r\n$1\r\na\r\n!";
	struct world *w = *state;
	struct heard h = { 0 };

	to_fake(w, serve_text, text);
	defer_echo(w->c, "a", &h);
	defer_echo(w->c, "b", &h);
	defer_echo(w->c, "c", &h);
	assert_fails(w->c, -EPROTO);
	assert_string_equal(h.order, "a");
	assert_int_equal(h.n, 3);
	assert_int_equal(h.nulls, 2);
}

static void a_forgotten_connection_tells_nobody(void **state)
{
	struct world *w = *state;
	struct heard h = { 0 };

	to_redis(w);
	defer_echo(w->c, "a", &h);
	dlk_conn_forget(w->c);
	w->c = NULL;
	assert_int_equal(h.n, 0);
}

static void deferred_replies_are_bounded(void **state)
{
	struct world *w = *state;
	struct heard h = { 0 };

	to_redis(w);
	for (int i = 0; i < DLK_DEFERRED_MAX; i++)
		defer_echo(w->c, "a", &h);
	assert_int_equal(dlk_conn_defer(w->c, first_letter, note, &h),
			 -ENOBUFS);
	assert_echo(w->c, "b");
	assert_int_equal(h.n, DLK_DEFERRED_MAX);
	assert_int_equal(h.nulls, 0);
}

static void a_command_that_does_not_fit_is_refused(void **state)
{
	static char text[300 * 1024];
	struct world *w = *state;

	to_redis(w);
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(append(w->c, "ECHO", text), -ENOBUFS);
	assert_echo(w->c, "still here");
}

/* --- a guest -------------------------------------------------------------- */

static int our_fd(struct dlk_conn *c)
{
	int found = -1;

	for (int fd = 3; fd < 1024; fd++) {
		/* The tests' own connection is another. */
		if (!dlk_own_is(fd))
			continue;
		if (found < 0 || fd > found)
			found = fd;
	}
	assert_true(dlk_conn_is_open(c) && found >= 0);
	return found;
}

struct stolen {
	int fd;
	ino_t ino;
};

/* The program closes our descriptor and opens a file of its own there. */
static struct stolen steal(struct dlk_conn *c)
{
	char name[] = "/tmp/dlk-conn.XXXXXX";
	struct stolen s = { .fd = our_fd(c) };
	struct stat st;
	int fd;

	assert_int_equal(close(s.fd), 0);
	fd = mkstemp(name);
	assert_true(fd >= 0);
	unlink(name);
	assert_int_equal(write(fd, "data", 4), 4);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(fstat(fd, &st), 0);
	s.ino = st.st_ino;
	assert_int_equal(dup2(fd, s.fd), s.fd);
	close(fd);
	return s;
}

static void assert_untouched(const struct stolen *s)
{
	struct stat st;

	assert_int_equal(fstat(s->fd, &st), 0);
	assert_true(st.st_ino == s->ino);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(lseek(s->fd, 0, SEEK_CUR), 0);
	close(s->fd);
}

static void a_stolen_number_is_not_written_to(void **state)
{
	struct world *w = *state;
	struct stolen s;
	int err;

	to_redis(w);
	assert_echo(w->c, "x");
	assert_int_equal(append(w->c, "ECHO", "y"), 0);
	s = steal(w->c);
	err = dlk_conn_flush(w->c, in_ms(5000));
	assert_untouched(&s);
	assert_int_equal(err, -EBADF);
	assert_false(dlk_conn_is_open(w->c));
}

static void a_stolen_number_is_not_read_from(void **state)
{
	struct world *w = *state;
	const redisReply *r;
	struct stolen s;
	int err;

	to_redis(w);
	assert_int_equal(append(w->c, "ECHO", "y"), 0);
	assert_int_equal(dlk_conn_flush(w->c, in_ms(5000)), 0);
	s = steal(w->c);
	err = dlk_conn_reply(w->c, in_ms(5000), &r);
	assert_untouched(&s);
	assert_int_equal(err, -EBADF);
}

static void opening_leaves_a_stolen_number_and_reconnects(void **state)
{
	struct world *w = *state;
	struct stolen s;

	to_redis(w);
	assert_echo(w->c, "x");
	s = steal(w->c);
	assert_false(dlk_own_is(s.fd));
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), 0);
	assert_echo(w->c, "y");
	assert_untouched(&s);
}

static void closing_leaves_a_stolen_number(void **state)
{
	struct world *w = *state;
	struct stolen s;

	to_redis(w);
	s = steal(w->c);
	dlk_conn_close(w->c);
	assert_untouched(&s);
}

static void a_closed_number_is_noticed(void **state)
{
	struct world *w = *state;

	to_redis(w);
	assert_int_equal(close(our_fd(w->c)), 0);
	assert_fails(w->c, -EBADF);
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), 0);
	assert_echo(w->c, "back");
}

static void our_descriptor_is_high_and_close_on_exec(void **state)
{
	struct world *w = *state;
	int fd;

	to_redis(w);
	fd = our_fd(w->c);
	assert_true(fd >= 64);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

static volatile sig_atomic_t sigpipes;

static void count_sigpipe(int sig)
{
	(void)sig;
	sigpipes++;
}

static int watch_sigpipe(void **state)
{
	sigpipes = 0;
	signal(SIGPIPE, count_sigpipe);
	return open_world(state);
}

static int ignore_sigpipe(void **state)
{
	signal(SIGPIPE, SIG_DFL);
	return close_world(state);
}

/* Closes at once, so that what is sent next is sent to nobody. */
static void serve_none(int fd, void *arg)
{
	(void)arg;
	shutdown(fd, SHUT_RDWR);
}

/* First that this very socket raises the signal for a plain write(2). */
static void a_dead_server_raises_no_sigpipe(void **state)
{
	struct world *w = *state;
	const redisReply *r;
	ssize_t n;
	char end;

	to_fake(w, serve_none, NULL);
	/* Our socket gives up after a slice; a busy machine needs more. */
	while ((n = recv(our_fd(w->c), &end, 1, 0)) < 0)
		assert_int_equal(errno, EAGAIN);
	assert_int_equal(n, 0);
	assert_int_equal(write(our_fd(w->c), "x", 1), -1);
	assert_int_equal(sigpipes, 1);
	assert_int_equal(echo(w->c, "x", 5000, &r), -EPIPE);
	assert_int_equal(sigpipes, 1);
	assert_false(dlk_conn_is_open(w->c));
}

/* --- the pool ------------------------------------------------------------- */

/* (More than the pool has places.) */
enum { MANY = 64 };

/* As many are in use at a time, and are kept. */
static void fill_pool(const struct dlk_endpoint *ep, bool open)
{
	struct dlk_conn *v[MANY];

	for (int i = 0; i < MANY; i++) {
		v[i] = dlk_pool_get(ep, DLK_ANY);
		assert_non_null(v[i]);
		if (open)
			assert_int_equal(dlk_conn_open(v[i], in_ms(5000)), 0);
	}
	for (int i = 0; i < MANY; i++)
		dlk_pool_put(v[i]);
}

static void a_full_pool_has_room_for_another_server(void **state)
{
	static struct dlk_endpoint another;

	(void)state;
	another = redis.ep;
	for (int open = 0; open < 2; open++) {
		struct dlk_conn *c;

		fill_pool(&redis.ep, open);
		assert_true(dlk_pool_has(&redis.ep) == open);
		c = dlk_pool_get(&another, DLK_ANY);
		assert_int_equal(dlk_conn_open(c, in_ms(5000)), 0);
		dlk_pool_put(c);
		assert_true(dlk_pool_has(&another));
		dlk_pool_forget();
	}
}

#define conn_test(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

#define helper_test(f)                                                         \
	cmocka_unit_test_setup_teardown(f, make_helper, remove_helper)

#define guarded_test(f) cmocka_unit_test_setup_teardown(f, guard, unguard)

int main(void)
{
	const struct CMUnitTest tests[] = {
		conn_test(a_call_is_answered),
		conn_test(a_connection_is_named),
		conn_test(an_open_connection_stays),
		conn_test(no_socket_there_is_an_error),
		conn_test(nobody_listening_is_refused),
		conn_test(tls_is_not_spoken_in_the_clear),
		helper_test(each_address_has_a_helper),
		helper_test(a_start_that_is_slow_delays_one_thread),
		conn_test(a_closed_connection_takes_no_command),
		conn_test(tcp_by_address_and_by_name),
		conn_test(an_address_of_a_link_has_its_interface),
		conn_test(a_name_without_an_answer_is_not_unknown),
		conn_test(a_name_is_no_option),
		conn_test(what_cannot_be_started_is_named),
		guarded_test(a_password_opens),
		guarded_test(a_user_with_few_rights_will_do),
		guarded_test(a_wrong_password_is_no_access),
		guarded_test(no_password_is_the_servers_refusal),
		conn_test(a_database_is_selected),
		conn_test(no_such_database_is_no_access),
		conn_test(a_loading_server_is_asked_again),
		conn_test(a_busy_server_is_asked_again),
		conn_test(what_a_busy_server_is_it_is_asked_again),
		conn_test(a_silent_server_times_out),
		conn_test(a_trickling_server_times_out),
		conn_test(a_deaf_server_times_out),
		conn_test(a_start_waits_for_nothing),
		conn_test(a_full_backlog_times_out),
		conn_test(a_server_that_closes_is_an_error),
		conn_test(garbage_is_a_protocol_error),
		conn_test(a_reply_over_the_limit_is_a_protocol_error),
		conn_test(a_reply_up_to_the_limit_is_read),
		conn_test(a_reply_may_come_in_single_bytes),
		conn_test(an_error_closes_and_opening_mends),
		conn_test(an_interrupt_ends_a_wait),
		conn_test(an_interrupt_ends_a_connect),
		conn_test(no_interrupt_is_asked_without_a_wait),
		conn_test(deferred_replies_come_in_order_and_first),
		conn_test(settling_waits_for_all),
		conn_test(who_says_that_a_slot_has_moved_is_told),
		conn_test(a_reset_keeps_what_is_to_come),
		conn_test(a_reset_keeps_what_came_along),
		conn_test(a_dead_connection_tells_its_deferred),
		conn_test(a_forgotten_connection_tells_nobody),
		conn_test(deferred_replies_are_bounded),
		conn_test(a_command_that_does_not_fit_is_refused),
		conn_test(a_stolen_number_is_not_written_to),
		conn_test(a_stolen_number_is_not_read_from),
		conn_test(opening_leaves_a_stolen_number_and_reconnects),
		conn_test(closing_leaves_a_stolen_number),
		conn_test(a_closed_number_is_noticed),
		conn_test(our_descriptor_is_high_and_close_on_exec),
		conn_test(a_full_pool_has_room_for_another_server),
		cmocka_unit_test_setup_teardown(a_dead_server_raises_no_sigpipe,
						watch_sigpipe, ignore_sigpipe),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
