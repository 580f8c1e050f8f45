/* SPDX-License-Identifier: MIT */
/*
 * dlock-tls: speaks TLS with one Redis server for one process, or logs in there
 * for it, or both, and plain bytes with that (redis/tls.h, DESIGN 5.6).
 *
 *  1. The server's certificate and its name are checked, always: what cannot be
 *     trusted is no server, and the connection is refused with the reason.  It
 *     is sent no password either.
 *  2. What the process has sent before it ended is sent on, and waited for to
 *     be read: it may be a release.
 *  3. It keeps no descriptor of the program's, and ends with the process and
 *     the last connection.
 *
 * A thread for each connection: they share nothing but the context.  Started by
 * the shim, the keeper and the tools only, with a socket as descriptor 3.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "model/timeline.h"
#include "os/guard.h"
#include "os/log.h"
#include "os/sys.h"
#include "tls/login.h"
#include "tls/protocol.h"
#include "tls/older.h"
#include "tls/wire.h"

/*
 * CLOSE_MS: how long a server has to read what was sent before the end.
 * REFUSED_MS: how long one that has asked for a certificate in vain has to say
 * that it is needed.
 */
enum {
	CONTROL = 3,
	BUFFER = 16 * 1024,
	CLOSE_MS = 1000,
	REFUSED_MS = 100,
	STACK = 256 * 1024
};

static struct dlk_tls_start server;
static SSL_CTX *context; /* NULL: `unusable` says why */
static struct dlk_tls_status unusable;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t closed = PTHREAD_COND_INITIALIZER;
static unsigned connections; /* guarded by the mutex */

struct connection {
	int guest; /* does not block */
	struct dlk_wire wire;
	bool asked; /* for a certificate, and we have none */
	struct half {
		char bytes[BUFFER];
		size_t from, n;
		bool ended; /* nothing comes any more */
	} up, down;         /* to the server, and from it */
};

/* --- words ---------------------------------------------------------------- */

/* "WHAT: the first of OpenSSL's errors" */
static void blame(struct dlk_tls_status *s, int err, const char *what)
{
	const unsigned long first = ERR_get_error();
	const char *reason = first ? ERR_reason_error_string(first) : NULL;

	if (ERR_SYSTEM_ERROR(first))
		reason = strerror(ERR_GET_REASON(first));
	s->err = err;
	snprintf(s->why, sizeof(s->why), "%s: %s", what,
		 reason ? reason : strerror(-err));
	ERR_clear_error();
}

/* --- whom we trust, and who we are ---------------------------------------- */

static bool load_ca(struct dlk_tls_status *s)
{
	const char *file = server.tls.ca_file;
	char what[200];

	if (file[0] ? SSL_CTX_load_verify_file(context, file) == 1
		    : SSL_CTX_set_default_verify_paths(context) == 1)
		return true;
	snprintf(what, sizeof(what), "cannot use ca_file %s", file);
	blame(s, -ENOKEY, what);
	return false;
}

static bool load_own(struct dlk_tls_status *s)
{
	const struct dlk_tls_options *tls = &server.tls;
	char what[200];

	if (!tls->cert_file[0])
		return true;
	snprintf(what, sizeof(what), "cannot use cert_file %s", tls->cert_file);
	if (SSL_CTX_use_certificate_chain_file(context, tls->cert_file) == 1) {
		snprintf(what, sizeof(what), "cannot use key_file %s",
			 tls->key_file);
		if (SSL_CTX_use_PrivateKey_file(context, tls->key_file,
						SSL_FILETYPE_PEM) == 1)
			return true;
	}
	blame(s, -ENOKEY, what);
	return false;
}

/* (client_cert_cb) The server asks for a certificate, and there is none. */
static int has_none(SSL *ssl, X509 **cert, EVP_PKEY **key)
{
	struct connection *c = SSL_get_app_data(ssl);

	(void)cert;
	(void)key;
	c->asked = true;
	return 0;
}

