/* SPDX-License-Identifier: MIT */
/* See spawn_own.h. */
#include "os/spawn_own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/log.h"
#include "os/spawn.h"
#include "os/sys.h"

pid_t dlk_spawn_own(const char *name, const char *path, const char *installed,
		    int end)
{
	char env[600] = "DLOCK_LOG=";
	/* (execve(2) writes to none of them.) */
	char *argv[] = { (char *)(uintptr_t)name, NULL };
	char *envp[] = { env, NULL };
	const int log = dlk_log_fd();
	pid_t pid = -ENOENT;

	strncat(env, dlk_log_setting(), sizeof(env) - strlen(env) - 1);
	if (path[0] && (dlk_syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0 ||
			errno != ENOENT))
		pid = dlk_spawn(path, argv, envp, end, log, false);
	if (pid == -ENOENT || pid == -EACCES)
		pid = dlk_spawn(installed, argv, envp, end, log, false);
	return pid;
}

const char *dlk_spawn_why(int err)
{
	return err == -EXDEV ? "this process' children are of another pid "
			       "namespace, whose process 1 it would be"
	       : err == -EHOSTDOWN
		       ? "a file server does not answer, which has a file that "
			 "is open here, and others wait for it already"
			     : strerrordesc_np(-err) ?: "unknown error";
}
