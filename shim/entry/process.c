/* SPDX-License-Identifier: MIT */
/*
 * Calls that make a child, become another program, or end this one.  fork(),
 * daemon() and forkpty() come through pthread_atfork(3); the rest do not.
 */
#include <alloca.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>
#include <unistd.h>

#include "entry/export.h"
#include "entry/lifecycle.h"
#include "entry/start.h"
#include "os/real.h"

static void need(const void *pointer)
{
	if (!pointer)
		dlk_resolve_real();
}

/* --- children ------------------------------------------------------------- */

DLK_EXPORT pid_t _Fork(void)
{
	need((void *)real._Fork);
	dlk_before_child();
	return real._Fork();
}

DLK_EXPORT int system(const char *command)
{
	need((void *)real.system);
	dlk_before_child();
	return real.system(command);
}

#define DLK_POPEN(name)                                                        \
	DLK_EXPORT FILE *name(const char *command, const char *type)           \
	{                                                                      \
		need((void *)real.name);                                       \
		dlk_before_child();                                            \
		return real.name(command, type);                               \
	}

FILE *_IO_popen(const char *command, const char *type);
DLK_POPEN(popen)
DLK_POPEN(_IO_popen)

/* A shell, for what it substitutes. */
DLK_EXPORT int wordexp(const char *words, wordexp_t *we, int flags)
{
	need((void *)real.wordexp);
	dlk_before_child();
	return real.wordexp(words, we, flags);
}

/* Whatever the flags, three words may follow them: clone(2). */
#define DLK_CLONE(name)                                                        \
	DLK_EXPORT int name(int (*fn)(void *), void *stack, int flags,         \
			    void *arg, ...)                                    \
	{                                                                      \
		void *parent_tid, *tls, *child_tid;                            \
		va_list ap;                                                    \
                                                                               \
		va_start(ap, arg);                                             \
		parent_tid = va_arg(ap, void *);                               \
		tls = va_arg(ap, void *);                                      \
		child_tid = va_arg(ap, void *);                                \
		va_end(ap);                                                    \
		need((void *)real.name);                                       \
		if (!(flags & CLONE_THREAD))                                   \
			dlk_before_child();                                    \
		return real.name(fn, stack, flags, arg, parent_tid, tls,       \
				 child_tid);                                   \
	}

int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
DLK_CLONE(clone)
DLK_CLONE(__clone)

DLK_EXPORT int posix_spawn(pid_t *pid, const char *path,
			   const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attr, char *const *argv,
			   char *const *envp)
{
	need((void *)real.posix_spawn);
	dlk_before_child();
	return real.posix_spawn(pid, path, actions, attr, argv, envp);
}

DLK_EXPORT int posix_spawnp(pid_t *pid, const char *file,
			    const posix_spawn_file_actions_t *actions,
			    const posix_spawnattr_t *attr, char *const *argv,
			    char *const *envp)
{
	need((void *)real.posix_spawnp);
	dlk_before_child();
	return real.posix_spawnp(pid, file, actions, attr, argv, envp);
}

/*
 * vfork() returns twice into its caller's frame, so no C function can stand
 * in between: tell dlock, then jump, with the stack as it was.
 */
__attribute__((used, visibility("hidden"))) void *dlk_vfork_target(void);
void *dlk_vfork_target(void)
{
	need((void *)real.vfork);
	dlk_before_child();
	return (void *)real.vfork;
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl vfork, __vfork\n"
	".type vfork, @function\n"
	".type __vfork, @function\n"
	"vfork:\n"
	"__vfork:\n"
	"	endbr64\n"
	"	subq $8, %rsp\n"
	"	call dlk_vfork_target\n"
	"	addq $8, %rsp\n"
	"	jmp *%rax\n"
	".size vfork, .-vfork\n"
	".size __vfork, .-__vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl vfork, __vfork\n"
	".type vfork, %function\n"
	".type __vfork, %function\n"
	"vfork:\n"
	"__vfork:\n"
	"	stp x29, x30, [sp, #-16]!\n"
	"	bl dlk_vfork_target\n"
	"	ldp x29, x30, [sp], #16\n"
	"	br x0\n"
	".size vfork, .-vfork\n"
	".size __vfork, .-__vfork\n");
