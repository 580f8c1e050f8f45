/* SPDX-License-Identifier: MIT */
/*
 * TLS as a program of the user speaks it: by a dlock-tls that has his rights.
 * See doctor.h.
 */
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "redis/tls.h"
#include "tools/common.h"
#include "tools/doctor.h"

enum { SOON_DAYS = 14, DAY_S = 24 * 3600 };

static void look_at_end(struct doctor *d, const struct doctor_server *s,
			const char *whose, int64_t ends)
{
	const int64_t left = ends - time(NULL);

	if (!ends || left > (int64_t)SOON_DAYS * DAY_S)
		return;
	doctor_find(d, DOCTOR_WARNING,
		    "then no connection is made any more: leases that are held "
		    "are lost, and locks fail with ENOLCK",
		    "renew it, and restart the server, or the programs, that "
		    "have it",
		    "redis \"%s\" (%s): %s ends in %" PRId64 " days",
		    s->redis->name, s->ep->name, whose, left / DAY_S);
}

static void look_at_server(struct doctor *d, const struct doctor_server *s)
{
	const struct dlk_patience wait = { tool_deadline(s->ep), NULL, NULL };
	int64_t server_ends, own_ends;
	char why[256] = "";

	if (dlk_tls_examine(s->ep, &wait, &server_ends, &own_ends, why,
			    sizeof(why))) {
		doctor_find(d, DOCTOR_CRITICAL,
			    "every lock call of its programs under these rules "
			    "fails with ENOLCK",
			    "let the user read password_file, ca_file, "
			    "cert_file and key_file, where they are given, and "
			    "the directories before them; make install, if "
			    "dlock-tls is missing",
			    "redis \"%s\" (%s): user %u %s: %s", s->redis->name,
			    s->ep->name, (unsigned)geteuid(),
			    s->ep->scheme == DLK_TLS ? "has no TLS"
						     : "cannot connect",
			    why);
		return;
	}
	look_at_end(d, s, "the server's certificate", server_ends);
	look_at_end(d, s, "the certificate of cert_file", own_ends);
}

void doctor_tls(struct doctor *d)
{
	dlk_tls_forget();
	for (size_t i = 0; i < d->n_servers; i++)
		if (d->servers[i].up && dlk_tls_connects(d->servers[i].ep))
			look_at_server(d, &d->servers[i]);
}
