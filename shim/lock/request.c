/* SPDX-License-Identifier: MIT */
/* What every kind of lock asks alike; see request.h. */
#include "lock/request.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "config/config.h"
#include "os/file_id.h"
#include "os/log.h"
#include "os/mounts.h"
#include "os/path_cache.h"
#include "os/proc.h"
#include "os/signals.h"
#include "os/sys.h"
#include "lease/store.h"
#include "hold/end.h"
#include "hold/handover.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/identity.h"
#include "hold/self.h"
#include "hold/thread.h"
#include "hold/trace.h"
#include "lock/flock.h"
#include "lock/event.h"
#include "lock/follow.h"
#include "model/timeline.h"
#include "model/token.h"

/* How long the first answer is waited for with the kernel's lock in hand. */
enum { PATIENCE_MS = 200 };

/* --- messages ------------------------------------------------------------- */

void dlk_line_of_path(struct dlk_line *l, enum dlk_level level,
		      const char *name, const char *path, size_t len)
{
	dlk_line_begin(l, level);
	dlk_text_strs(&l->text, name, " \"", NULL);
	dlk_text_quoted(&l->text, path, len);
	dlk_text_str(&l->text, "\"");
}

static void begin_line(const struct request *r, struct dlk_line *l,
		       enum dlk_level level)
{
	const ssize_t n = dlk_kernel_path(r->program_fd, r->s->room.path,
					  sizeof(r->s->room.path));

	dlk_line_of_path(l, level, r->name, r->s->room.path,
			 n > 0 ? (size_t)n : 0);
}

static void end_line(struct dlk_line *l, const char *what, const char *why,
		     const char *then)
{
	dlk_text_strs(&l->text, ": ", what, NULL);
	dlk_text_quoted(&l->text, why, strlen(why));
	dlk_text_str(&l->text, then);
	dlk_line_end(l);
}

void dlk_request_say(const struct request *r, enum dlk_level level,
		     const char *what, const char *why, const char *then)
{
	struct dlk_line l;

	begin_line(r, &l, level);
	end_line(&l, what, why, then);
}

void dlk_request_line(const struct request *r, enum dlk_level level,
		      const char *what, const char *why, const char *then)
{
	struct dlk_line l;

	begin_line(r, &l, level);
	dlk_text_str(&l.text, " (key \"");
	dlk_text_quoted(&l.text, r->lease.key, r->lease.key_len);
	dlk_text_strs(&l.text, "\"): redis \"", r->store->name, "\" at ",
		      r->store->at, NULL);
	end_line(&l, what, why, then);
}

static void add_wanted(struct dlk_text *t, const struct request *r)
{
	if (r->kind == DLK_FLOCK)
		dlk_text_str(t, r->mode == LOCK_EX ? " EX" : " SH");
	else
		dlk_trace_range(t, &r->want);
}

/* The call, what it wants, and what else there is to say of it. */
void dlk_trace_call(const struct request *r, const char *what,
		    const char *holder)
{
	char text[256];
	struct dlk_text t;

	if (!dlk_log_wants(DLK_DEBUG) || !r->s)
		return;
	dlk_text_init(&t, text, sizeof(text));
	dlk_text_str(&t, what);
	add_wanted(&t, r);
	dlk_text_str(&t, holder ? ", held by " : "");
	dlk_request_line(r, DLK_DEBUG, text, holder ?: "", "");
}

/* --- the beginning ------------------------------------------------------ */

/* Where a file has no inode number in common, its key is nobody else's. */
static int name_inode(const struct request *r, char *inode)
{
	char why[DLK_INODE_WHY_MAX];
	struct dlk_line l;

	inode[0] = '\0';
	if (!r->rule->by_inode ||
	    dlk_inode_name(r->fd, r->rule->place_len, inode, why) == 0)
		return 0;
	dlk_line_of_path(&l, DLK_ERROR, r->name, r->s->room.path,
			 strlen(r->s->room.path));
	dlk_text_strs(&l.text, ": there is no key \"", r->rule->key,
		      "\" for it: ", why, "; the call fails with ENOLCK", NULL);
	dlk_line_end(&l);
	return -ENOLCK;
}

