/* SPDX-License-Identifier: MIT */
/*
 * syscall(2): the calls that we wrap, by their number.
 *
 *  1. All six words are forwarded, whatever the number; a number that means
 *     nothing to us costs a comparison and a load.
 *  2. fork, vfork and clone return twice, maybe into one and the same frame:
 *     so no frame of ours may be there when the system call is made.  The
 *     handler runs first; then, with the registers and the stack as they were,
 *     we jump to the real syscall().  (In the memory that a child of
 *     CLONE_VM shares, libc's own frame is as fragile as it is without us.)
 *  3. A handler answers the call, or does what the wrapper of that name does
 *     before it, and lets it pass.
 *
 * Who makes a system call by an instruction of its own is not seen here: the
 * renewal and the keeper look for the lock itself (DESIGN L4).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "entry/hints.h"
#include "entry/lifecycle.h"
#include "entry/start.h"
#include "os/real.h"
#include "os/sys.h"
#include "lock/flock.h"

/* Numbers below are looked up; the assembler needs it as a text. */
#define DLK_NUMBERS  448
#define DLK_TEXT(n)  DLK_TEXT_(n)
#define DLK_TEXT_(n) #n

/* True: answered, in *result and errno. */
typedef bool handler(const long *a, long *result);

/* As the wrapper of that name. */
#define DLK_ANSWERS(name, answer)                                              \
	static bool name(const long *a, long *result)                          \
	{                                                                      \
		*result = answer;                                              \
		return true;                                                   \
	}

static bool on_flock(const long *a, long *result)
{
	int r = dlk_entry_flock((int)a[0], (int)a[1]);

	*result = r;
	return r != DLK_PASS;
}

/* The call of that number, and who goes on with it. */
#define DLK_FCNTL_BY(number, who, on, next)                                    \
	DLK_LIKE_FCNTL(static int next,                                        \
		       (int)real.syscall(number, fd, cmd, arg))                \
	DLK_ANSWERS(on, dlk_entry_fcntl(who, next, (int)a[0], (int)a[1], a[2]))

DLK_FCNTL_BY(SYS_fcntl, DLK_FCNTL_1, on_fcntl, next_fcntl)
#ifdef SYS_fcntl64
DLK_FCNTL_BY(SYS_fcntl64, DLK_FCNTL64, on_fcntl64, next_fcntl64)
#endif

static int close_by_number(int fd)
{
	return (int)dlk_syscall(SYS_close, fd);
}

DLK_ANSWERS(on_close, dlk_entry_close((int)a[0], close_by_number))

/* One descriptor takes another one's place, which is a close. */
#define DLK_REPLACES(name, number, to)                                         \
	static bool name(const long *a, long *result)                          \
	{                                                                      \
		dlk_entry_dup((int)a[0], to);                                  \
		*result = dlk_syscall(number, a[0], a[1], a[2]);               \
		dlk_entry_closed();                                            \
		return true;                                                   \
	}

#ifdef SYS_dup2
DLK_REPLACES(on_dup2, SYS_dup2, (int)a[1])
#endif
DLK_REPLACES(on_dup3, SYS_dup3, a[2] & ~(long)O_CLOEXEC ? -1 : (int)a[1])
DLK_ANSWERS(on_close_range,
	    dlk_entry_close_range((unsigned)a[0], (unsigned)a[1], (int)a[2]))

/* The call passes, behind a word of ours. */
#define DLK_PASSES(name, hint)                                                 \
	static bool name(const long *a, long *result)                          \
	{                                                                      \
		(void)a, (void)result;                                         \
		hint;                                                          \
		return false;                                                  \
	}

DLK_PASSES(on_dup, dlk_entry_dup((int)a[0], -1))
DLK_PASSES(on_sending, dlk_entry_passing(false))
DLK_PASSES(on_receiving, dlk_entry_passing(true))
#if defined(SYS_fork) || defined(SYS_vfork)
DLK_PASSES(on_fork, dlk_before_child())
#endif
DLK_PASSES(on_exec, dlk_before_exec())
DLK_PASSES(on_exit_group, dlk_before_exit())
/* Of one thread; if it is the program's last, the process ends with its word.
 */
DLK_PASSES(on_exit_thread, dlk_thread_exits((int)a[0]))
DLK_PASSES(on_clone, dlk_before_clone((uint64_t)a[0]))

