/* SPDX-License-Identifier: MIT */
/*
 * What programs of a user need of this host: doctor does it as they would, and
 * in a child that has become that user.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/shadowdir.h"
#include "tools/common.h"
#include "tools/doctor.h"

#define LIBRARY DLK_LIBDIR "/libdlock-preload.so"
#define KEEPER  DLK_LIBEXECDIR "/dlock-keeper"

/* For messages: "user 1000". */
static const char *me(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "user %u", (unsigned)geteuid());
	return text;
}

/* --- the configuration and its secrets ------------------------------------ */

/* Loaded once more: what root could read this user perhaps cannot. */
static void look_at_config(struct doctor *d)
{
	struct dlk_error err = { "" };
	struct dlk_config *config;

	if (dlk_config_load(d->config->file, false, NULL, NULL, &config,
			    &err)) {
		doctor_find(d, DOCTOR_CRITICAL,
			    "every lock call of its programs fails with ENOLCK",
			    "make the file, and the directories before it, "
			    "readable by all (chmod 644); passwords are in "
			    "files of their own",
			    "%s cannot use the configuration: %s", me(),
			    err.text);
		return;
	}
	for (unsigned i = 0; i < config->n_redis; i++)
		if (tool_config_uses(config, &config->redis[i]) &&
		    config->redis[i].fault)
			doctor_find(d, DOCTOR_CRITICAL,
				    "every lock call of its programs under "
				    "these rules fails with ENOLCK",
				    DOCTOR_SECRET,
				    "%s cannot use redis \"%s\": %s", me(),
				    config->redis[i].name,
				    config->redis[i].fault);
	dlk_config_free(config);
}

/* --- the socket of a local server ----------------------------------------- */

static void look_at_sockets(struct doctor *d)
{
	for (size_t i = 0; i < d->n_servers; i++) {
		const struct dlk_endpoint *ep = d->servers[i].ep;

		if (ep->scheme == DLK_UNIX &&
		    tool_listens(ep->path, SOCK_STREAM | SOCK_NONBLOCK) ==
			    -EACCES)
			doctor_find(d, DOCTOR_CRITICAL,
				    "every lock call of its programs under "
				    "these rules fails with ENOLCK",
				    "set unixsocketperm and the group of the "
				    "socket in redis.conf, or add the user to "
				    "that group",
				    "%s may not connect to %s", me(), ep->path);
	}
}

/* --- the library and its keeper ------------------------------------------- */

static _Noreturn void run_preloaded(const char *library, int out)
{
	char *argv[] = { (char[]){ "true" }, NULL };
	char env[DLK_PATH_MAX + 16];
	char *envp[] = { env, (char[]){ "DLOCK_DISABLE=1" }, NULL };

	snprintf(env, sizeof(env), "LD_PRELOAD=%s", library);
	dup2(out, STDERR_FILENO);
	execve("/bin/true", argv, envp);
	_exit(DLK_EXIT_NOT_FOUND);
}

/* What ld.so says of it on standard error; "" for nothing. */
static void preload(const char *library, char *said, size_t size)
{
	int fds[2];
	pid_t pid;
	ssize_t n;

	said[0] = '\0';
	if (pipe2(fds, O_CLOEXEC))
		return;
	pid = fork();
	if (pid == 0)
		run_preloaded(library, fds[1]);
	close(fds[1]);
	n = read(fds[0], said, size - 1);
	said[n > 0 ? n : 0] = '\0';
	said[strcspn(said, "\n")] = '\0';
	close(fds[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void look_at_library(struct doctor *d)
{
	char file[DLK_PATH_MAX], said[1024];

	tool_beside("libdlock-preload.so", LIBRARY, F_OK, file);
	preload(file, said, sizeof(said));
	if (*said)
		doctor_find(d, DOCTOR_CRITICAL,
			    "ld.so goes on without it, and its programs lock "
			    "nothing in Redis",
			    "make install; the file and the directories before "
			    "it are to be readable by all",
			    "%s cannot preload %s: %s", me(), file, said);
	tool_beside("dlock-keeper", KEEPER, F_OK, file);
	if (access(file, X_OK))
		doctor_find(d, DOCTOR_CRITICAL,
			    "a lock that outlives its process (exec 9>f; "
			    "flock 9) is lost after its ttl",
			    "make install; the file is to be of mode 755",
			    "%s cannot run %s: %s", me(), file,
			    strerror(errno));
}

/* --- the shadows ---------------------------------------------------------- */

static void look_at_state(struct doctor *d)
{
	struct dlk_shadow_why why = { "" };
	int fd = dlk_shadowdir_open(d->config->state_dir, true, &why);

	if (fd >= 0) {
		close(fd);
		return;
	}
	doctor_find(d, DOCTOR_WARNING,
		    "files that cannot be locked themselves, on some shares "
		    "and by local = \"shadow\", fail with ENOLCK",
		    "install -d -m 1777 the directory; systemd-tmpfiles "
		    "--create makes the default one",
		    "%s has no place in state_dir \"%s\": %s", me(),
		    d->config->state_dir,
		    why.text[0] ? why.text : strerror(-fd));
}

void doctor_user(struct doctor *d)
{
	look_at_config(d);
	look_at_sockets(d);
	look_at_library(d);
	look_at_state(d);
}
