/* SPDX-License-Identifier: MIT */
/*
 * What Sentinels say, by two that are a test's own: the first is listened to, and
 * the second is late.  And what follows from it, or not, for connections to who
 * was the master before.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>

#include "redis/resolve.h"
#include "redis/script.h"
#include "redis/sentinel.h"
#include "tests/unit/fake.h"

/* Ports of 127.0.0.1 that nobody listens at: who is the master, and who was. */
enum { OLD = 1, NEW = 2 };

/* A port where somebody answers, several at a time. */
struct server {
	int listener;
	pthread_t thread;
	unsigned port;
	atomic_bool is_replica;
};

static struct world {
	struct dlk_endpoint ep[3]; /* the master, its Sentinels */
	atomic_uint says;          /* the port that both of them name */
	struct sentinel {
		struct fake fake;
		struct world *w;
		atomic_int listener; /* who has subscribed; 0: nobody */
		atomic_bool is_late, is_stopped, refuses, was_asked;
	} s[2];
	struct server servers[2];
	struct dlk_conn *c, *other;
} worlds[16]; /* one a test, for what is known of a master is kept */

static void say_text(int fd, const char *text)
{
	say(fd, text, strlen(text));
}

static void say_bulk(int fd, const char *text)
{
	char buf[2048];

	snprintf(buf, sizeof(buf), "$%zu\r\n%s\r\n", strlen(text), text);
	say_text(fd, buf);
}

/* The first Sentinel tells who listens of a switch, and it is heard. */
static bool tell_of_switch(struct world *w, unsigned from, unsigned to)
{
	const uint64_t until = in_ms(5000);
	char text[64];
	bool heard;

	snprintf(text, sizeof(text), "rig 127.0.0.1 %u 127.0.0.1 %u", from, to);
	say_text(w->s[0].listener, "*3\r\n$7\r\nmessage\r\n"
				   "$14\r\n+switch-master\r\n");
	say_bulk(w->s[0].listener, text);
	while (!(heard = dlk_sentinel_look(w->ep)) && dlk_now_ns() < until)
		dlk_pause_ns(DLK_MS);
	return heard;
}

/* Before it answers what it knew, the other one tells a thread the news. */
static void be_late(struct world *w)
{
	tell_of_switch(w, OLD, NEW);
}

/* "*2", "$9", "127.0.0.1", the port */
static void name_master(const struct world *w, int fd)
{
	char port[16];

	snprintf(port, sizeof(port), "%u", w->says);
	say_text(fd, "*2\r\n");
	say_bulk(fd, "127.0.0.1");
	say_bulk(fd, port);
}

/* Asked, or subscribed to; the greeting comes along. */
static void serve(int fd, void *arg)
{
	struct sentinel *s = arg;
	char buf[4096];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf) - 1, 0)) > 0) {
		buf[n] = '\0';
		if (strstr(buf, "SENTINEL"))
			s->was_asked = true;
		if (s->is_stopped)
			continue;
		if (s->refuses) {
			say_text(fd, "-NOAUTH Authentication required.\r\n");
			continue;
		}
		if (strstr(buf, "SETNAME"))
			say_text(fd, "+OK\r\n");
		if (strstr(buf, "SUBSCRIBE")) {
			say_text(fd, "*3\r\n$9\r\nsubscribe\r\n"
				     "$14\r\n+switch-master\r\n:1\r\n");
			s->listener = fd;
		} else if (strstr(buf, "SENTINEL")) {
			if (atomic_exchange(&s->is_late, false))
				be_late(s->w);
			name_master(s->w, fd);
		}
	}
}

/* --- servers -------------------------------------------------------------- */

enum { MANY = 200, LONG = 1000 };

/* What was a master becomes a replica between two of many answers. */
static void answer_many(int fd)
{
	char text[LONG + 1];

	memset(text, 'x', LONG);
	text[LONG] = '\0';
	for (int i = 0; i < MANY; i++)
		say_bulk(fd, text);
	say_text(fd, "-READONLY You can't write against a read only "
		     "replica.\r\n");
}

