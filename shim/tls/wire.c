/* SPDX-License-Identifier: MIT */
/* A server's bytes; see wire.h. */
#include "tls/older.h"
#include "tls/wire.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/log.h"

short dlk_wire_wants(SSL *ssl, int n)
{
	switch (SSL_get_error(ssl, n)) {
	case SSL_ERROR_WANT_READ:
		return POLLIN;
	case SSL_ERROR_WANT_WRITE:
		return POLLOUT;
	default:
		return 0;
	}
}

/* (A server that goes without a word is no fault of TLS.) */
static void say_failed(const struct dlk_wire *w, int error)
{
	const unsigned long first = ERR_peek_error();

	if (error == SSL_ERROR_SSL && !w->is_ending &&
	    ERR_GET_REASON(first) != SSL_R_UNEXPECTED_EOF_WHILE_READING)
		dlk_log(DLK_WARNING, "redis at ", w->name,
			": TLS: ", ERR_reason_error_string(first), NULL);
	ERR_clear_error();
}

/* What SSL_read() or SSL_write() has returned. */
static int of_tls(struct dlk_wire *w, int n, short *events)
{
	const int error = n > 0 ? SSL_ERROR_NONE : SSL_get_error(w->ssl, n);
	const short waits = n > 0 ? 0 : dlk_wire_wants(w->ssl, n);

	if (n > 0)
		return n;
	*events |= waits;
	if (!waits && error != SSL_ERROR_ZERO_RETURN)
		say_failed(w, error);
	return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

/* What recv(2) or send(2) has. */
static int of_socket(ssize_t n, short event, short *events)
{
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		*events |= event;
	return (int)n;
}

int dlk_wire_read(struct dlk_wire *w, void *bytes, size_t size, short *events)
{
	if (w->ssl)
		return of_tls(w, SSL_read(w->ssl, bytes, (int)size), events);
	return of_socket(recv(w->fd, bytes, size, 0), POLLIN, events);
}

int dlk_wire_write(struct dlk_wire *w, const void *bytes, size_t n,
		   short *events)
{
	if (w->ssl)
		return of_tls(w, SSL_write(w->ssl, bytes, (int)n), events);
	return of_socket(send(w->fd, bytes, n, MSG_NOSIGNAL), POLLOUT, events);
}

void dlk_wire_shutdown(struct dlk_wire *w)
{
	w->is_ending = true;
	if (w->ssl && SSL_shutdown(w->ssl) < 0)
		ERR_clear_error();
	shutdown(w->fd, SHUT_WR);
}

void dlk_wire_close(struct dlk_wire *w)
{
	if (w->ssl)
		SSL_free(w->ssl);
	if (w->fd >= 0)
		close(w->fd);
}
