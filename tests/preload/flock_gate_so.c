/* SPDX-License-Identifier: MIT */
/*
 * Preloaded after the shim, so that the shim's flock(2) is this one: stops at
 * a gate, once.  $GATE is a file of two words, which goes as one stops there;
 *
 *	before|after UN|SH|EX
 *
 * and then a line is written to the fifo $GATE.at, and one read from $GATE.go.
 * With `fails` it fails instead, by EBADF.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* What comes after: the shim's own would lock. */
static int next(const char *name, int fd, int op)
{
	int (*f)(int fd, int op);
	void *p = dlsym(RTLD_NEXT, name);

	memcpy(&f, &p, sizeof(f));
	return f(fd, op);
}

static int opened(const char *gate, const char *suffix)
{
	char name[512];

	snprintf(name, sizeof(name), "%s%s", gate, suffix);
	return open(name, O_RDWR | O_CLOEXEC);
}

static const char *name_of(int op)
{
	switch (op & ~LOCK_NB) {
	case LOCK_UN:
		return "UN";
	case LOCK_SH:
		return "SH";
	default:
		return "EX";
	}
}

static bool is_meant(const char *gate, const char *when, int op)
{
	char text[32] = "", wanted[32];
	int fd = opened(gate, "");

	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	next("close", fd, 0);
	snprintf(wanted, sizeof(wanted), "%s %s\n", when, name_of(op));
	return strcmp(text, wanted) == 0 && unlink(gate) == 0;
}

static void pass(const char *when, int op)
{
	const char *gate = getenv("GATE");
	int saved = errno, at, go;
	char c;

	if (!gate || !is_meant(gate, when, op))
		return;
	at = opened(gate, ".at");
	go = opened(gate, ".go");
	if (write(at, "\n", 1) != 1 || read(go, &c, 1) != 1)
		abort();
	next("close", at, 0);
	next("close", go, 0);
	errno = saved;
}

int flock(int fd, int op)
{
	const char *gate = getenv("GATE");
	int r;

	if (gate && is_meant(gate, "fails", op)) {
		errno = EBADF;
		return -1;
	}
	pass("before", op);
	r = next("flock", fd, op);
	if (r == 0)
		pass("after", op);
	return r;
}