static bool answer(const struct server *s, int fd)
{
	char buf[4096], info[256];
	const ssize_t n = recv(fd, buf, sizeof(buf) - 1, 0);

	if (n <= 0)
		return false;
	buf[n] = '\0';
	if (strstr(buf, "INFO")) {
		snprintf(info, sizeof(info),
			 "\r\nrun_id:%040u\r\nrole:%s\r\n"
			 "master_replid:%040u\r\n",
			 s->port, s->is_replica ? "slave" : "master", s->port);
		say_text(fd, "+OK\r\n"); /* to CLIENT SETNAME */
		say_bulk(fd, info);
	}
	if (strstr(buf, "ECHO"))
		answer_many(fd);
	return true;
}

static void *server_thread(void *arg)
{
	struct server *s = arg;
	struct pollfd p[8] = { { .fd = s->listener, .events = POLLIN } };
	nfds_t n = 1;

	for (;;) {
		poll(p, n, -1);
		for (nfds_t i = 1; i < n; i++) {
			if (!p[i].revents || answer(s, p[i].fd))
				continue;
			close(p[i].fd);
			p[i--] = p[--n];
		}
		if (!p[0].revents)
			continue;
		p[n] = (struct pollfd){ .events = POLLIN };
		p[n].fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
		if (p[n++].fd < 0)
			return NULL;
		assert_true(n < 8);
	}
}

static void server_start(struct server *s)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof(in);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&in, len), 0);
	assert_int_equal(listen(s->listener, 8), 0);
	getsockname(s->listener, (struct sockaddr *)&in, &len);
	s->port = ntohs(in.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, server_thread, s), 0);
}

static void server_stop(struct server *s)
{
	if (!s->port)
		return;
	shutdown(s->listener, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->listener);
}

/* --- a world -------------------------------------------------------------- */

static int begin(void **state)
{
	static struct world *next = worlds;
	struct world *w = next++;

	*w = (struct world){ .ep = { { .scheme = DLK_TCP,
				       .host = "rig",
				       .connect_timeout_ms = 2000,
				       .n_sentinels = 2 } },
			     .says = OLD };
	for (int i = 0; i < 2; i++) {
		w->s[i].w = w;
		fake_start(&w->s[i].fake, serve, &w->s[i]);
		w->ep[1 + i] = w->s[i].fake.ep;
	}
	strcpy(w->ep->name, w->ep[1].path);
	dlk_sentinel_begin();
	w->c = dlk_conn_new(w->ep);
	assert_non_null(w->c);
	*state = w;
	return 0;
}

static int end(void **state)
{
	struct world *w = *state;

	dlk_conn_delete(w->c);
	dlk_conn_delete(w->other);
	for (int i = 0; i < 2; i++)
		server_stop(&w->servers[i]);
	/* (The thread of the second may have begun to listen.) */
	for (int i = 1; i >= 0; i--) {
		dlk_sentinel_forget();
		fake_stop(&w->s[i].fake);
	}
	return 0;
}

/* The port that is tried once; nobody is there. */
static unsigned tried(struct world *w)
{
	const int err = dlk_conn_start(w->c, in_ms(5000));

	assert_true(err == -ECONNREFUSED || err == -EINPROGRESS);
	dlk_conn_close(w->c);
	return w->c->found.port;
}

static void listen_to(struct world *w, int i)
{
	const uint64_t until = in_ms(30000);

	while (!w->s[i].listener && dlk_now_ns() < until) {
		dlk_sentinel_look(w->ep);
		dlk_pause_ns(DLK_MS);
	}
	assert_int_not_equal(w->s[i].listener, 0);
}

static void a_search_does_not_undo_what_was_heard(void **state)
{
	struct world *w = *state;

	assert_int_equal(tried(w), OLD);
	listen_to(w, 0);
	w->s[1].is_late = true;
	dlk_server_doubted(dlk_server_known(w->ep));
	assert_int_equal(tried(w), NEW);
}

/*
 * Of a restart delay of 4 ms a quarter is believed, by who listens, too (who asked
 * nobody for 10 s would go on with the one before); and the answer is no news.
 */