static int expand_key(struct request *r, const char *suffix)
{
	const size_t more = strlen(suffix);
	char inode[DLK_INODE_MAX];
	ssize_t n = name_inode(r, inode);

	if (n == 0)
		n = dlk_key_expand(r->rule, r->s->room.path,
				   strlen(r->s->room.path), inode, r->s->key,
				   sizeof(r->s->key) - more);
	if (n < 0)
		return -ENOLCK;
	memcpy(r->s->key + n, suffix, more + 1);
	r->lease.key = r->s->key;
	r->lease.key_len = (size_t)n + more;
	return 0;
}

/* It has no name but its numbers. */
static void say_no_path(const struct request *r)
{
	struct dlk_file file = { 0 };
	struct dlk_line l;
	struct stat st;

	dlk_kernel_file(r->fd, &file);
	dlk_line_begin(&l, DLK_ERROR);
	dlk_text_strs(&l.text, r->name,
		      ": fails with ENOLCK: the path of descriptor ", NULL);
	dlk_text_i64(&l.text, r->fd);
	dlk_text_str(&l.text, " (inode ");
	dlk_text_u64(&l.text, file.ino, 0);
	dlk_text_str(&l.text, " of device ");
	dlk_text_u64(&l.text, major(file.dev), 0);
	dlk_text_str(&l.text, ":");
	dlk_text_u64(&l.text, minor(file.dev), 0);
	dlk_text_strs(&l.text,
		      ") cannot be had, and its device has managed files: ",
		      dlk_stat("/proc/thread-self", &st, 0) < 0
			      ? "there is no /proc; mount it"
			      : "it was opened by its handle "
				"(open_by_handle_at), or moved out of what is "
				"mounted; open it by its path",
		      NULL);
	dlk_line_end(&l);
}

/* Nor has it a rule: who wants it locked is refused. */
static int refuse(const struct request *r)
{
	if (dlk_self.broken.text[0])
		dlk_log(DLK_ERROR, r->name,
			": fails with ENOLCK, for there is no "
			"telling what is managed: ",
			dlk_self.broken.text, NULL);
	else
		say_no_path(r);
	return -ENOLCK;
}

int dlk_request_begin(struct request *r, const char *suffix)
{
	int err = r->rule ? expand_key(r, suffix) : refuse(r);

	if (err)
		return err;
	r->lease.ttl_ms = r->rule->ttl_ms;
	r->lease.fair = r->rule->fair;
	r->lease.interop = r->rule->interop;
	r->lease.pause_ms = r->rule->pause_ms;
	r->store = dlk_store_of(r->rule->redis);
	r->attempt.timeout_ns = PATIENCE_MS * DLK_MS;
	if (r->store->connect_timeout_ms < PATIENCE_MS)
		r->attempt.timeout_ns = r->store->connect_timeout_ms * DLK_MS;
	if (r->store->fault) {
		dlk_request_line(r, DLK_ERROR, r->store->fault, "",
				 "; the call fails with ENOLCK");
		return -ENOLCK;
	}
	r->on_fuse = dlk_fs_of(r->fd, r->file.dev) == DLK_FS_FUSE;
	return 0;
}

/* --- asking --------------------------------------------------------------- */

ssize_t dlk_request_token(struct request *r, uint64_t since_ns, char *buf,
			  size_t size)
{
	const char *path = NULL;

	if (!r->rule->tells_path &&
	    dlk_kernel_path(r->program_fd, r->s->room.path,
			    sizeof(r->s->room.path)) > 0)
		path = r->s->room.path;
	return dlk_identity_token(r->fd, &r->file, path, since_ns,
				  r->kind == DLK_POSIX, buf, size);
}

static const char *why_nameless(int err)
{
	switch (err) {
	case -EREMOTEIO:
		return "nothing tells this host from others: "
		       "/proc/sys/kernel/random/boot_id cannot be read, and no "
		       "host_id is set (dlock.conf(5))";
	case -ENAMETOOLONG:
		return "its token would be too long";
	default:
		return "no descriptor, or no memory, is left to read the boot "
		       "id of this host with";
	}
}

