/* SPDX-License-Identifier: MIT */
/*
 * Bytes to and from a server, by TLS or as they are.  The descriptor does not
 * block.
 */
#ifndef DLK_TLS_WIRE_H
#define DLK_TLS_WIRE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

struct dlk_wire {
	int fd;
	SSL *ssl;         /* NULL: as they are */
	const char *name; /* the server's, for messages */
	bool is_ending;   /* nothing is said of what fails any more */
};

/* What a call of OpenSSL's waits for (poll(2)); 0: it has failed. */
short dlk_wire_wants(SSL *ssl, int n);

/*
 * How many bytes; 0: nothing comes any more; -1: what it waits for is added to
 * *events, or it has failed, and that is said.
 */
int dlk_wire_read(struct dlk_wire *w, void *bytes, size_t size, short *events);
int dlk_wire_write(struct dlk_wire *w, const void *bytes, size_t n,
		   short *events);

/* Nothing is written any more; what comes can be read. */
void dlk_wire_shutdown(struct dlk_wire *w);
void dlk_wire_close(struct dlk_wire *w);

#endif
