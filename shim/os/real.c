/* SPDX-License-Identifier: MIT */
/* The real functions; see real.h. */
#include "os/real.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/number.h"
#include "os/sys.h"

/* The system call of that name, by its number and the arguments. */
#define DLK_EARLY(result, name, parameters, ...)                               \
	static result name parameters                                          \
	{                                                                      \
		return (result)dlk_syscall(__VA_ARGS__);                       \
	}

DLK_EARLY(int, early_flock, (int fd, int op), SYS_flock, fd, op)

DLK_LIKE_FCNTL(static int early_fcntl,
	       (int)dlk_syscall(DLK_SYS_FCNTL, fd, cmd, arg))
DLK_EARLY(int, early_close, (int fd), SYS_close, fd)
DLK_EARLY(int, early_dup, (int fd), SYS_dup, fd)
DLK_EARLY(int, early_dup3, (int from, int to, int flags), SYS_dup3, from, to,
	  flags)

/* AArch64 has no such call; and dup3(2) refuses what is the same already. */
static int early_dup2(int from, int to)
{
	if (from == to)
		return early_fcntl(from, F_GETFD) < 0 ? -1 : to;
	return early_dup3(from, to, 0);
}

DLK_EARLY(ssize_t, early_recvmsg, (int fd, struct msghdr *msg, int flags),
	  SYS_recvmsg, fd, msg, flags)
DLK_EARLY(int, early_execve,
	  (const char *file, char *const *argv, char *const *envp), SYS_execve,
	  file, argv, envp)

/* These are no functions of glibc before 2.34 (pidfd_getfd: 2.36) at all. */
DLK_EARLY(int, early_close_range, (unsigned first, unsigned last, int flags),
	  SYS_close_range, first, last, flags)
DLK_EARLY(int, early_execveat,
	  (int dir, const char *path, char *const *argv, char *const *envp,
	   int flags),
	  SYS_execveat, dir, path, argv, envp, flags)
DLK_EARLY(int, early_pidfd_getfd, (int pidfd, int fd, unsigned flags),
	  SYS_pidfd_getfd, pidfd, fd, flags)

static void early_closefrom(int lowest)
{
	dlk_syscall(SYS_close_range, lowest < 0 ? 0 : lowest, ~0U, 0);
}

static void early_exit(int status)
{
	dlk_syscall(SYS_exit_group, status);
}

struct dlk_real real = {
	.syscall = dlk_syscall,
	.flock = early_flock,
	.fcntl = early_fcntl,
	.fcntl64 = early_fcntl,
	.__fcntl = early_fcntl,
#ifdef __i386__
	.__fcntl_time64 = early_fcntl,
	.__recvmsg64 = early_recvmsg,
#endif
	.close = early_close,
	.__close = early_close,
	.dup = early_dup,
	.dup2 = early_dup2,
	.__dup2 = early_dup2,
	.dup3 = early_dup3,
	.recvmsg = early_recvmsg,
	.close_range = early_close_range,
	.closefrom = early_closefrom,
	.execveat = early_execveat,
	.pidfd_getfd = early_pidfd_getfd,
	.execve = early_execve,
	._exit = early_exit,
	._Exit = early_exit,
};

/* dlsym(3) returns an object pointer; ISO C has no cast for it. */
static void take(void *to, const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (p)
		memcpy(to, &p, sizeof(p));
}

void dlk_resolve_real(void)
{
#define X(name, result, args) take(&real.name, #name);
	DLK_TABLE(X)
#ifdef __i386__
	DLK_TABLE32(X)
#endif
#undef X
}

/* vdso(7) */
#if defined(__x86_64__)
#define VDSO       "linux-vdso.so.1"
#define VDSO_CLOCK "__vdso_clock_gettime"
#elif defined(__i386__)
#define VDSO       "linux-gate.so.1"
#define VDSO_CLOCK "__vdso_clock_gettime"
#else
#define VDSO       "linux-vdso.so.1"
#define VDSO_CLOCK "__kernel_clock_gettime"
#endif

/*
 * Not clock_gettime(), which is the next library's: libfaketime stands in for
 * it, and a deadline by a fake clock is none (DESIGN L5).
 */
void dlk_resolve_clock(void)
{
	void *vdso = dlopen(VDSO, RTLD_LAZY | RTLD_NOLOAD);
	void *p = vdso ? dlsym(vdso, VDSO_CLOCK) : NULL;
	dlk_clock_fn *fn;

	memcpy(&fn, &p, sizeof(fn));
	if (fn)
		dlk_clock_use(fn);
	dlerror(); /* the program's is to find none of ours */
}
