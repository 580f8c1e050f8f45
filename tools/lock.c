/* SPDX-License-Identifier: MIT */
/*
 * dlockctl lock KEY -- COMMAND: run a command while a lease is held, without the
 * library and without a file.
 *
 * KEY is a key, or a path (/, ./ or ../ first) under a rule: then it is that
 * file's, and excludes programs that lock the file under dlock, on every host.
 * No kernel lock is taken, so programs of this host without dlock are not
 * excluded.
 *
 *  1. The command MUST NOT run without the lease: when that cannot be renewed
 *     it is told (SIGTERM) at two thirds of the ttl, and all that it started is
 *     killed before another can have the lease; at once if another has it, or if
 *     this process is killed (family.h).
 *  2. The exit status is the command's own.
 *
 *	asked	 ttl/3		2 ttl/3		      deadline	 ttl
 *	|--------|--------------|-------------|-------|----------|
 *		 renew, again	SIGTERM	      SIGKILL
 *		 each ttl/20		      (ttl/10 before)
 */
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/timeline.h"
#include "os/sys.h"
#include "redis/tls.h"
#include "tools/chronicle.h"
#include "tools/common.h"
#include "tools/ctl.h"
#include "tools/family.h"
#include "tools/lease_job.h"
#include "tools/options.h"
#include "tools/subject.h"

/* Of a key that no rule has, as dlock.conf(5) has them; and what a wait is worth
 * a record of. */
enum {
	TIMEOUT_MS = 5000,
	LONG_WAIT_MS = 1000,
};

struct lock {
	const struct ctl *ctl;
	struct subject subject; /* of a path */
	const struct dlk_rule *rule;
	const char *key;
	struct lease_job job;
	sigset_t mask; /* as it was */
	int ended;     /* signalfd(2): a child has */
	pid_t child;
	bool told, killed;
	uint64_t due_ns; /* the next renewal */
};

/* --- which lease ---------------------------------------------------------- */

/* Does the rule's template give the key?  (An inode, or nothing, tells no path.) */
static bool gives(const struct dlk_rule *rule, const char *key)
{
	char text[DLK_PATH_MAX];

	if (rule->tells_path)
		return dlk_key_to_path(rule, key, strlen(key), text,
				       sizeof(text)) >= 0;
	return dlk_key_glob(rule, text, sizeof(text)) >= 0 &&
	       !fnmatch(text, key, 0);
}

/* (As of a rule; there it is said when the configuration is read.) */
static void warn_of_restarts(const char *key, const struct dlk_rule *rule)
{
	const struct dlk_endpoint *ep = rule->redis->endpoints;

	if (!ep->restart_delay_ms || ep->restart_delay_ms >= rule->ttl_ms)
		return;
	tool_say("warning: %s: its ttl is %s, as connect_timeout wants it, but "
		 "redis \"%s\" (%s) grants again %s after it was restarted: "
		 "give it a longer restart_delay, or a shorter connect_timeout",
		 key, option_duration(rule->ttl_ms).text, rule->redis->name,
		 ep->name, option_duration(ep->restart_delay_ms).text);
}

/* The first one, of those whose template tells a path, or of the others. */
static const struct dlk_rule *rule_that_gives(const struct dlk_config *config,
					      const char *key, bool by_path)
{
	for (unsigned i = 0; i < config->n_rules; i++)
		if (config->rules[i].tells_path == by_path &&
		    gives(&config->rules[i], key))
			return &config->rules[i];
	return NULL;
}

/*
 * The rule whose template gives it; else one of the only server, by default.  Where an
 * inode or a word of its own may be anything, a path tells more.
 */
static int find_rule(struct lock *l)
{
	static struct dlk_rule plain = { .prefix = "/",
					 .key = "",
					 .timeout_ms = TIMEOUT_MS };
	const struct dlk_config *config = l->ctl->config;
	const struct dlk_redis *only = config->redis;

	l->rule = rule_that_gives(config, l->key, true);
	if (!l->rule)
		l->rule = rule_that_gives(config, l->key, false);
	if (l->rule)
		return 0;
	if (config->n_redis > 1)
		return tool_fail(DLK_EXIT_USAGE,
				 "%s: at which Redis?  %s has several, and no "
				 "rule gives that key: say --redis URL",
				 l->key, config->file);
	if (!config->n_redis)
		return tool_fail(DLK_EXIT_CONFIG, "%s has no redis section",
				 config->file);
	plain.redis = only;
	plain.ttl_ms = tool_ttl_beside(only->endpoints);
	l->rule = &plain;
	warn_of_restarts(l->key, &plain);
	return 0;
}