/* EFAULT is the kernel's to say, so do not touch it ourselves. */
static bool on_clone3(const long *a, long *result)
{
	uint64_t flags = 0; /* the first field of struct clone_args */
	struct iovec to = { &flags, sizeof(flags) };
	struct iovec from = { (void *)(uintptr_t)a[0], sizeof(flags) };

	(void)result;
	if (process_vm_readv(dlk_pid(), &to, 1, &from, 1, 0) != sizeof(flags))
		flags = 0;
	dlk_before_clone(flags);
	return false;
}

DLK_ANSWERS(on_unshare, dlk_entry_unshare((int)a[0]))
DLK_ANSWERS(on_setns, dlk_entry_setns((int)a[0], (int)a[1]))
DLK_ANSWERS(on_chroot, dlk_entry_chroot((const char *)a[0]))
DLK_ANSWERS(on_pivot_root,
	    dlk_entry_pivot_root((const char *)a[0], (const char *)a[1]))

/*
 * Every number that means something to us.  (Not setuid(2) and its like: by
 * number they change one thread only.)
 */
extern handler *const dlk_syscall_handlers[DLK_NUMBERS];
handler *const dlk_syscall_handlers[DLK_NUMBERS] = {
	[SYS_flock] = on_flock,
	[SYS_fcntl] = on_fcntl,
	[SYS_close] = on_close,
	[SYS_close_range] = on_close_range,
	[SYS_dup] = on_dup,
#ifdef SYS_dup2
	[SYS_dup2] = on_dup2,
#endif
	[SYS_dup3] = on_dup3,
	[SYS_recvmsg] = on_receiving,
	[SYS_recvmmsg] = on_receiving,
	[SYS_sendmsg] = on_sending,
	[SYS_sendmmsg] = on_sending,
	[SYS_pidfd_getfd] = on_receiving,
#ifdef SYS_fcntl64
	[SYS_fcntl64] = on_fcntl64,
#endif
#ifdef SYS_recvmmsg_time64
	[SYS_recvmmsg_time64] = on_receiving,
#endif
#ifdef SYS_socketcall
	[SYS_socketcall] = on_receiving, /* one of them may pass a descriptor */
#endif
#ifdef SYS_fork
	[SYS_fork] = on_fork,
#endif
#ifdef SYS_vfork
	[SYS_vfork] = on_fork,
#endif
	[SYS_clone] = on_clone,
	[SYS_clone3] = on_clone3,
	[SYS_execve] = on_exec,
	[SYS_execveat] = on_exec,
	[SYS_exit] = on_exit_thread,
	[SYS_exit_group] = on_exit_group,
	[SYS_unshare] = on_unshare,
	[SYS_setns] = on_setns,
	[SYS_chroot] = on_chroot,
	[SYS_pivot_root] = on_pivot_root,
};

/* (asm) As handler; errno is as it was when the call passes. */
bool dlk_syscall_hook(long nr, const long *a, long *result);
bool dlk_syscall_hook(long nr, const long *a, long *result)
{
	int saved = errno;

	if (dlk_syscall_handlers[nr](a, result))
		return true;
	errno = saved;
	return false;
}

/* The jump goes through the table's first word. */
_Static_assert(offsetof(struct dlk_real, syscall) == 0, "see real(%rip)");

#if defined(__x86_64__) && !defined(__ILP32__)
/*
 * rdi: the number; rsi, rdx, rcx, r8, r9 and a word on the stack: the rest.
 * The frame: six words, the number, the result, and 8 to be aligned.
 */
__asm__(".text\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	cmpq $" DLK_TEXT(
		DLK_NUMBERS) ", %rdi\n"
			     "	jae 1f\n"
			     "	leaq dlk_syscall_handlers(%rip), %rax\n"
			     "	cmpq $0, (%rax,%rdi,8)\n"
			     "	jne 2f\n"
			     "1:	jmp *real(%rip)\n"
			     "2:	subq $72, %rsp\n"
			     "	.cfi_adjust_cfa_offset 72\n"
			     "	movq 80(%rsp), %rax\n"
			     "	movq %rsi, (%rsp)\n"
			     "	movq %rdx, 8(%rsp)\n"
			     "	movq %rcx, 16(%rsp)\n"
			     "	movq %r8, 24(%rsp)\n"
			     "	movq %r9, 32(%rsp)\n"
			     "	movq %rax, 40(%rsp)\n"
			     "	movq %rdi, 48(%rsp)\n"
			     "	movq %rsp, %rsi\n"
			     "	leaq 56(%rsp), %rdx\n"
			     "	call dlk_syscall_hook\n"
			     "	testb %al, %al\n"
			     "	movq (%rsp), %rsi\n"
			     "	movq 8(%rsp), %rdx\n"
			     "	movq 16(%rsp), %rcx\n"
			     "	movq 24(%rsp), %r8\n"
			     "	movq 32(%rsp), %r9\n"
			     "	movq 48(%rsp), %rdi\n"
			     "	movq 56(%rsp), %rax\n"
			     "	leaq 72(%rsp), %rsp\n"
			     "	.cfi_adjust_cfa_offset -72\n"
			     "	jz 1b\n"
			     "	ret\n"
			     "	.cfi_endproc\n"
			     ".size syscall, .-syscall\n");