static void nor_does_a_verification(void **state)
{
	struct world *w = *state;
	const struct dlk_patience wait = { .deadline_ns = in_ms(5000) };

	w->ep->restart_delay_ms = 4;
	assert_int_equal(tried(w), OLD);
	listen_to(w, 0);
	w->s[1].is_late = true;
	while (w->s[1].is_late && dlk_now_ns() < wait.deadline_ns)
		dlk_sentinel_verify(w->ep, &wait, true);
	assert_false(w->s[1].is_late);
	assert_int_equal(tried(w), NEW);
}

static void one_that_is_stopped_is_not_listened_to(void **state)
{
	struct world *w = *state;

	w->s[0].is_stopped = true;
	assert_int_equal(tried(w), OLD);
	listen_to(w, 1);
}

/* A server that takes no connection: the queue of those is full. */
static void fill(struct dlk_endpoint *ep, int fds[8])
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof(in);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 8; i++)
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fds[0], (struct sockaddr *)&in, len), 0);
	assert_int_equal(listen(fds[0], 0), 0);
	getsockname(fds[0], (struct sockaddr *)&in, &len);
	for (int i = 1; i < 8; i++)
		assert_true(!connect(fds[i], (struct sockaddr *)&in, len) ||
			    errno == EINPROGRESS);
	ep->scheme = DLK_TCP;
	ep->port = ntohs(in.sin_port);
	strcpy(ep->host, "127.0.0.1");
}

static void nor_one_that_cannot_be_connected_to(void **state)
{
	struct world *w = *state;
	int fds[8];

	fill(&w->ep[1], fds);
	assert_int_equal(tried(w), OLD);
	listen_to(w, 1);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
}

static void all_that_refuse_us_are_not_asked_again(void **state)
{
	struct world *w = *state;

	w->s[0].refuses = true;
	assert_int_equal(tried(w), OLD);
	dlk_server_doubted(dlk_server_known(w->ep));
	w->s[1].refuses = true;
	assert_int_equal(dlk_conn_open(w->c, in_ms(5000)), -EACCES);
	assert_non_null(strstr(w->c->error, "no Sentinel names the master"));
	assert_non_null(strstr(w->c->error, "sentinel_password_file"));
}

static void nor_is_one_that_is_away_a_refusal(void **state)
{
	struct world *w = *state;

	w->s[0].refuses = true;
	strcpy(w->ep[2].path, "/nobody");
	assert_int_equal(dlk_conn_open(w->c, in_ms(1000)), -EHOSTUNREACH);
}

/* --- who is to the master before ------------------------------------------- */

static void start_servers(struct world *w)
{
	for (int i = 0; i < 2; i++)
		server_start(&w->servers[i]);
	w->says = w->servers[0].port;
}

static void open_at(struct dlk_conn *c, unsigned port)
{
	assert_int_equal(dlk_conn_open(c, in_ms(30000)), 0);
	assert_int_equal(c->found.port, port);
	assert_false(dlk_conn_is_stale(c));
}

/* Two to one master, and the first has got no answer; another one is named. */
static void doubt(struct world *w, unsigned other)
{
	w->other = dlk_conn_new(w->ep);
	assert_non_null(w->other);
	open_at(w->c, w->servers[0].port);
	open_at(w->other, w->servers[0].port);
	dlk_conn_close(w->c);
	dlk_server_doubted(dlk_server_known(w->ep));
	w->says = other;
}

static void who_is_met_is_the_master_of_all(void **state)
{
	struct world *w = *state;

	start_servers(w);
	doubt(w, w->servers[1].port);
	open_at(w->c, w->servers[1].port);
	assert_true(dlk_conn_is_stale(w->other));
	dlk_conn_close(w->other);
	open_at(w->other, w->servers[1].port);
	assert_false(dlk_conn_is_stale(w->c));
}