/* One that stands beside another key, or is of records, is nobody's to lock. */
static bool is_taken(const char *key)
{
	size_t n = strlen(key), m = strlen(RECORD_SUFFIX);

	return !n || n > DLK_KEY_MAX - m || strpbrk(key, "{}") ||
	       !strncmp(key, "dlock%", strlen("dlock%")) ||
	       (n > m && !strcmp(key + n - m, RECORD_SUFFIX));
}

static bool is_path(const char *given)
{
	return *given == '/' || !strncmp(given, "./", 2) ||
	       !strncmp(given, "../", 3);
}

/*
 * A word that is a file here, too, which programs lock under a rule: as a key it
 * would not exclude those, nor who names the file otherwise.
 */
static int refuse_file(struct lock *l, const char *given)
{
	struct stat st;

	if (stat(given, &st) || S_ISDIR(st.st_mode))
		return 0;
	if (subject_find(l->ctl->config, given, &l->subject))
		return DLK_EXIT_CONFIG;
	if (!l->subject.rule)
		return 0;
	return tool_fail(DLK_EXIT_USAGE,
			 "%s: a key, and there is a file of that name here, "
			 "which a rule manages: say %s for the file (for the "
			 "key, begin in another directory)",
			 given, l->subject.path);
}

static int find_key(struct lock *l)
{
	int rc = 0;

	if (is_taken(l->key))
		rc = tool_fail(
			DLK_EXIT_USAGE,
			"%s: not a key for a lock (no braces, no '%%rec' "
			"at its end, no 'dlock%%' at its beginning)",
			l->key);
	if (!rc)
		rc = refuse_file(l, l->key);
	return rc ? rc : find_rule(l);
}

/* (Of what is found nowhere 1 would say that another has it.) */
static int find_lease(struct lock *l)
{
	int rc;

	l->key = l->ctl->argv[0];
	if (!is_path(l->key)) {
		rc = find_key(l);
	} else {
		rc = subject_find_managed(l->ctl->config, l->key, &l->subject);
		l->rule = l->subject.rule;
		l->key = l->subject.key;
	}
	if (rc == DLK_EXIT_NOTHING)
		rc = DLK_EXIT_CONFIG;
	if (!rc && l->rule->redis->fault)
		rc = tool_fail(DLK_EXIT_CONFIG, "%s", l->rule->redis->fault);
	return rc;
}

/* --- signals -------------------------------------------------------------- */

static int open_one(const sigset_t *heard)
{
	sigprocmask(SIG_BLOCK, heard, NULL);
	return signalfd(-1, heard, SFD_CLOEXEC | SFD_NONBLOCK);
}

/*
 * All that is to be heard comes by a descriptor; the command has them back.  What
 * is ignored (nohup(1)) stays so.  The end of a child, which may be one that was
 * there before us (sh -c 'x & exec dlockctl ...'), ends nothing else.
 */
static void open_signals(struct lock *l)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction was;
	sigset_t heard;

	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, NULL, &l->mask);
	/*
	 * In the background of a terminal with "stty tostop" a message would stop
	 * us, and then nobody renews, or kills in time.
	 */
	sigemptyset(&heard);
	sigaddset(&heard, SIGTTOU);
	sigprocmask(SIG_BLOCK, &heard, NULL);
	sigemptyset(&heard);
	sigaddset(&heard, SIGCHLD);
	l->ended = open_one(&heard);
	sigemptyset(&heard);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (!sigaction(ends[i], NULL, &was) &&
		    was.sa_handler != SIG_IGN)
			sigaddset(&heard, ends[i]);
	l->job.signals = open_one(&heard);
}

/* The next one; 0: none.  A terminal's go to the command by themselves. */
static int next_signal(const struct lock *l, bool *by_terminal)
{
	struct signalfd_siginfo info;

	if (read(l->job.signals, &info, sizeof(info)) != sizeof(info))
		return 0;
	*by_terminal = info.ssi_code == SI_KERNEL;
	return (int)info.ssi_signo;
}

