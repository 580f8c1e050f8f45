/* SPDX-License-Identifier: MIT */
/* What is known of a server; see server.h. */
#include "redis/server.h"

#include <stdatomic.h>
#include <string.h>

#include "model/timeline.h"
#include "os/file_id.h"
#include "redis/fault.h"

/* --- what this process remembers ------------------------------------------ */

enum { SERVERS = 64 };

static struct dlk_known {
	_Atomic uint64_t name; /* of the endpoint; 0: free */
	_Atomic uint64_t met, granted, granted_ns;
	_Atomic uint64_t
		process; /* that granted: its run id, whatever its history */
	atomic_bool emptied; /* and said so */
	_Atomic uint64_t switches, doubts;
} known[SERVERS];

/* Never 0. */
static uint64_t name_of(const struct dlk_endpoint *ep)
{
	const uint64_t parts[] = {
		dlk_hash(ep->host, strlen(ep->host)),
		dlk_hash(ep->path, strnlen(ep->path, sizeof(ep->path))),
		ep->port,
		(uint64_t)ep->db,
		ep->restart_delay_ms,
		/* Of one that Sentinels name, the first of them: others may know
		 * another master by that name. */
		ep->n_sentinels ? name_of(&ep[1]) : 0,
	};

	return dlk_hash(parts, sizeof(parts)) ?: 1;
}

/* NULL: there are too many, and nothing is remembered of this one. */
struct dlk_known *dlk_server_known(const struct dlk_endpoint *ep)
{
	const uint64_t name = name_of(ep);

	for (int i = 0; i < SERVERS; i++) {
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(&known[i].name, &there,
						   name) ||
		    there == name)
			return &known[i];
	}
	return NULL;
}

/* --- what it says of itself (Redis: INFO) --------------------------------- */

/* The value of "\r\nNAME:VALUE\r\n"; "" for none, or one that does not fit. */
static void field(const char *info, const char *name, char *value, size_t size)
{
	const size_t len = strlen(name);
	size_t n;

	value[0] = '\0';
	while ((info = strchr(info, '\n'))) {
		info++;
		if (strncmp(info, name, len) != 0 || info[len] != ':')
			continue;
		n = strcspn(info + len + 1, "\r\n");
		if (n < size) {
			memcpy(value, info + len + 1, n);
			value[n] = '\0';
		}
		return;
	}
}

static uint64_t number(const char *info, const char *name)
{
	char value[24];
	uint64_t n;

	field(info, name, value, sizeof(value));
	return dlk_number(value, 10, &n) ? n : 0;
}

static void read_role(struct dlk_server_info *s, const char *info)
{
	char value[48];
	struct dlk_text t = dlk_text_in(s->master, sizeof(s->master));

	field(info, "role", value, sizeof(value));
	s->replica = strcmp(value, "slave") == 0;
	if (s->replica) {
		field(info, "master_host", value, sizeof(value));
		dlk_text_strs(&t, value, ":", NULL);
		field(info, "master_port", value, sizeof(value));
		dlk_text_str(&t, value);
	}
	/* The id of its master, when it was a replica; all zero: it was none.
	 */
	field(info, "master_replid2", value, sizeof(value));
	s->promoted = value[strspn(value, "0")] != '\0';
	field(info, "master_replid", s->history, sizeof(s->history));
}

void dlk_server_read(struct dlk_server_info *s, const struct dlk_endpoint *ep,
		     const char *info)
{
	uint64_t major;

	*s = (struct dlk_server_info){ .named = ep->n_sentinels != 0 };
	field(info, "run_id", s->run_id, sizeof(s->run_id));
	read_role(s, info);
	if (s->run_id[0]) {
		const char *id = ep->n_sentinels ? s->history : s->run_id;

		s->run = dlk_hash(id, strlen(id)) | 1;
		s->known = dlk_server_known(ep);
	}
	field(info, "redis_version", s->version, sizeof(s->version));
	if (strchr(s->version, '.') && dlk_number(s->version, 10, &major))
		s->major = (unsigned)major;
	s->uptime_s = number(info, "uptime_in_seconds");
	/* Without a limit of memory nothing is evicted, whatever the policy. */
	if (number(info, "maxmemory"))
		field(info, "maxmemory_policy", s->evicts, sizeof(s->evicts));
	if (strcmp(s->evicts, "noeviction") == 0)
		s->evicts[0] = '\0';
}