int dlk_request_new_token(struct request *r)
{
	ssize_t n = dlk_request_token(r, dlk_now_ns(), r->s->token,
				      sizeof(r->s->token));

	if (n < 0) {
		strcpy(r->attempt.why, why_nameless((int)n));
		return (int)n;
	}
	r->lease.token = r->s->token;
	r->lease.token_len = (size_t)n;
	return 0;
}

/* The token of what the owner holds, where it holds that, or a new one. */
int dlk_request_name(struct request *r)
{
	if (!r->own)
		return dlk_request_new_token(r);
	r->lease = r->own->lease;
	r->store = dlk_store_of(r->own->rule->redis);
	memcpy(r->s->token, r->lease.token, r->lease.token_len + 1);
	return 0;
}

bool dlk_request_same_key(const struct request *r, const struct dlk_hold *h)
{
	return dlk_store_of(h->rule->redis) == r->store &&
	       dlk_lease_same_key(&h->lease, &r->lease);
}

void dlk_request_by_path(struct request *r, const struct dlk_lease *by_path)
{
	r->lease = *by_path;
	r->store = dlk_store_of(r->rule->redis);
}

void dlk_request_let_go(struct request *r)
{
	dlk_unpin(r->own);
	r->own = NULL;
}

struct dlk_hold *dlk_request_new_hold(struct request *r)
{
	struct dlk_hold *h = dlk_hold_new(&r->lease);

	if (!h) {
		strcpy(r->attempt.why, "no memory for a lease");
		return NULL;
	}
	h->rule = r->rule;
	h->file = r->file;
	h->fd = r->fd;
	h->kind = r->kind;
	h->revalidates = dlk_revalidation_needed(r->rule, r->fd, &r->file);
	return h;
}

void dlk_request_never_held(struct dlk_hold *h)
{
	DLK_GUARD(&dlk_holds_mutex);
	h->lease.stays_until_ns = 0;
}

int dlk_request_ensure_renewal(struct request *r, struct dlk_hold *h,
			       uint64_t look_ns, bool is_new)
{
	if (dlk_thread_need(look_ns))
		return 0;
	if (dlk_handover(h)) {
		DLK_GUARD(&dlk_holds_mutex);
		dlk_hold_leave(h);
		return 0;
	}
	if (dlk_thread_comes() || !is_new)
		return 0;
	dlk_request_never_held(h);
	dlk_hold_end(h, END_UNLOCKED);
	strcpy(r->attempt.why,
	       "no thread and no keeper can be started to renew it");
	return -EREMOTEIO;
}

uint64_t dlk_request_weakens(struct request *r)
{
	const uint64_t was_ns = r->attempt.timeout_ns;
	uint64_t ns = r->store->connect_timeout_ms * DLK_MS;

	if (ns > r->rule->timeout_ms * DLK_MS)
		ns = r->rule->timeout_ms * DLK_MS;
	if (r->attempt.timeout_ns < ns)
		r->attempt.timeout_ns = ns;
	return was_ns;
}

bool dlk_overtakes(const struct request *r)
{
	return r->lease.fair && (dlk_any_held() || r->inherited);
}

enum dlk_rank dlk_request_rank(const struct request *r, bool is_his)
{
	if (!r->store->no_queue)
		return DLK_NO_RANK;
	if (r->acquire.wait && dlk_acquire_is_senior(&r->acquire))
		return DLK_SENIOR;
	return is_his ? DLK_NO_RANK : DLK_JUNIOR;
}

bool dlk_request_same_place(const struct request *r, bool *older)
{
	return dlk_token_same_place(r->s->token, r->lease.token_len,
				    r->s->answer.holder,
				    r->s->answer.holder_len, older);
}

bool dlk_request_is_by_lease(const struct request *r)
{
	return strncmp(r->s->answer.holder, "dlock1 ", 7) == 0;
}