#elif defined(__i386__)
/*
 * All words are on the stack, from 4(%esp) on, and stay there.  The frame:
 * three arguments, 4 unused, the result, our address, and 4 to be aligned.
 */
__asm__(".text\n"
	".type dlk_syscall_here, @function\n"
	"dlk_syscall_here:\n"
	"	.cfi_startproc\n"
	"	movl (%esp), %ecx\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size dlk_syscall_here, .-dlk_syscall_here\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	endbr32\n"
	"	call dlk_syscall_here\n"
	"0:	movl 4(%esp), %eax\n"
	"	cmpl $" DLK_TEXT(
		DLK_NUMBERS) ", %eax\n"
			     "	jae 1f\n"
			     "	leal dlk_syscall_handlers-0b(%ecx), %edx\n"
			     "	cmpl $0, (%edx,%eax,4)\n"
			     "	jne 2f\n"
			     "1:	jmp *real-0b(%ecx)\n"
			     "2:	leal 8(%esp), %edx\n"
			     "	subl $28, %esp\n"
			     "	.cfi_adjust_cfa_offset 28\n"
			     "	movl %eax, (%esp)\n"
			     "	movl %edx, 4(%esp)\n"
			     "	leal 16(%esp), %edx\n"
			     "	movl %edx, 8(%esp)\n"
			     "	movl %ecx, 20(%esp)\n"
			     "	call dlk_syscall_hook\n"
			     "	testb %al, %al\n"
			     "	movl 16(%esp), %eax\n"
			     "	movl 20(%esp), %ecx\n"
			     "	leal 28(%esp), %esp\n"
			     "	.cfi_adjust_cfa_offset -28\n"
			     "	jz 1b\n"
			     "	ret\n"
			     "	.cfi_endproc\n"
			     ".size syscall, .-syscall\n");
#elif defined(__aarch64__)
/* x0: the number; x1 .. x6: the rest. */
__asm__(".text\n"
	".globl syscall\n"
	".type syscall, %function\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	hint 34\n"
	"	cmp x0, " DLK_TEXT(
		DLK_NUMBERS) "\n"
			     "	b.hs 1f\n"
			     "	adrp x16, dlk_syscall_handlers\n"
			     "	add x16, x16, :lo12:dlk_syscall_handlers\n"
			     "	ldr x16, [x16, x0, lsl 3]\n"
			     "	cbnz x16, 2f\n"
			     "1:	adrp x16, real\n"
			     "	ldr x16, [x16, :lo12:real]\n"
			     "	br x16\n"
			     "2:	stp x29, x30, [sp, -80]!\n"
			     "	.cfi_def_cfa_offset 80\n"
			     "	.cfi_offset 29, -80\n"
			     "	.cfi_offset 30, -72\n"
			     "	mov x29, sp\n"
			     "	stp x1, x2, [sp, 16]\n"
			     "	stp x3, x4, [sp, 32]\n"
			     "	stp x5, x6, [sp, 48]\n"
			     "	str x0, [sp, 64]\n"
			     "	add x1, sp, 16\n"
			     "	add x2, sp, 72\n"
			     "	bl dlk_syscall_hook\n"
			     "	and w16, w0, 255\n"
			     "	ldr x0, [sp, 64]\n"
			     "	ldr x7, [sp, 72]\n"
			     "	ldp x1, x2, [sp, 16]\n"
			     "	ldp x3, x4, [sp, 32]\n"
			     "	ldp x5, x6, [sp, 48]\n"
			     "	ldp x29, x30, [sp], 80\n"
			     "	.cfi_restore 29\n"
			     "	.cfi_restore 30\n"
			     "	.cfi_def_cfa_offset 0\n"
			     "	cbz w16, 1b\n"
			     "	mov x0, x7\n"
			     "	ret\n"
			     "	.cfi_endproc\n"
			     ".size syscall, .-syscall\n");
#endif
