/* SPDX-License-Identifier: MIT */
/*
 * Which functions of the shim does a flock() pass through?  (make house)
 *
 * Preloaded before a shim that was built with -finstrument-functions, which
 * calls these two at each function's beginning and end.  At the return of each
 * flock(2) that locks, a line a function is added to the file that TRACE names:
 *
 *	CALL DEPTH ADDRESS	the how-manieth flock(), how deep the function
 *				was called (flock itself: 1), and where it is
 *				in the library
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { MOST = 4096 };

void __cyg_profile_func_enter(void *fn, void *from);
void __cyg_profile_func_exit(void *fn, void *from);

static struct {
	void *fn;
	unsigned depth;
} seen[MOST];

static unsigned n_seen, calls;
static __thread unsigned depth; /* 0: not in a flock() */

static void *traced(void)
{
	static void *fn;

	if (!fn)
		fn = dlsym(RTLD_DEFAULT, "flock");
	return fn;
}

void __cyg_profile_func_enter(void *fn, void *from)
{
	unsigned i = 0;

	(void)from;
	if (depth == 0 && fn != traced())
		return;
	depth++;
	while (i < n_seen && seen[i].fn != fn)
		i++;
	if (i == MOST)
		return;
	if (i == n_seen) {
		seen[n_seen].fn = fn;
		seen[n_seen++].depth = 0;
	}
	if (seen[i].depth < depth)
		seen[i].depth = depth;
}

static void report(int out)
{
	Dl_info info;

	calls++;
	for (unsigned i = 0; i < n_seen; i++)
		if (dladdr(seen[i].fn, &info))
			dprintf(out, "%u %u 0x%lx\n", calls, seen[i].depth,
				(unsigned long)((char *)seen[i].fn -
						(char *)info.dli_fbase));
	n_seen = 0;
}

void __cyg_profile_func_exit(void *fn, void *from)
{
	const char *name = getenv("TRACE");
	int out;

	(void)fn;
	(void)from;
	if (depth == 0 || --depth > 0)
		return;
	out = name ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
		   : -1;
	if (out >= 0)
		report(out);
	if (out >= 0)
		close(out);
}