static void make_context(void)
{
	context = SSL_CTX_new(TLS_client_method());
	if (!context) {
		blame(&unusable, -ENOMEM, "cannot begin TLS");
		return;
	}
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_client_cert_cb(context, has_none);
	/* A password is not asked for: there is nobody to ask. */
	SSL_CTX_set_default_passwd_cb_userdata(context, (void *)(uintptr_t) "");
	if (load_ca(&unusable) && load_own(&unusable))
		return;
	SSL_CTX_free(context);
	context = NULL;
}

/* The name that its certificate must be for, and that it is asked by. */
static bool expect_name(SSL *ssl)
{
	const char *name = server.tls.server_name[0] ? server.tls.server_name
						     : server.host;
	struct in6_addr address;

	if (inet_pton(AF_INET, name, &address) == 1 ||
	    inet_pton(AF_INET6, name, &address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl),
						     name) == 1;
	return SSL_set1_host(ssl, name) == 1 &&
	       SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* --- to the server -------------------------------------------------------- */

static int ms_until(uint64_t deadline_ns)
{
	const uint64_t now = dlk_now_ns();

	return now >= deadline_ns ? 0 : (int)((deadline_ns - now) / DLK_MS) + 1;
}

/* 0, -ETIMEDOUT */
static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };

	while (poll(&p, 1, ms_until(deadline_ns)) <= 0)
		if (dlk_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
	return 0;
}

static int finish_connect(int fd, uint64_t deadline_ns)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (errno != EINPROGRESS)
		return -errno;
	if (wait_for(fd, POLLOUT, deadline_ns) < 0)
		return -ETIMEDOUT;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
	return -err;
}

/* (EAGAIN: the backlog of a unix socket is full; there is no event.) */
static int begin_connect(int fd, const void *addr, socklen_t len,
			 uint64_t deadline_ns)
{
	while (connect(fd, addr, len) < 0) {
		if (errno != EAGAIN)
			return finish_connect(fd, deadline_ns);
		if (dlk_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		dlk_pause_ns(2 * DLK_MS);
	}
	return 0;
}

/* A descriptor, or -errno. */
static int connect_to(int family, const void *addr, socklen_t len,
		      uint64_t deadline_ns)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err = fd < 0 ? -errno : 0;

	if (!err)
		err = begin_connect(fd, addr, len, deadline_ns);
	if (err) {
		if (fd >= 0)
			close(fd);
		return err;
	}
	if (family != AF_UNIX)
		dlk_tcp_options(fd);
	return fd;
}

static int cannot_connect(struct dlk_tls_status *s, int err)
{
	s->err = err;
	snprintf(s->why, sizeof(s->why), "cannot connect: %s", strerror(-err));
	return err;
}

static int reach_socket(struct dlk_tls_status *s, uint64_t deadline_ns)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd;

	memcpy(un.sun_path, server.path,
	       strnlen(server.path, sizeof(server.path)));
	fd = connect_to(AF_UNIX, &un, sizeof(un), deadline_ns);
	return fd < 0 ? cannot_connect(s, fd) : fd;
}

/* What one of so many addresses that are left may take. */
static uint64_t turn_ns(const struct addrinfo *a, uint64_t deadline_ns)
{
	const uint64_t now = dlk_now_ns();
	unsigned left = 1;

	while ((a = a->ai_next))
		left++;
	return now < deadline_ns ? now + (deadline_ns - now) / left
				 : deadline_ns;
}

/* (An address that stands in the URL is in the server's name already.) */
static void note_refusal(struct dlk_tls_status *s, const struct addrinfo *a,
			 int err)
{
	const size_t len = strlen(s->why);
	char at[80] = "?";

	getnameinfo(a->ai_addr, a->ai_addrlen, at, sizeof(at), NULL, 0,
		    NI_NUMERICHOST);
	s->err = err;
	snprintf(s->why + len, sizeof(s->why) - len, "%s%s%s%s",
		 len ? "; " : "cannot connect: ",
		 strcmp(at, server.host) == 0 ? "" : at,
		 strcmp(at, server.host) == 0 ? "" : ": ", strerror(-err));
}

