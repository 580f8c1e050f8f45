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

/* A call that does what it does, behind a word of ours. */
#define DLK_BEHIND(hint, result, name, parameters, arguments)                  \
	DLK_EXPORT result name parameters                                      \
	{                                                                      \
		hint();                                                        \
		return DLK_REAL(name) arguments;                               \
	}

/* One that never returns. */
#define DLK_ENDING(hint, name, type)                                           \
	DLK_EXPORT void name(type value)                                       \
	{                                                                      \
		hint();                                                        \
		DLK_REAL(name)(value);                                         \
		__builtin_unreachable();                                       \
	}

/* clang-format off */

/* --- children ------------------------------------------------------------- */

#define DLK_CHILD(result, name, parameters, arguments)                         \
	DLK_BEHIND(dlk_before_child, result, name, parameters, arguments)

FILE *_IO_popen(const char *command, const char *type);

DLK_CHILD(pid_t, _Fork, (void), ())
DLK_CHILD(int, system, (const char *command), (command))
DLK_CHILD(FILE *, popen, (const char *command, const char *type),
	  (command, type))
DLK_CHILD(FILE *, _IO_popen, (const char *command, const char *type),
	  (command, type))
/* A shell, for what it substitutes. */
DLK_CHILD(int, wordexp, (const char *words, wordexp_t *we, int flags),
	  (words, we, flags))
DLK_CHILD(int, posix_spawn,
	  (pid_t *pid, const char *path,
	   const posix_spawn_file_actions_t *actions,
	   const posix_spawnattr_t *attr, char *const *argv,
	   char *const *envp),
	  (pid, path, actions, attr, argv, envp))
DLK_CHILD(int, posix_spawnp,
	  (pid_t *pid, const char *file,
	   const posix_spawn_file_actions_t *actions,
	   const posix_spawnattr_t *attr, char *const *argv,
	   char *const *envp),
	  (pid, file, actions, attr, argv, envp))

/* clang-format on */

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
		dlk_before_clone((unsigned)flags);                             \
		return DLK_REAL(name)(fn, stack, flags, arg, parent_tid, tls,  \
				      child_tid);                              \
	}

int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
DLK_CLONE(clone)
DLK_CLONE(__clone)

/*
 * vfork() returns twice into its caller's frame, so no C function can stand
 * in between: tell dlock, then jump, with the stack as it was.
 */
__attribute__((used, visibility("hidden"))) void *dlk_vfork_target(void);
void *dlk_vfork_target(void)
{
	dlk_before_child();
	return (void *)DLK_REAL(vfork);
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
#elif defined(__i386__)
__asm__(".text\n"
	".globl vfork, __vfork\n"
	".type vfork, @function\n"
	".type __vfork, @function\n"
	"vfork:\n"
	"__vfork:\n"
	"	endbr32\n"
	"	subl $12, %esp\n"
	"	call dlk_vfork_target\n"
	"	addl $12, %esp\n"
	"	jmp *%eax\n"
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

/* clang-format off */

#define DLK_EXEC(name, parameters, arguments)                                  \
	DLK_BEHIND(dlk_before_exec, int, name, parameters, arguments)

DLK_EXEC(execve, (const char *path, char *const *argv, char *const *envp),
	 (path, argv, envp))
DLK_EXEC(execv, (const char *path, char *const *argv), (path, argv))
DLK_EXEC(execvp, (const char *file, char *const *argv), (file, argv))
DLK_EXEC(execvpe, (const char *file, char *const *argv, char *const *envp),
	 (file, argv, envp))
DLK_EXEC(execveat,
	 (int dir, const char *path, char *const *argv, char *const *envp,
	  int flags),
	 (dir, path, argv, envp, flags))
DLK_EXEC(fexecve, (int fd, char *const *argv, char *const *envp),
	 (fd, argv, envp))

/* clang-format on */

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

/* `more`: what else is taken, after the NULL. */
#define DLK_EXECL(name, more, call)                                            \
	DLK_EXPORT int name(const char *path, const char *arg, ...)            \
	{                                                                      \
		va_list ap;                                                    \
		char **argv;                                                   \
                                                                               \
		va_start(ap, arg);                                             \
		argv = alloca(count(arg, ap) * sizeof(*argv));                 \
		fill(argv, arg, &ap);                                          \
		more;                                                          \
		va_end(ap);                                                    \
		return call;                                                   \
	}

/* The first two with the environment as it is. */
DLK_EXECL(execl, , execve(path, argv, environ))
DLK_EXECL(execlp, , execvp(path, argv))
DLK_EXECL(execle, char *const *envp = va_arg(ap, char *const *),
	  execve(path, argv, envp))

/* --- the end -------------------------------------------------------------- */

DLK_ENDING(dlk_before_exit, _exit, int)
DLK_ENDING(dlk_before_exit, _Exit, int)
DLK_ENDING(dlk_before_exit, quick_exit, int)
/* The main thread: the process ends with its last thread, which may be ours. */
DLK_ENDING(dlk_main_ends, pthread_exit, void *)
DLK_ENDING(dlk_main_ends, thrd_exit, int)