#else
DLK_EXPORT pid_t vfork(void)
{
	return fork(); /* POSIX lets vfork() be fork() */
}

pid_t __vfork(void);
DLK_EXPORT pid_t __vfork(void)
{
	return fork();
}
#endif

/* --- exec ----------------------------------------------------------------- */

static int exec_path(const char *path, char *const *argv, char *const *envp)
{
	dlk_before_exec();
	return real.execve(path, argv, envp);
}

static int exec_file(const char *file, char *const *argv)
{
	need((void *)real.execvp);
	dlk_before_exec();
	return real.execvp(file, argv);
}

DLK_EXPORT int execve(const char *path, char *const *argv, char *const *envp)
{
	return exec_path(path, argv, envp);
}

DLK_EXPORT int execv(const char *path, char *const *argv)
{
	return exec_path(path, argv, environ);
}

DLK_EXPORT int execvp(const char *file, char *const *argv)
{
	return exec_file(file, argv);
}

DLK_EXPORT int execvpe(const char *file, char *const *argv, char *const *envp)
{
	need((void *)real.execvpe);
	dlk_before_exec();
	return real.execvpe(file, argv, envp);
}

DLK_EXPORT int execveat(int dir, const char *path, char *const *argv,
			char *const *envp, int flags)
{
	need((void *)real.execveat);
	dlk_before_exec();
	return real.execveat(dir, path, argv, envp, flags);
}

DLK_EXPORT int fexecve(int fd, char *const *argv, char *const *envp)
{
	need((void *)real.fexecve);
	dlk_before_exec();
	return real.fexecve(fd, argv, envp);
}

/* The arguments of execl and its like, with the NULL. */
static size_t count(const char *arg, va_list ap)
{
	va_list copy;
	size_t n = 1;

	va_copy(copy, ap);
	while (arg) {
		arg = va_arg(copy, const char *);
		n++;
	}
	va_end(copy);
	return n;
}

static void fill(char **argv, const char *arg, va_list *ap)
{
	size_t n = 0;

	for (; arg; arg = va_arg(*ap, const char *))
		argv[n++] = (char *)(uintptr_t)arg;
	argv[n] = NULL;
}

DLK_EXPORT int execl(const char *path, const char *arg, ...)
{
	va_list ap;
	char **argv;

	va_start(ap, arg);
	argv = alloca(count(arg, ap) * sizeof(*argv));
	fill(argv, arg, &ap);
	va_end(ap);
	return exec_path(path, argv, environ);
}

DLK_EXPORT int execlp(const char *file, const char *arg, ...)
{
	va_list ap;
	char **argv;

	va_start(ap, arg);
	argv = alloca(count(arg, ap) * sizeof(*argv));
	fill(argv, arg, &ap);
	va_end(ap);
	return exec_file(file, argv);
}

DLK_EXPORT int execle(const char *path, const char *arg, ...)
{
	char *const *envp;
	va_list ap;
	char **argv;

	va_start(ap, arg);
	argv = alloca(count(arg, ap) * sizeof(*argv));
	fill(argv, arg, &ap);
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return exec_path(path, argv, envp);
}

/* --- the end -------------------------------------------------------------- */

DLK_EXPORT void _exit(int status)
{
	dlk_before_exit();
	real._exit(status);
	__builtin_unreachable();
}

DLK_EXPORT void _Exit(int status)
{
	dlk_before_exit();
	real._exit(status);
	__builtin_unreachable();
}

/* The main thread: the process ends with its last thread, which may be ours. */
DLK_EXPORT void pthread_exit(void *result)
{
	need((void *)real.pthread_exit);
	dlk_main_ends();
	real.pthread_exit(result);
	__builtin_unreachable();
}

DLK_EXPORT void thrd_exit(int result)
{
	need((void *)real.thrd_exit);
	dlk_main_ends();
	real.thrd_exit(result);
	__builtin_unreachable();
}

DLK_EXPORT void quick_exit(int status)
{
	need((void *)real.quick_exit);
	dlk_before_exit();
	real.quick_exit(status);
	__builtin_unreachable();
}