/*
 * It has answered PING, though not what we had asked in time: it is there, and
 * slow, or one of us is.  The next question is given longer: to ask the same
 * with the same patience, until the timeout, would only fail more often.
 */
static void be_patient(struct request *r, uint64_t ping_ns)
{
	r->attempt.timeout_ns *= 2;
	if (r->attempt.timeout_ns < 4 * ping_ns)
		r->attempt.timeout_ns = 4 * ping_ns;
	if (r->attempt.timeout_ns > r->rule->timeout_ms * DLK_MS)
		r->attempt.timeout_ns = r->rule->timeout_ms * DLK_MS;
}

/*
 * Each time for as long as it was silent by then, and at most as long as a renewal is
 * (DESIGN 5.2), for a server that always answers late is there; but one that is
 * somewhere else by now is found by the next PING, and that is to come in time.
 */
static uint64_t silence_ns(const struct request *r, uint64_t now)
{
	const uint64_t once = r->store->connect_timeout_ms * DLK_MS;
	const uint64_t began = r->acquire.give_up_ns - r->acquire.timeout_ns;
	const uint64_t silent = now - began < 4 * once ? now - began : 4 * once;

	return silent < once || now + silent + once > r->acquire.give_up_ns
		       ? once
		       : silent;
}

/*
 * Redis did not answer in time: wait for it with nothing in hand, or the
 * callers of this host would wait out an unreachable Redis one after the
 * other, each asleep with the kernel's lock (DESIGN L1).  Any answer will do.
 */
enum acquire_event dlk_request_ping(struct request *r)
{
	const uint64_t began = dlk_now_ns();
	uint64_t by = began + silence_ns(r, began);
	struct dlk_attempt ping = { .interrupt = dlk_signal_waits,
				    .arg = r->call };
	int err;

	if (by > r->acquire.give_up_ns)
		by = r->acquire.give_up_ns;
	ping.timeout_ns = by > began ? by - began : 0;
	r->call->signal_until_ns = began + r->call->signal_delay_ns;
	err = r->store->ops->ping(r->store, &ping);
	/* An attempt that was cut short says less than the ones before. */
	if (err && err != -EINTR &&
	    !(err == -ETIMEDOUT && by == r->acquire.give_up_ns &&
	      r->attempt.why[0]))
		memcpy(r->attempt.why, ping.why, sizeof(ping.why));
	/* Whatever the signals' rate, some time it is let be. */
	if (err == -EINTR)
		r->call->signal_delay_ns *= 2;
	if (!err)
		be_patient(r, dlk_now_ns() - began);
	return dlk_event_of_redis(r, err);
}

/* --- waiting -------------------------------------------------------------- */

void dlk_request_empty_hands(struct request *r)
{
	dlk_follow(r);
	dlk_scratch_put(r->s);
	r->s = NULL;
}

int dlk_request_fill_hands(struct request *r, int err)
{
	r->s = dlk_scratch_get();
	return r->s ? err : -ENOLCK;
}

/* --- which file is it? ---------------------------------------------------- */

static bool is_below_prefix(void *found, const char *point)
{
	const struct dlk_config *c = dlk_self.config;

	for (unsigned i = 0; i < c->n_rules && !*(bool *)found; i++)
		*(bool *)found = dlk_rule_covers(&c->rules[i], point);
	return !*(bool *)found;
}

/*
 * A descriptor whose path cannot be had: on the device of a rule's prefix, or of
 * what is mounted below one.
 */
static bool on_managed_device(int fd, struct dlk_room *room)
{
	struct dlk_mount mount;
	struct dlk_file file;
	bool found = false;
	struct stat st;

	if (dlk_kernel_file(fd, &file) < 0)
		return false;
	for (unsigned i = 0; i < dlk_self.config->n_rules; i++)
		/* No prefix to compare with (chroot): it may be that one. */
		if (dlk_stat(dlk_self.config->rules[i].prefix, &st, 0) < 0 ||
		    st.st_dev == file.dev)
			return true;
	dlk_mount_points(dlk_mount_of(fd, &mount) ? mount.dev : file.dev,
			 room->search.rest, sizeof(room->search.rest),
			 is_below_prefix, &found);
	return found;
}

