/* SPDX-License-Identifier: MIT */
/* What the C programs of the tests and benchmarks share. */
#ifndef DLK_TEST_HELPER_H
#define DLK_TEST_HELPER_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* For threads and children as well: no handler of exit(3) runs. */
__attribute__((noreturn)) static inline void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* That of tests/programs/now.c, which the scripts read. */
#ifndef DLK_TEST_CLOCK
#define DLK_TEST_CLOCK CLOCK_BOOTTIME
#endif

static inline long long now_ns(void)
{
	struct timespec t;

	clock_gettime(DLK_TEST_CLOCK, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline long now_ms(void)
{
	return (long)(now_ns() / 1000000);
}

/* The whole time, whatever handlers run meanwhile. */
static inline void pause_ns(long long ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	while (ns > 0 && nanosleep(&t, &t) && errno == EINTR)
		;
}

static inline void pause_us(long us)
{
	pause_ns(us * 1000LL);
}

static inline void pause_ms(long ms)
{
	pause_ns(ms * 1000000LL);
}

/*
 * A system call by the processor's own instruction: nothing that is preloaded can
 * know of it.  The kernel's answer: -errno when it fails.
 */
static inline long raw_syscall(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory");
	return x0;
#else
	(void)(number + a + b + c + d);
	_exit(77); /* libc's would be seen */
#endif
}

static inline int opened(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0666);

	if (fd < 0)
		die(name);
	return fd;
}

static inline int locked(const char *name)
{
	int fd = opened(name);

	if (flock(fd, LOCK_EX))
		die("flock");
	return fd;
}

/* Of a call that answers -1. */
static inline const char *outcome(int result)
{
	return result ? strerrorname_np(errno) : "0";
}

static inline void handle(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa = { .sa_flags = flags };

	sa.sa_handler = fn;
	if (sigaction(sig, &sa, NULL))
		die("sigaction");
}

/* The line of proc_pid_status(5), of a thread of this process. */
static inline const char *status_line(const char *task, const char *key)
{
	static char line[256];
	char name[320];
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/task/%s/status", task);
	f = fopen(name, "r");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			break;
	if (f)
		fclose(f);
	return line;
}

/* A line for the script; without stdio, which some programs are about. */
static inline void tell(const char *text)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "%s\n", text);

	if (n >= (int)sizeof(line) ||
	    write(STDOUT_FILENO, line, (size_t)n) != n)
		_exit(1);
}

/* The script's next line; at the end of input it goes on, too. */
static inline void wait_for_go(void)
{
	char line[64];

	while (read(STDIN_FILENO, line, sizeof(line)) < 0)
		if (errno != EINTR)
			_exit(1);
}

/* What a program can be told to do: a table of these ends with none. */
struct command {
	const char *name;
	int args; /* at least */
	int (*run)(char **arg);
};

/* PROGRAM NAME ARG...: the status of the one that is named; 64: there is none */
static inline int run_command(const struct command *c, int argc, char **argv)
{
	for (; argc > 1 && c->name; c++)
		if (argc - 2 >= c->args && strcmp(argv[1], c->name) == 0)
			return c->run(argv + 2);
	return 64;
}

static inline int by_size(const void *a, const void *b)
{
	const long long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static inline long long median(long long *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_size);
	return v[n / 2];
}

#endif
