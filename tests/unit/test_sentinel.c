/* SPDX-License-Identifier: MIT */
/*
 * What Sentinels say, by two that are a test's own: the first is listened to, and
 * the second is late.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdatomic.h>

#include "redis/sentinel.h"
#include "tests/unit/fake.h"

/* Ports of 127.0.0.1 that nobody listens at: who is the master, and who was. */
enum { OLD = 1, NEW = 2 };

static struct world {
	struct dlk_endpoint ep[3]; /* the master, its Sentinels */
	struct sentinel {
		struct fake fake;
		struct world *w;
		atomic_int listener; /* who has subscribed; 0: nobody */
		atomic_bool is_late;
	} s[2];
	struct dlk_conn *c;
} world;

static void say_text(int fd, const char *text)
{
	say(fd, text, strlen(text));
}

/* Before it answers what it knew, the other one tells a thread the news. */
static void be_late(struct world *w)
{
	const uint64_t until = in_ms(5000);

	say_text(w->s[0].listener,
		 "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n"
		 "$27\r\nrig 127.0.0.1 1 127.0.0.1 2\r\n");
	while (!dlk_sentinel_look(w->ep) && dlk_now_ns() < until)
		dlk_pause_ns(DLK_MS);
}

/* Asked, or subscribed to; the greeting comes along. */
static void serve(int fd, void *arg)
{
	struct sentinel *s = arg;
	char buf[4096];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf) - 1, 0)) > 0) {
		buf[n] = '\0';
		if (strstr(buf, "SETNAME"))
			say_text(fd, "+OK\r\n");
		if (strstr(buf, "SUBSCRIBE")) {
			say_text(fd, "*3\r\n$9\r\nsubscribe\r\n"
				     "$14\r\n+switch-master\r\n:1\r\n");
			s->listener = fd;
		} else if (strstr(buf, "SENTINEL")) {
			if (atomic_exchange(&s->is_late, false))
				be_late(s->w);
			say_text(fd, "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n");
		}
	}
}

static int begin(void **state)
{
	struct world *w = &world;

	*w = (struct world){ .ep = { { .scheme = DLK_TCP,
				       .host = "rig",
				       .connect_timeout_ms = 2000,
				       .n_sentinels = 2 } } };
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

static void listen_to_the_first(struct world *w)
{
	const uint64_t until = in_ms(30000);

	while (!w->s[0].listener && dlk_now_ns() < until)
		dlk_sentinel_look(w->ep);
	assert_int_not_equal(w->s[0].listener, 0);
}

static void a_search_does_not_undo_what_was_heard(void **state)
{
	struct world *w = *state;

	assert_int_equal(tried(w), OLD);
	listen_to_the_first(w);
	w->s[1].is_late = true;
	dlk_server_doubted(dlk_server_known(w->ep));
	assert_int_equal(tried(w), NEW);
}

#define sentinel_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		sentinel_test(a_search_does_not_undo_what_was_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