/*
 * A configuration that manages nothing is a mistake, mostly a mistyped prefix:
 * it is said once, by the first program that locks something and so might
 * have meant it.
 */
static void say_if_idle(const char *call)
{
	static _Atomic bool said;
	const struct dlk_config *c = dlk_self.config;
	char line[32];
	struct dlk_text t;

	if (c->n_there || atomic_exchange(&said, true))
		return;
	if (!c->n_rules) {
		dlk_log(DLK_WARNING, call, ": not managed, for ", c->file,
			" has no path section: every lock is local", NULL);
		return;
	}
	dlk_text_init(&t, line, sizeof(line));
	dlk_text_i64(&t, c->rules->line);
	dlk_log(DLK_WARNING, call, ": not managed, and no path of ", c->file,
		" covered anything when the program started (such as \"",
		c->rules->prefix, "\" in line ", line,
		"; dlockctl explain tells): every lock is local", NULL);
}

/*
 * By where a prefix led at the start the path is another rule's, or none's; by
 * now it may be of that one.
 */
static int look_again(int fd, struct dlk_room *room,
		      const struct dlk_rule **rule)
{
	struct stat st;

	if (dlk_file_known(fd, &st) < 0)
		return 0;
	return dlk_config_follow(dlk_self.config, st.st_dev, room->path,
				 sizeof(room->path), &room->search, rule)
		       ? -ENOLCK
		       : 0;
}

int dlk_rule_of(int fd, struct dlk_room *room, const struct dlk_rule **rule)
{
	char *path = room->path;
	struct dlk_file file;
	ssize_t n;

	*rule = NULL;
	path[0] = '\0';
	/* EBADF is the kernel's to say. */
	if (dlk_self.broken.text[0])
		return dlk_kernel_file(fd, &file) < 0 ? 0 : -ENOLCK;
	n = dlk_kernel_path(fd, path, sizeof(room->path));
	if (n < 0)
		path[0] = '\0';
	if (n > 0 && path[0] == '/') {
		*rule = dlk_config_match(dlk_self.config, path, (size_t)n);
		return dlk_config_may_follow(dlk_self.config, *rule)
			       ? look_again(fd, room, rule)
			       : 0;
	}
	return (n <= 0 || path[0] == '(') && on_managed_device(fd, room)
		       ? -ENOLCK
		       : 0;
}

/* r->rule, r->s->room.path; may it be a managed file? */
static bool classify(struct request *r)
{
	const char *path = r->s->room.path;
	int err = dlk_rule_of(r->fd, &r->s->room, &r->rule);

	if (err || r->rule)
		dlk_log_complain();
	if (!err && !r->rule && path[0] == '/') {
		say_if_idle(r->name);
		dlk_path_cache_add(r->fd, path, strlen(path));
	}
	return err || r->rule;
}

int dlk_request_run(struct request *r, bool wait,
		    int (*attempt)(struct request *r))
{
	int err;

	if (dlk_path_cache_has(r->fd))
		return DLK_PASS;
	DLK_INSIDE(call);
	call.wait = wait;
	r->call = &call;
	err = dlk_request_fill_hands(r, DLK_OTHER_FILE);
	if (!r->s)
		dlk_log(DLK_ERROR, r->name, ": fails with ENOLCK: no memory",
			NULL);
	while (err == DLK_OTHER_FILE) {
		r->fd = r->program_fd;
		err = classify(r) ? attempt(r) : DLK_PASS;
	}
	dlk_scratch_put(r->s);
	dlk_follow_end(r);
	if (r->rule || err != DLK_PASS)
		dlk_thread_catch_up();
	r->call = NULL;
	return err;
}

bool dlk_revalidation_needed(const struct dlk_rule *rule, int fd,
			     const struct dlk_file *file)
{
	return rule->coherence == DLK_COHERENCE_AUTO
		       ? dlk_fs_of(fd, file->dev) >= DLK_FS_CACHED
		       : rule->coherence == DLK_COHERENCE_ON;
}