/* By whichever of its addresses it answers, each of which has its share. */
static int reach_host(struct dlk_tls_status *s, uint64_t deadline_ns)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *all = NULL;
	char port[16];
	int fd = -EHOSTUNREACH;

	snprintf(port, sizeof(port), "%u", server.port);
	if (getaddrinfo(server.host, port, &hints, &all) != 0) {
		s->err = -EHOSTUNREACH;
		snprintf(s->why, sizeof(s->why), "unknown host name \"%.200s\"",
			 server.host);
		return -1;
	}
	for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = connect_to(a->ai_family, a->ai_addr, a->ai_addrlen,
				turn_ns(a, deadline_ns));
		if (fd < 0)
			note_refusal(s, a, fd);
	}
	freeaddrinfo(all);
	if (fd >= 0)
		s->err = 0;
	return fd;
}

static int reach(struct dlk_tls_status *s, uint64_t deadline_ns)
{
	return server.scheme == DLK_UNIX ? reach_socket(s, deadline_ns)
					 : reach_host(s, deadline_ns);
}

/* What can be done about a certificate that is refused for this. */
static const char *remedy(long fault)
{
	switch (fault) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "server_name says by which name it is known";
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "renew it at the server, or set this host's clock";
	default:
		return "ca_file says whose certificates are trusted";
	}
}

/* Why it is not to be trusted, in words that name what can be done. */
static void refuse(struct dlk_tls_status *s, const SSL *ssl)
{
	const long fault = SSL_get_verify_result(ssl);

	if (fault == X509_V_OK) {
		blame(s, -EPIPE,
		      "TLS failed (is it a port for TLS, and does "
		      "the server ask for cert_file?)");
		return;
	}
	s->err = -EACCES;
	snprintf(s->why, sizeof(s->why),
		 "the server's certificate is refused: %s (%s)",
		 X509_verify_cert_error_string(fault), remedy(fault));
}

static bool is_alert(unsigned long error)
{
	/* (It is one byte; reasons of the system's are greater yet.) */
	return ERR_GET_LIB(error) == ERR_LIB_SSL &&
	       ERR_GET_REASON(error) >= SSL_AD_REASON_OFFSET &&
	       ERR_GET_REASON(error) <= SSL_AD_REASON_OFFSET + UINT8_MAX;
}

/*
 * By TLS 1.3 all is agreed upon before the server has looked at what we show
 * (RFC 8446, 4.4.2.4): that it wants a certificate comes a moment later, by an
 * alert.  One that closes the connection may be well the next time.
 */
static bool is_refused(struct connection *c, struct dlk_tls_status *s)
{
	const uint64_t until_ns = dlk_now_ns() + REFUSED_MS * DLK_MS;
	char byte;
	int n;

	if (!c->asked || wait_for(c->wire.fd, POLLIN, until_ns) < 0)
		return false;
	ERR_clear_error();
	n = SSL_peek(c->wire.ssl, &byte, 1);
	if (n > 0 || dlk_wire_wants(c->wire.ssl, n))
		return false;
	if (is_alert(ERR_peek_error()))
		blame(s, -EACCES, "the server asks for cert_file");
	else
		blame(s, -EPIPE, "the server closed the connection");
	return true;
}

/* 0 is not known. */
static int64_t end_of(const X509 *certificate)
{
	struct tm tm;

	if (!certificate ||
	    ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) != 1)
		return 0;
	return timegm(&tm);
}

static void tell_ends(struct dlk_tls_status *s, const SSL *ssl)
{
	X509 *peer = SSL_get1_peer_certificate(ssl);

	s->server_ends = end_of(peer);
	s->own_ends = end_of(SSL_get_certificate(ssl));
	X509_free(peer);
}

static bool shake_hands(struct connection *c, struct dlk_tls_status *s,
			uint64_t deadline_ns)
{
	int n;

	c->wire.ssl = SSL_new(context);
	if (!c->wire.ssl || !expect_name(c->wire.ssl) ||
	    SSL_set_fd(c->wire.ssl, c->wire.fd) != 1) {
		blame(s, -ENOMEM, "cannot begin TLS");
		return false;
	}
	SSL_set_app_data(c->wire.ssl, c);
	while ((n = SSL_connect(c->wire.ssl)) != 1) {
		const short events = dlk_wire_wants(c->wire.ssl, n);

		if (!events) {
			refuse(s, c->wire.ssl);
			return false;
		}
		if (wait_for(c->wire.fd, events, deadline_ns) < 0) {
			s->err = -ETIMEDOUT;
			snprintf(s->why, sizeof(s->why),
				 "the server does not answer TLS");
			return false;
		}
	}
	if (is_refused(c, s))
		return false;
	tell_ends(s, c->wire.ssl);
	return true;
}

