/* SPDX-License-Identifier: MIT */
/*
 * The Redis behind a run: does it answer?  And a private one, where none is
 * configured: redis-server on a unix socket in the runtime directory, started
 * by the first run, found again by the later ones, never stopped by us.
 *
 *  1. At most one is started: under flock(2) on start.lock, and only after a
 *     PING there went unanswered.
 *  2. It MUST inherit no descriptor: one of the caller's that is locked
 *     (`exec 9>f; flock 9`) would stay locked for as long as the server runs.
 *  3. It MUST NOT be preloaded, should dlock itself run under dlock.
 */
#include "tools/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/sys.h"
#include "tools/common.h"

enum { START_MS = 5000, PAUSE_MS = 10 };

static bool answers(const struct dlk_endpoint *ep)
{
	char why[256];

	return !tool_ping(ep, why, sizeof(why));
}

static _Noreturn void exec_server(const char *dir)
{
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket",
	       "redis.sock", "--unixsocketperm", "700", "--save", "",
	       "--appendonly", "no", "--daemonize", "yes", "--dir", dir,
	       "--pidfile", "redis.pid", "--logfile", "redis.log", NULL);
	_exit(errno == ENOENT ? DLK_EXIT_NOT_FOUND : DLK_EXIT_CANNOT);
}

/* In the child.  A relative name fits where sun_path's 108 bytes may not. */
static _Noreturn void child(const char *dir)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	if (dlk_close_from(3))
		_exit(DLK_EXIT_DENIED);
	unsetenv("LD_PRELOAD");
	unsetenv("DLOCK_CONFIG");
	umask(077);
	if (chdir(dir))
		_exit(DLK_EXIT_CONFIG);
	exec_server(dir);
}

static int status_of(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : DLK_EXIT_NOTHING;
}

/*
 * Started, and gone into the background: its exit status, or -errno.  Where our
 * caller ignores SIGCHLD no child of ours leaves one (wait(2)); the command is to
 * find that as it was.
 */
static int spawn(const char *dir)
{
	const struct sigaction normal = { .sa_handler = SIG_DFL };
	struct sigaction was;
	pid_t pid;
	int status;

	sigaction(SIGCHLD, &normal, &was);
	pid = fork();
	if (!pid)
		child(dir);
	status = pid < 0 ? -errno : status_of(pid);
	sigaction(SIGCHLD, &was, NULL);
	return status;
}

/* Why it was not started at all; NULL: it was. */
static const char *obstacle(int status)
{
	switch (status) {
	case DLK_EXIT_CANNOT:
		return "what PATH has by that name cannot be executed";
	case DLK_EXIT_CONFIG:
		return "that directory cannot be entered";
	case DLK_EXIT_DENIED:
		return "it would keep what is open here, and so what is "
		       "locked, "
		       "for close_range(2) is refused and /proc/self/fd cannot "
		       "be read";
	default:
		return status < 0 ? strerror(-status) : NULL;
	}
}

static int start(const char *dir, const struct dlk_endpoint *ep)
{
	uint64_t until = dlk_now_ns() + START_MS * UINT64_C(1000000);
	int status = spawn(dir);

	if (status == DLK_EXIT_NOT_FOUND)
		return tool_fail(DLK_EXIT_UNAVAILABLE,
				 "no Redis is configured and redis-server is "
				 "not installed: install it (Debian: apt "
				 "install redis-server), or name one with "
				 "--redis URL");
	if (obstacle(status))
		return tool_fail(DLK_EXIT_UNAVAILABLE,
				 "no Redis is configured and redis-server was "
				 "not started in %s: %s: mend that, or name "
				 "one with --redis URL",
				 dir, obstacle(status));
	while (!status && dlk_now_ns() < until) {
		if (answers(ep))
			return 0;
		dlk_pause_ns(PAUSE_MS * UINT64_C(1000000));
	}
	return tool_fail(DLK_EXIT_UNAVAILABLE,
			 "the private redis-server did not start; see "
			 "%s/redis.log",
			 dir);
}

static int start_once(const char *dir, const struct dlk_endpoint *ep)
{
	char lock[DLK_PATH_MAX + 16];
	int fd, rc;

	snprintf(lock, sizeof(lock), "%s/start.lock", dir);
	fd = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	/* The system call, for a shim above us must not ask Redis for it. */
	while (fd >= 0 && dlk_syscall(SYS_flock, fd, LOCK_EX))
		if (errno != EINTR)
			break;
	rc = answers(ep) ? 0 : start(dir, ep);
	if (fd >= 0)
		close(fd);
	return rc;
}

int run_server(const struct run_plan *plan)
{
	char dir[DLK_PATH_MAX];
	int rc;

	if (!plan->own_server)
		return 0;
	rc = run_dir(dir);
	if (!rc && !answers(&plan->server))
		rc = start_once(dir, &plan->server);
	if (!rc)
		tool_say("no Redis configured: a private one at %s serves this "
			 "machine only",
			 plan->server.name);
	return rc;
}

/* A rule of unreachable = "local" works without it, after a warning. */
static bool required(const struct dlk_config *config,
		     const struct dlk_redis *redis)
{
	for (unsigned i = 0; i < config->n_rules; i++)
		if (config->rules[i].redis == redis &&
		    config->rules[i].unreachable == DLK_UNREACHABLE_FAIL)
			return true;
	return false;
}

/* Why one of its servers cannot be asked; "" if it answers. */
struct answer {
	char why[512];
};

/* What the command goes on without is warned of; else it is an error's reason. */
static void say_silent(const struct dlk_redis *redis, const struct answer *a,
		       bool goes_on)
{
	for (unsigned i = 0; i < redis->n_endpoints; i++)
		if (*a[i].why)
			tool_say("%sredis \"%s\": %s: %s",
				 goes_on ? "warning: " : "", redis->name,
				 redis->endpoints[i].name, a[i].why);
}

static int ping_redis(const struct dlk_config *config,
		      const struct dlk_redis *redis)
{
	const unsigned needed =
		redis->mode == DLK_CLUSTER ? 1 : tool_needed(redis);
	struct answer *answers =
		tool_room(redis->n_endpoints, sizeof(*answers));
	unsigned good = 0, unready = 0;
	bool goes_on;

	for (unsigned i = 0; i < redis->n_endpoints; i++) {
		enum tool_bar bar =
			tool_ping(&redis->endpoints[i], answers[i].why,
				  sizeof(answers[i].why));

		good += !bar;
		unready += bar == TOOL_UNREADY;
		if (!bar)
			answers[i].why[0] = '\0';
	}
	/* (Of a cluster, who answers tells of the others.) */
	goes_on = good >= needed || !required(config, redis);
	say_silent(redis, answers, goes_on);
	free(answers);
	if (goes_on)
		return 0;
	return unready ? DLK_EXIT_CONFIG : DLK_EXIT_UNAVAILABLE;
}

static int ping_all(const struct dlk_config *config)
{
	for (unsigned i = 0; i < config->n_redis; i++) {
		const struct dlk_redis *redis = &config->redis[i];
		int rc = 0;

		if (!tool_config_uses(config, redis))
			continue;
		if (redis->fault)
			return tool_fail(DLK_EXIT_CONFIG, "%s", redis->fault);
		rc = ping_redis(config, redis);
		if (rc)
			return rc;
	}
	return 0;
}

int run_ping(const struct run_plan *plan)
{
	int rc = ping_all(plan->loaded);

	return rc ? tool_fail(rc, "%s was not run: see dlockctl -c %s doctor",
			      plan->program, plan->config)
		  : 0;
}
