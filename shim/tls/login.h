/* SPDX-License-Identifier: MIT */
/*
 * AUTH for a program that has no password (credentials = "helper"): the file is
 * read for each connection, so what is written there counts from the next one
 * on, and nothing of it is kept.
 */
#ifndef DLK_TLS_LOGIN_H
#define DLK_TLS_LOGIN_H

#include "tls/protocol.h"

/*
 * The command, of at most `size` bytes, and its length; 0: nobody logs in there;
 * -errno, and what is wrong with the file in *s.  The caller wipes it.
 */
int dlk_login_command(const struct dlk_tls_start *to, char *command,
		      size_t size, struct dlk_tls_status *s);

#endif