/* --- bytes ---------------------------------------------------------------- */

/* Each of these: true if something was done. */

static bool from_guest(struct connection *c)
{
	struct half *h = &c->up;
	ssize_t n;

	if (h->n || h->ended)
		return false;
	n = recv(c->guest, h->bytes, BUFFER, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	h->from = 0;
	h->n = n > 0 ? (size_t)n : 0;
	h->ended = n <= 0;
	return true;
}

static void took(struct half *h, size_t n)
{
	explicit_bzero(h->bytes + h->from, n); /* it may be an AUTH */
	h->from += n;
	h->n -= n;
}

static bool to_guest(struct connection *c)
{
	struct half *h = &c->down;
	ssize_t n;

	if (!h->n)
		return false;
	n = send(c->guest, h->bytes + h->from, h->n,
		 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	/* Nobody reads it any more. */
	took(h, n > 0 ? (size_t)n : h->n);
	return true;
}

/* The connection is at its end, if it waits for nothing. */
static void note_failure(struct connection *c, short waits)
{
	if (waits)
		return;
	c->up.ended = c->down.ended = true;
	c->up.n = 0;
}

static bool to_server(struct connection *c, short *events)
{
	struct half *h = &c->up;
	short waits = 0;
	int n;

	if (!h->n)
		return false;
	n = dlk_wire_write(&c->wire, h->bytes + h->from, h->n, &waits);
	*events |= waits;
	if (n > 0)
		took(h, (size_t)n);
	else
		note_failure(c, waits);
	return n > 0;
}

static bool from_server(struct connection *c, short *events)
{
	struct half *h = &c->down;
	short waits = 0;
	int n;

	if (h->n || h->ended)
		return false;
	n = dlk_wire_read(&c->wire, h->bytes, BUFFER, &waits);
	*events |= waits;
	h->from = 0;
	h->n = n > 0 ? (size_t)n : 0;
	h->ended = n == 0;
	if (n < 0)
		note_failure(c, waits);
	return n >= 0;
}

/* Until one side has closed, and what it sent before was sent on. */
static void relay(struct connection *c)
{
	for (;;) {
		short events = 0;
		bool any = from_guest(c);
		struct pollfd p[2];

		any |= to_server(c, &events);
		any |= from_server(c, &events);
		any |= to_guest(c);
		if ((c->up.ended && !c->up.n) || (c->down.ended && !c->down.n))
			return;
		if (any)
			continue;
		p[0] = (struct pollfd){ .fd = c->guest };
		if (!c->up.n && !c->up.ended)
			p[0].events |= POLLIN;
		if (c->down.n)
			p[0].events |= POLLOUT;
		/* A guest that has ended is seen by what it sent before. */
		if (!p[0].events)
			p[0].fd = -1;
		/* One that is not waited for tells of its end all the same. */
		p[1] = (struct pollfd){ .fd = events ? c->wire.fd : -1,
					.events = events };
		poll(p, 2, -1);
	}
}

/*
 * A socket that is closed with an answer unread in it resets the connection,
 * and what was sent before is lost (RFC 2525): so the answers are read.
 */
static void say_goodbye(struct connection *c)
{
	const uint64_t until_ns = dlk_now_ns() + CLOSE_MS * DLK_MS;
	short waits;
	int n;

	dlk_wire_shutdown(&c->wire);
	do {
		waits = 0;
		n = dlk_wire_read(&c->wire, c->down.bytes, BUFFER, &waits);
	} while (dlk_now_ns() < until_ns &&
		 (n > 0 || (waits == POLLIN &&
			    wait_for(c->wire.fd, POLLIN, until_ns) == 0)));
}

/* --- a connection --------------------------------------------------------- */

static bool answer(int guest, const struct dlk_tls_status *s)
{
	return send(guest, s, sizeof(*s), MSG_NOSIGNAL) == sizeof(*s);
}

static void end(struct connection *c)
{
	dlk_wire_close(&c->wire);
	close(c->guest);
	explicit_bzero(c, sizeof(*c));
	dlk_undumped_free(c, sizeof(*c));
	DLK_GUARD(&mutex);
	connections--;
	pthread_cond_signal(&closed);
}

/*
 * What the server hears first is the AUTH, if there is one.  Its memory is on no
 * other disk either, if we may say so (mlock(2)).
 */
static bool log_in(struct connection *c, struct dlk_tls_status *s)
{
	int n;

	if (server.password_file[0])
		mlock(c, sizeof(*c));
	n = dlk_login_command(&server, c->up.bytes, BUFFER, s);
	if (n > 0)
		c->up.n = (size_t)n;
	return n >= 0;
}

static bool begin_wire(struct connection *c, struct dlk_tls_status *s)
{
	const uint64_t deadline_ns = dlk_now_ns() + server.timeout_ms * DLK_MS;

	if (s->err)
		return false;
	c->wire.fd = reach(s, deadline_ns);
	return c->wire.fd >= 0 &&
	       (!context || shake_hands(c, s, deadline_ns)) && log_in(c, s);
}

static void *serve(void *arg)
{
	struct dlk_tls_status status = unusable;
	struct connection *c = arg;

	if (begin_wire(c, &status) && answer(c->guest, &status)) {
		relay(c);
		say_goodbye(c);
	}
	if (status.err)
		answer(c->guest, &status);
	end(c);
	return NULL;
}

static void begin_connection(int guest)
{
	struct dlk_tls_status none = { .err = -ENOMEM,
				       .why = "dlock-tls has no memory" };
	struct connection *c = dlk_undumped(sizeof(*c));
	pthread_attr_t attr;
	pthread_t thread;

	if (!c) {
		answer(guest, &none);
		close(guest);
		return;
	}
	c->guest = guest;
	c->wire = (struct dlk_wire){ .fd = -1, .name = server.name };
	pthread_mutex_lock(&mutex);
	connections++;
	pthread_mutex_unlock(&mutex);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK);
	if (pthread_create(&thread, &attr, serve, c) != 0) {
		answer(guest, &none);
		end(c);
	}
	pthread_attr_destroy(&attr);
}

/* --- main ----------------------------------------------------------------- */

/* What cannot be taken is closed by that: who asked is told so by its end. */
static void say_full(void)
{
	static bool said;

	if (!said)
		dlk_log(DLK_WARNING, "redis at ", server.name,
			": dlock-tls: no descriptor is left for another "
			"connection (RLIMIT_NOFILE)",
			NULL);
	said = true;
}

/*
 * The descriptor of an OPEN, -1 if there was none left for it; false: nobody is
 * there any more.
 */
static bool hear(int *fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	const struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(CONTROL, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	*fd = -1;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	else if (n > 0)
		say_full();
	return n > 0;
}

static bool begin(void)
{
	const struct rlimit no_core = { 0, 0 };
	struct rlimit files;
	sigset_t everything;

	sigfillset(&everything);
	pthread_sigmask(SIG_SETMASK, &everything, NULL);
	/* Passwords pass through.  (What dumps are piped to has no limit.) */
	setrlimit(RLIMIT_CORE, &no_core);
	prctl(PR_SET_DUMPABLE, 0);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	dlk_clock_use(clock_gettime);
	dlk_log_init(getenv("DLOCK_LOG"), false);
	dlk_log_adopt(STDERR_FILENO);
	return recv(CONTROL, &server, sizeof(server), 0) == sizeof(server) &&
	       server.magic == DLK_TLS_MAGIC;
}

int main(void)
{
	int guest;

	if (!begin()) {
		static const char text[] = "dlock-tls: is started by dlock's "
					   "other programs only\n";

		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		return 64;
	}
	if (server.scheme == DLK_TLS)
		make_context();
	while (hear(&guest))
		if (guest >= 0)
			begin_connection(guest);
	pthread_mutex_lock(&mutex);
	while (connections)
		pthread_cond_wait(&closed, &mutex);
	pthread_mutex_unlock(&mutex);
	_exit(0);
}
