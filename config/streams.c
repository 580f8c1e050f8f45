/* SPDX-License-Identifier: MIT */
/*
 * libc's streams as libconfuse.a means them: stdin, stdout and stderr, and a
 * text in memory, which is read without a buffer of libc's in between, for it
 * may hold a password.
 *
 * The preload library contains libconfuse: with a libconfuse.so it could not
 * be loaded after a chroot(2) or into a container that lacks one, and each
 * program's start would pay for another library (80 us of 285 [m]).  Debian's
 * archive is built for executables, which may take a copy of libc's variables;
 * a library may not, so the Makefile gives them these names.
 */
#include "config/internal.h"

FILE *dlk_stdin, *dlk_stdout, *dlk_stderr;

void dlk_syntax_streams(void)
{
	dlk_stdin = stdin;
	dlk_stdout = stdout;
	dlk_stderr = stderr;
}

FILE *dlk_fmemopen(void *text, size_t size, const char *mode)
{
	FILE *f = fmemopen(text, size, mode);

	if (f)
		setvbuf(f, NULL, _IONBF, 0);
	return f;
}