static bool has_signal(const struct lock *l)
{
	struct pollfd p = { .fd = l->job.signals, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Ended by that signal, as without us. */
static _Noreturn void end_by(const struct lock *l)
{
	bool by_terminal;
	int signal_number = next_signal(l, &by_terminal);
	sigset_t all;

	signal(signal_number, SIG_DFL);
	raise(signal_number);
	sigemptyset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	_exit(128 + signal_number);
}

/* --- holding -------------------------------------------------------------- */

static uint64_t kill_ns(const struct lock *l)
{
	return lease_job_kill_ns(&l->job);
}

static void record(const struct lock *l, const char *what, uint64_t lasted_ms)
{
	struct dlk_chronicle_entry e = {
		.what = what,
		.host = l->job.words.hostname,
		.who = l->job.words.command,
		.pid = (unsigned)getpid(),
		.lasted_ms = lasted_ms,
		.token = l->job.words.random,
	};

	chronicle_add(l->rule->redis, l->key, &e);
}

static void tell(struct lock *l)
{
	const char *done =
		family_kill(SIGTERM, "WILL RUN ON without the lease");

	l->told = true;
	/* (A message must not wait for who reads it: the lease does not.) */
	if (tool_is_read())
		tool_say("%s: could not be renewed for long: %s (%s)", l->key,
			 done, l->job.why);
}

static void kill_all(struct lock *l, const char *why)
{
	const char *done;

	if (l->killed)
		return;
	l->killed = true;
	done = family_kill(SIGKILL, "RUN ON without the lease");
	if (tool_is_read())
		tool_say("%s: the lease is LOST: %s (%s)", l->key, done, why);
}

/* No longer than until the next thing is due that has to be done without it. */
static void renew(struct lock *l)
{
	const uint32_t ttl = l->rule->ttl_ms;
	const uint64_t warn = dlk_warn_ns(l->job.asked_ns, ttl);
	const uint64_t until = dlk_now_ns() < warn ? warn : kill_ns(l);
	int err = lease_job_renew(&l->job, until);
	uint64_t now = dlk_now_ns();

	if (!err) {
		l->due_ns = dlk_renew_ns(l->job.asked_ns, ttl);
		l->told = false; /* of the next outage it has to be, too */
		return;
	}
	l->due_ns = dlk_retry_ns(now, ttl);
	if (err > 0) {
		kill_all(l, "another has it, or it was broken");
		record(l, "lost", (now - l->job.words.since_ns) / DLK_MS);
	}
}

/* What is due by now. */
static void look(struct lock *l)
{
	uint64_t now = dlk_now_ns();

	if (l->killed)
		return;
	if (now >= l->due_ns && now < kill_ns(l))
		renew(l);
	now = dlk_now_ns();
	if (!l->told && now >= dlk_warn_ns(l->job.asked_ns, l->rule->ttl_ms))
		tell(l);
	if (now >= kill_ns(l))
		kill_all(l, l->job.why);
}

/* Until the next thing is due. */
static int rest_ms(const struct lock *l)
{
	uint64_t now = dlk_now_ns(), next = l->due_ns;
	uint64_t warn = dlk_warn_ns(l->job.asked_ns, l->rule->ttl_ms);

	if (l->killed)
		return -1;
	if (!l->told && warn < next)
		next = warn;
	if (kill_ns(l) < next)
		next = kill_ns(l);
	return next > now ? (int)((next - now) / DLK_MS) + 1 : 0;
}

static void hear(const struct lock *l)
{
	struct signalfd_siginfo child;
	bool by_terminal = false;
	int signal_number;

	while (read(l->ended, &child, sizeof(child)) > 0)
		;
	while ((signal_number = next_signal(l, &by_terminal)))
		if (!by_terminal)
			kill(l->child, signal_number);
}

/*
 * What came while it was being made: a terminal's may have come before it was there
 * to have it, and one too many does less harm than one too few.
 */
static void pass_on(const struct lock *l)
{
	bool by_terminal;
	int signal_number;

	while ((signal_number = next_signal(l, &by_terminal)))
		kill(l->child, signal_number);
}

/* The command's status, as a shell tells it. */
static int hold(struct lock *l)
{
	struct pollfd p[2] = {
		{ .fd = l->job.signals, .events = POLLIN },
		{ .fd = l->ended, .events = POLLIN },
	};
	int status = 0;

	l->due_ns = dlk_renew_ns(l->job.asked_ns, l->rule->ttl_ms);
	l->child = family_start(l->ctl->argv + 1, &l->mask, l->key);
	if (l->child < 0) {
		l->job.lease.stays_until_ns = 0; /* nothing has run */
		return tool_fail(DLK_EXIT_CANNOT, "%s: no process for it: %s",
				 l->ctl->argv[1], strerror(-l->child));
	}
	pass_on(l);
	while (!family_reap(l->child, &status)) {
		look(l);
		poll(p, 2, rest_ms(l));
		hear(l);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void give_back(struct lock *l)
{
	const struct dlk_redis *redis = l->rule->redis;

	if (!lease_job_end(&l->job) && !l->killed)
		tool_say(
			"%s: not released at redis \"%s\" (%s): %s; its ttl of "
			"%s ends it, or dlockctl break",
			l->key, redis->name, redis->endpoints->name, l->job.why,
			option_duration(l->rule->ttl_ms).text);
}

static int run(struct lock *l, uint64_t asked_ns)
{
	uint64_t waited_ms = (dlk_now_ns() - asked_ns) / DLK_MS;
	int status = hold(l);

	give_back(l);
	/* Last, for nobody is to wait for what is only written down. */
	if (waited_ms >= LONG_WAIT_MS)
		record(l, "waited", waited_ms);
	return status;
}

/* --- the verb ------------------------------------------------------------- */

static int refuse(const struct lock *l)
{
	struct dlk_token t;
	char host[DLK_WORD_MAX], command[DLK_WORD_MAX];

	if (!dlk_token_parse(l->job.holder, strlen(l->job.holder), &t))
		return tool_fail(DLK_EXIT_NOTHING, "%s: it is locked", l->key);
	dlk_unword(t.hostname, host, sizeof(host));
	dlk_unword(t.command, command, sizeof(command));
	if (t.since_ns == DLK_NO_LOCK_NS)
		return tool_fail(DLK_EXIT_NOTHING,
				 "%s: it is released, and kept for its "
				 "hold_at_least; the last one was host %s, "
				 "process %u (%s)",
				 l->key, host, t.pid, command);
	return tool_fail(DLK_EXIT_NOTHING,
			 "%s: it is locked by host %s, process %u (%s)", l->key,
			 host, t.pid, command);
}

/* The store does not tell what is at fault; a helper that lacks a file does. */
static int exit_of_failure(const struct dlk_endpoint *ep)
{
	char why[256];

	return dlk_tls_connects(ep) &&
			       tool_ping(ep, why, sizeof(why)) == TOOL_UNREADY
		       ? DLK_EXIT_CONFIG
		       : DLK_EXIT_UNAVAILABLE;
}

static int get_and_run(struct lock *l)
{
	const struct dlk_redis *redis = l->rule->redis;
	uint64_t asked_ns = dlk_now_ns();

	switch (lease_job_get(&l->job)) {
	case LEASE_HELD:
		if (!has_signal(l))
			return run(l, asked_ns);
		/* It came while the server was being asked: nothing has run. */
		l->job.lease.stays_until_ns = 0;
		give_back(l);
		end_by(l);
	case LEASE_BUSY:
		return refuse(l);
	case LEASE_SIGNAL:
		end_by(l);
	case LEASE_FAILED:
		break;
	}
	return tool_fail(exit_of_failure(redis->endpoints),
			 "%s: no lease at redis \"%s\" (%s): %s; so %s was not "
			 "run: see dlockctl doctor",
			 l->key, redis->name, redis->endpoints->name,
			 l->job.why, l->ctl->argv[1]);
}

int verb_lock(const struct ctl *ctl)
{
	static struct lock l;
	uint64_t wait_ms = 0;
	int rc = ctl_option_duration(ctl, OPT_WAIT, &wait_ms);

	l.ctl = ctl;
	if (!rc && ctl->given[OPT_WAIT] && ctl->given[OPT_NOWAIT])
		rc = tool_fail(DLK_EXIT_USAGE, "-n goes not with -w");
	if (!rc && ctl->json)
		rc = tool_fail(DLK_EXIT_USAGE,
			       "standard output is the command's: lock has no "
			       "--json");
	if (!rc)
		rc = find_lease(&l);
	if (rc)
		return rc;
	open_signals(&l);
	/* Not to wait at all is -n, as flock(1) has it. */
	l.job.waits =
		!ctl->given[OPT_NOWAIT] && (!ctl->given[OPT_WAIT] || wait_ms);
	if (wait_ms)
		l.job.until_ns = dlk_now_ns() + wait_ms * DLK_MS;
	rc = lease_job_begin(&l.job, ctl->config, l.rule, l.key,
			     ctl->given[OPT_SHARED] != NULL,
			     basename(ctl->argv[1]));
	if (rc == -EREMOTEIO)
		return tool_fail(DLK_EXIT_CONFIG,
				 "%s: no lease: nothing tells this host from "
				 "others: /proc/sys/kernel/random/boot_id "
				 "cannot be read, and %s has no host_id",
				 l.key, ctl->config->file);
	if (rc)
		return tool_fail(DLK_EXIT_CANNOT, "%s: no lease: %s", l.key,
				 strerror(-rc));
	return get_and_run(&l);
}
