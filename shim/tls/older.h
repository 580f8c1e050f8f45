/* SPDX-License-Identifier: MIT */
/* What OpenSSL 1.1 has by other names, or not at all. */
#ifndef DLK_TLS_OLDER_H
#define DLK_TLS_OLDER_H

#include <openssl/err.h>
#include <openssl/ssl.h>

#if OPENSSL_VERSION_NUMBER < 0x30000000L
/* An end without a word is a system call's error there, and none of TLS. */
#define SSL_R_UNEXPECTED_EOF_WHILE_READING (-1)
#define ERR_SYSTEM_ERROR(error)            (ERR_GET_LIB(error) == ERR_LIB_SYS)
#define SSL_CTX_load_verify_file(context, file)                                \
	SSL_CTX_load_verify_locations(context, file, NULL)
#define SSL_get1_peer_certificate(ssl) SSL_get_peer_certificate(ssl)
#endif

#endif