/* --- words ---------------------------------------------------------------- */

enum { SERVER_MAJOR = 7 };

const char *dlk_server_unfit(const struct dlk_server_info *s, char *room,
			     size_t size)
{
	struct dlk_text t = dlk_text_in(room, size);

	if (s->major && s->major < SERVER_MAJOR) {
		dlk_text_strs(&t, "it is Redis ", s->version,
			      ", and dlock needs 7.0 or newer", NULL);
	} else if (s->replica) {
		dlk_text_strs(&t, "it is a replica of ", s->master,
			      s->named ? ": is a failover under way?"
				       : ": url must name the master",
			      NULL);
	}
	return t.len ? room : NULL;
}

/* Of an error, what fits beside an advice: whole sentences, if it is long. */
static size_t said(const char *error)
{
	enum { SENTENCES = 150 };
	size_t n = strlen(error), end = 0;

	for (size_t i = 0; i + 1 < n && i < SENTENCES; i++)
		if (error[i] == '.' && error[i + 1] == ' ')
			end = i + 1;
	return n > SENTENCES && end ? end : n;
}

void dlk_server_explain(struct dlk_text *t, const char *error,
			const struct dlk_server_info *s)
{
	char room[160];
	const char *advice = dlk_server_unfit(s, room, sizeof(room));
	size_t len = strlen(error);

	if (!advice && s->named && strncmp(error, "READONLY ", 9) == 0)
		advice = "it was made a replica, and who is the master now is "
			 "asked again";
	if (!advice)
		advice = dlk_fault_of(error)->advice;
	if (advice)
		len = said(error);
	dlk_text_bytes(t, error, len);
	if (advice) {
		dlk_text_strs(t, " (", advice, ")", NULL);
	}
}

/* --- and what follows ----------------------------------------------------- */

bool dlk_server_meet(const struct dlk_server_info *s)
{
	uint64_t before =
		s->known ? atomic_exchange(&s->known->met, s->run) : 0;

	return before && before != s->run;
}

static uint64_t process_of(const struct dlk_server_info *s)
{
	return dlk_hash(s->run_id, strlen(s->run_id)) | 1;
}

void dlk_server_granted(const struct dlk_server_info *s, uint64_t now_ns)
{
	if (!s->known)
		return;
	atomic_store(&s->known->process, process_of(s));
	atomic_store(&s->known->granted, s->run);
	atomic_store(&s->known->granted_ns, now_ns);
}

bool dlk_server_is_known(const struct dlk_server_info *s)
{
	return s->known && atomic_load(&s->known->granted) == s->run;
}

bool dlk_server_emptied(const struct dlk_server_info *s)
{
	return s->known && !atomic_exchange(&s->known->emptied, true);
}

void dlk_server_whole(const struct dlk_server_info *s)
{
	if (s->known)
		atomic_store(&s->known->emptied, false);
}

/*
 * (INFO counts whole seconds, from the second that it was started in.)  One process
 * has another history when it was promoted, which it says, and when it has given its
 * backlog up, or made one (redis.conf, repl-backlog-ttl), which is no other memory.
 */
bool dlk_server_is_other(const struct dlk_server_info *s, uint64_t now_ns)
{
	uint64_t before = s->known ? atomic_load(&s->known->granted) : 0;

	return before && before != s->run &&
	       atomic_load(&s->known->process) != process_of(s) &&
	       s->uptime_s * 1000 * DLK_MS >
		       now_ns - atomic_load(&s->known->granted_ns) +
			       2000 * DLK_MS;
}

uint64_t dlk_server_switches(const struct dlk_known *k)
{
	return k ? atomic_load(&k->switches) : 0;
}

uint64_t dlk_server_doubts(const struct dlk_known *k)
{
	return k ? atomic_load(&k->doubts) : 0;
}

void dlk_server_switched(struct dlk_known *k)
{
	if (k)
		atomic_fetch_add(&k->switches, 1);
}

void dlk_server_doubted(struct dlk_known *k)
{
	if (k)
		atomic_fetch_add(&k->doubts, 1);
}