/* As by one Sentinel that has not heard of the last failover. */
static void who_is_named_and_is_none_is_not(void **state)
{
	struct world *w = *state;

	start_servers(w);
	w->servers[1].is_replica = true;
	doubt(w, w->servers[1].port);
	assert_int_equal(dlk_conn_open(w->c, in_ms(30000)), -EAGAIN);
	assert_false(dlk_conn_is_stale(w->other));
	w->says = w->servers[0].port;
	open_at(w->c, w->servers[0].port);
	assert_false(dlk_conn_is_stale(w->other));
}

/* What the Sentinels say once more is no news to who asks them, but a switch. */
static void a_switch_is_heard_to_who_is_named_already(void **state)
{
	struct world *w = *state;

	start_servers(w);
	doubt(w, NEW);
	listen_to(w, 0);
	assert_int_equal(tried(w), NEW);
	assert_false(dlk_conn_is_stale(w->other));
	assert_true(tell_of_switch(w, w->servers[0].port, NEW));
	assert_true(dlk_conn_is_stale(w->other));
}

static void or_seen_by_who_verifies(void **state)
{
	struct world *w = *state;
	const struct dlk_patience wait = { .deadline_ns = in_ms(5000) };

	start_servers(w);
	doubt(w, NEW);
	assert_int_equal(tried(w), NEW);
	while (!dlk_conn_is_stale(w->other) && dlk_now_ns() < wait.deadline_ns)
		dlk_sentinel_verify(w->ep, &wait, true);
	assert_true(dlk_conn_is_stale(w->other));
}

/* (What one has said is believed for 10 s by who listens.) */
static void where_none_answers_they_are_soon_asked_again(void **state)
{
	struct world *w = *state;
	const struct dlk_patience wait = { .deadline_ns = in_ms(6000) };

	start_servers(w);
	open_at(w->c, w->servers[0].port);
	listen_to(w, 0);
	w->s[0].is_stopped = w->s[1].is_stopped = true;
	w->s[1].was_asked = false;
	while (!w->s[1].was_asked && dlk_now_ns() < wait.deadline_ns)
		dlk_sentinel_verify(w->ep, &wait, true);
	w->s[0].is_stopped = w->s[1].is_stopped = false;
	w->says = w->servers[1].port;
	while (!dlk_conn_is_stale(w->c) && dlk_now_ns() < wait.deadline_ns)
		dlk_sentinel_verify(w->ep, &wait, true);
	assert_true(dlk_conn_is_stale(w->c));
}

/* It lies in memory that goes with the connection. */
static void a_demotion_is_read_before_it_closes(void **state)
{
	struct world *w = *state;
	const struct dlk_arg echo = { DLK_LITERAL("ECHO") };
	const redisReply *r;

	start_servers(w);
	open_at(w->c, w->servers[0].port);
	assert_int_equal(dlk_conn_append(w->c, 1, &echo), 0);
	assert_int_equal(dlk_conn_flush(w->c, in_ms(30000)), 0);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(dlk_conn_reply(w->c, in_ms(30000), &r), 0);
		assert_int_equal(r->len, LONG);
	}
	assert_int_equal(dlk_conn_reply(w->c, in_ms(30000), &r), 0);
	assert_true(dlk_conn_is_stale(w->c));
	assert_int_equal(dlk_script_refused(w->c, r), -EAGAIN);
	assert_false(dlk_conn_is_open(w->c));
	assert_non_null(strstr(w->c->error, "READONLY"));
}

#define sentinel_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		sentinel_test(a_search_does_not_undo_what_was_heard),
		sentinel_test(nor_does_a_verification),
		sentinel_test(one_that_is_stopped_is_not_listened_to),
		sentinel_test(nor_one_that_cannot_be_connected_to),
		sentinel_test(all_that_refuse_us_are_not_asked_again),
		sentinel_test(nor_is_one_that_is_away_a_refusal),
		sentinel_test(who_is_met_is_the_master_of_all),
		sentinel_test(who_is_named_and_is_none_is_not),
		sentinel_test(a_switch_is_heard_to_who_is_named_already),
		sentinel_test(or_seen_by_who_verifies),
		sentinel_test(where_none_answers_they_are_soon_asked_again),
		sentinel_test(a_demotion_is_read_before_it_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
