/* SPDX-License-Identifier: MIT */
/*
 * System calls that nobody can stand in between; see sys.h.
 *
 * syscall(3) and clone(2) are names of libc like others: the shim exports
 * them, and so may a library preloaded before it.  What is ours must reach the
 * kernel and not come back to us.
 *
 * Elsewhere than on x86-64, i386 and AArch64 the shim does not replace the two
 * (entry/by_number.c), and libc's do.
 */
#include "os/sys.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORDS = 6 }; /* the most that any system call takes: syscall(2) */

#if defined(__x86_64__) && !defined(__ILP32__)

static long raw(long nr, const long a[WORDS])
{
	register long d __asm__("r10") = a[3];
	register long e __asm__("r8") = a[4];
	register long f __asm__("r9") = a[5];
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "0"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(d),
			   "r"(e), "r"(f)
			 : "rcx", "r11", "memory");
	return r;
}

/* The child finds fn and arg on its stack, and no frame above (rbp). */
static long raw_clone(unsigned long flags, void **stack)
{
	register long ctid __asm__("r10") = 0;
	register long tls __asm__("r8") = 0;
	long r;

	__asm__ volatile("syscall\n"
			 "	testq %%rax, %%rax\n"
			 "	jnz 1f\n"
			 "	xorl %%ebp, %%ebp\n"
			 "	popq %%rax\n"
			 "	popq %%rdi\n"
			 "	call *%%rax\n"
			 "	movl %%eax, %%edi\n"
			 "	movl %[exit], %%eax\n"
			 "	syscall\n"
			 "	hlt\n"
			 "1:"
			 : "=a"(r)
			 : "0"(SYS_clone), "D"(flags), "S"(stack), "d"(0),
			   "r"(ctid), "r"(tls), [exit] "i"(SYS_exit)
			 : "rcx", "r11", "memory");
	return r;
}

#elif defined(__aarch64__)

static long raw(long nr, const long a[WORDS])
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a[0];
	register long x1 __asm__("x1") = a[1];
	register long x2 __asm__("x2") = a[2];
	register long x3 __asm__("x3") = a[3];
	register long x4 __asm__("x4") = a[4];
	register long x5 __asm__("x5") = a[5];

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

static long raw_clone(unsigned long flags, void **stack)
{
	register long x8 __asm__("x8") = SYS_clone;
	register long x0 __asm__("x0") = (long)flags;
	register long x1 __asm__("x1") = (long)stack;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = 0;

	__asm__ volatile("svc 0\n"
			 "	cbnz x0, 1f\n"
			 "	mov x29, 0\n"
			 "	ldp x1, x0, [sp], 16\n"
			 "	blr x1\n"
			 "	mov x8, %[exit]\n"
			 "	svc 0\n"
			 "	brk 1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3),
			   "r"(x4), [exit] "i"(SYS_exit)
			 : "memory");
	return x0;
}

#elif defined(__i386__)

/*
 * Six words take all registers but eax and esp, so this is a function of its
 * own: ebp, ebx, esi and edi are the caller's.
 */
long dlk_int80(long nr, const long *a);
__asm__(".text\n"
	".hidden dlk_int80\n"
	".globl dlk_int80\n"
	".type dlk_int80, @function\n"
	"dlk_int80:\n"
	"	.cfi_startproc\n"
	"	pushl %ebp\n"
	"	.cfi_adjust_cfa_offset 4\n"
	"	.cfi_rel_offset ebp, 0\n"
	"	pushl %edi\n"
	"	.cfi_adjust_cfa_offset 4\n"
	"	.cfi_rel_offset edi, 0\n"
	"	pushl %esi\n"
	"	.cfi_adjust_cfa_offset 4\n"
	"	.cfi_rel_offset esi, 0\n"
	"	pushl %ebx\n"
	"	.cfi_adjust_cfa_offset 4\n"
	"	.cfi_rel_offset ebx, 0\n"
	"	movl 20(%esp), %eax\n"
	"	movl 24(%esp), %ebp\n"
	"	movl (%ebp), %ebx\n"
	"	movl 4(%ebp), %ecx\n"
	"	movl 8(%ebp), %edx\n"
	"	movl 12(%ebp), %esi\n"
	"	movl 16(%ebp), %edi\n"
	"	movl 20(%ebp), %ebp\n"
	"	int $0x80\n"
	"	popl %ebx\n"
	"	.cfi_adjust_cfa_offset -4\n"
	"	.cfi_restore ebx\n"
	"	popl %esi\n"
	"	.cfi_adjust_cfa_offset -4\n"
	"	.cfi_restore esi\n"
	"	popl %edi\n"
	"	.cfi_adjust_cfa_offset -4\n"
	"	.cfi_restore edi\n"
	"	popl %ebp\n"
	"	.cfi_adjust_cfa_offset -4\n"
	"	.cfi_restore ebp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size dlk_int80, .-dlk_int80\n");

static long raw(long nr, const long a[WORDS])
{
	return dlk_int80(nr, a);
}

/*
 * The child finds fn and arg on its stack, and no frame above (ebp).  Its
 * argument stands where a callee looks for it, 16 bytes aligned.
 */
static long raw_clone(unsigned long flags, void **stack)
{
	long r;

	__asm__ volatile("int $0x80\n"
			 "	testl %%eax, %%eax\n"
			 "	jnz 1f\n"
			 "	xorl %%ebp, %%ebp\n"
			 "	popl %%eax\n"
			 "	popl %%edx\n"
			 "	subl $12, %%esp\n"
			 "	pushl %%edx\n"
			 "	call *%%eax\n"
			 "	movl %%eax, %%ebx\n"
			 "	movl %[exit], %%eax\n"
			 "	int $0x80\n"
			 "	hlt\n"
			 "1:"
			 : "=a"(r)
			 : "0"(SYS_clone), "b"(flags), "c"(stack), "d"(0),
			   "S"(0), "D"(0), [exit] "i"(SYS_exit)
			 : "memory");
	return r;
}

#else
#define DLK_NO_RAW

static long raw(long nr, const long a[WORDS])
{
	return syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#endif

/* The kernel answers -1 .. -4095 for an errno. */
#define RESULT(r)                                                              \
	((unsigned long)(r) < -4095UL ? (r) : (errno = (int)-(r), -1L))

/*
 * Six words are taken, however many were given, as syscall(3) does: the
 * kernel looks at those that the call has.  (ASan takes the rest for a read
 * beyond the caller's arguments, and is right.)
 */
__attribute__((no_sanitize("address"))) long dlk_syscall(long nr, ...)
{
	long a[WORDS];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < WORDS; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
#ifdef DLK_NO_RAW
	return raw(nr, a);
#else
	nr = raw(nr, a);
	return RESULT(nr);
#endif
}

pid_t dlk_clone(int (*fn)(void *), void *stack, unsigned long flags, void *arg)
{
#ifdef DLK_NO_RAW
	return clone(fn, stack, (int)flags, arg);
#else
	void **top = (void **)((uintptr_t)stack & ~(uintptr_t)15);
	long r;

	top[-2] = (void *)fn;
	top[-1] = arg;
	r = raw_clone(flags, top - 2);
	return (pid_t)RESULT(r);
#endif
}
